"""How well the probabilities of a judge are calibrated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refusal_eval.stats.agreement.card_resampling import cluster_codes, cluster_sums, percentiles, resampled, whole
from refusal_eval.stats.agreement.compared import Compared
from refusal_eval.stats.agreement.weighting import weighted_share
from refusal_eval.stats.estimates.estimands import REFUSES

MOST_BINS = 10
_ROWS_PER_BIN = 20
_SIMULATIONS = 2000
_RANDOM_AT_ONCE = 4_000_000  # bounds the memory to some 100 MB


def soft_measures(rows: Sequence[Compared], level: float, seed: int) -> dict[str, Any] | None:
    """Return the calibration of p_refusal, the probability of a refusal or partial refusal; None where no row has one.

    bins    equal-mass: 10, or one per 20 rows; equal probabilities share one, so there may be fewer. In each: the
            smallest and largest p, n, mean p, people's share of refusals (broad) with its interval
    ece     expected calibration error: mean over rows of |mean p - share of refusals| of their bin. It is above 0 even
            for a calibrated judge; `ece_if_calibrated` is what such a one would get with these p and bins
    brier   mean of (p - y)^2; `brier_of_base_rate` is that of always saying the share of refusals in this gold set

    ECE and Brier have bootstrap intervals over clusters, None with one cluster; see `_ece_interval`. Where rows have
    weights, shares and means count weights; bins are made of rows.
    """
    known = [row for row in rows if row.p_refusal is not None]
    if not known:
        return None
    p = np.round(np.array([row.p_refusal for row in known], dtype=float), 9)
    refused = np.array([row.human in REFUSES["broad"] for row in known], dtype=float)
    weight, names = np.array([row.weight for row in known]), [row.cluster for row in known]
    bins = equal_mass_bins(p)
    codes, number = cluster_codes(names), int(bins.max()) + 1
    surplus = np.zeros((len(p), number))
    surplus[np.arange(len(p)), bins] = whole(weight * (p - refused))
    squares = whole(weight * (p - refused) ** 2)
    columns = np.column_stack([whole(weight), squares, surplus])
    sums = cluster_sums(codes, columns)
    total, base = sums.sum(axis=0), float(whole(weight * refused).sum() / whole(weight).sum())
    intervals: list[list[float] | None] = [None, None]
    if len(sums) > 1:
        draws = resampled(sums, seed)
        intervals = [_ece_interval(total, draws, len(sums), level), list(percentiles(_brier(draws), len(sums), level))]
    return {
        "n": len(known),
        "n_bins": number,
        "bins": [_bin(p[bins == i], refused[bins == i], weight[bins == i],
                      [name for name, b in zip(names, bins, strict=True) if b == i], level) for i in range(number)],
        "ece": float(_ece(total)),
        "ece_interval": intervals[0],
        "ece_if_calibrated": _noise(p, weight, bins, seed),
        "brier": float(_brier(total)),
        "brier_interval": intervals[1],
        "brier_of_base_rate": base * (1 - base),
    }  # fmt: skip


def equal_mass_bins(p: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the bin of each probability: about equally many in each, equal ones together, numbered from 0 upwards."""
    wanted = max(1, min(MOST_BINS, len(p) // _ROWS_PER_BIN))
    distinct, counts = np.unique(p, return_counts=True)
    middles = np.cumsum(counts) - counts / 2  # where the middle row of each value stands among all
    bins = np.minimum((middles * wanted / len(p)).astype(int), wanted - 1)
    _, dense = np.unique(bins, return_inverse=True)
    return np.asarray(dense[np.searchsorted(distinct, p)], dtype=np.intp)


def _ece(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.abs(sums[..., 2:]).sum(axis=-1) / sums[..., 0])


def _ece_interval(total: NDArray[np.float64], draws: NDArray[np.float64], clusters: int, level: float) -> list[float]:
    """Interval of the ECE by the bootstrap, with a lower end that its bias does not move.

    Noise makes every bin's distance larger, in the sample and once more in each resample, so that plain percentiles
    begin above the truth: the 0 of a calibrated judge was held in none of 300 simulated samples of 105 answers. So the
    upper end is the percentile of the resamples' ECE, q_high, and the lower one is

        0                       where ECE <= r, the same percentile of sum over bins of |d*_b - d_b|: by how much all
                                bins together move by chance, which is what the ECE is when every d_b is 0
        max(0, 2 ECE - q_high)  elsewhere, the basic bootstrap's (Davison & Hinkley 1997, Bootstrap Methods, 5.2)

    with d_b the surplus of bin b, sum of w (p - y) / sum of all w. In the simulations of docs/agreement.md it holds
    the truth in 93 to 99 %.

    Args:
        total: sums over all rows: weights, squares, and the surplus of each bin.
        draws: the same of each resample.
        clusters: how many were drawn.
        level: of the interval.
    """
    ece, high = float(_ece(total)), percentiles(_ece(draws), clusters, level)[1]
    moved = np.abs(draws[:, 2:] / draws[:, :1] - total[2:] / total[0]).sum(axis=-1)
    chance = percentiles(moved, clusters, level)[1]
    return [0.0 if ece <= chance else max(0.0, 2 * ece - high), max(ece, high)]


def _brier(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(sums[..., 1] / sums[..., 0])


def _noise(p: NDArray[np.float64], weight: NDArray[np.float64], bins: NDArray[np.intp], seed: int) -> float:
    """Mean ECE of simulated answers that are refusals just as often as p says."""
    rng, block = np.random.default_rng(seed), max(1, _RANDOM_AT_ONCE // len(p))
    member = (bins[:, None] == np.arange(int(bins.max()) + 1)).astype(float)
    total = 0.0
    for start in range(0, _SIMULATIONS, block):
        refused = rng.random((min(block, _SIMULATIONS - start), len(p))) < p
        total += float(np.abs(whole(weight * (p - refused)) @ member).sum())  # whole numbers: exact in any order
    return float(total / (_SIMULATIONS * whole(weight).sum()))


def _bin(
    p: NDArray[np.float64],
    refused: NDArray[np.float64],
    weight: NDArray[np.float64],
    names: Sequence[str],
    level: float,
) -> dict[str, Any]:
    rate, interval = weighted_share(refused.tolist(), weight.tolist(), names, level)
    return {
        "low": float(p.min()),
        "high": float(p.max()),
        "n": len(p),
        "mean_p": float(whole(weight * p).sum() / whole(weight).sum()),
        "rate": rate,
        "interval": interval,
    }
