"""Made-up comparisons of a known design, to see what the test and the interval do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.polynomial import Polynomial
from scipy import optimize, special, stats

from refusal_eval.stats.comparisons.sign_flips import sign_flip_p
from refusal_eval.stats.estimates.intervals import Floats
from refusal_eval.tools.power.comparison_design import Design, difference_variance

COLUMNS = ("K", "clusters", "prompts in each")
_GRID = np.linspace(-8.5, 8.5, 6801)
_TERMS = 80  # of the Hermite series: the rest is nothing that a simulation could notice


def cluster_correlation_of(design: Design, difference: float, share: float) -> float:
    """Return the correlation of the differences in a cluster whose prompts share part of what is a model's own.

    Args:
        design: the design, whose own `cluster_correlation` does not matter.
        difference: the true difference.
        share: the part, on the scale of the normal numbers behind the probabilities.
    """
    common = (1 - _latent(design, difference)) * share
    covariance = sum(float(_series(c, c)(common)) for c in _coefficients(design, difference))
    return covariance / difference_variance(design, difference)


def shared_part(design: Design, difference: float) -> float:
    """Return that share for the design's cluster correlation.

    Raises:
        ValueError: if no share gives so high a correlation: the samples' own noise is not shared.
    """
    wanted = design.cluster_correlation
    if wanted == 0:
        return 0.0
    if wanted > cluster_correlation_of(design, difference, 1.0):
        raise ValueError("so high a cluster correlation cannot be with these models' correlation and K")
    found: float = optimize.brentq(lambda share: cluster_correlation_of(design, difference, share) - wanted, 0, 1)
    return found


def simulated_refusals(design: Design, difference: float, runs: int, seed: int) -> Floats:
    """Return the refusals out of K of each prompt under both models: 2 x runs x clusters x prompts.

    Probabilities are of beta distributions, tied together by normal numbers behind them (a Gaussian copula) whose
    correlations are chosen so that those of the probabilities are the design's.
    """
    rng = np.random.default_rng(seed)
    shape = (runs, design.clusters, round(design.prompts_per_cluster))
    share = shared_part(design, difference)
    latent = _latent(design, difference)
    common = rng.standard_normal(shape)
    found = []
    for rate in (design.rate, design.rate + difference):
        own = rng.standard_normal(shape)
        if share:
            own = np.sqrt(share) * rng.standard_normal((*shape[:2], 1)) + np.sqrt(1 - share) * own
        normal = np.sqrt(latent) * common + np.sqrt(1 - latent) * own
        found.append(rng.binomial(design.samples, probabilities(normal, rate, design.prompt_correlation)))
    return np.array(found, dtype=float)


def probabilities(normal: Floats, rate: float, correlation: float) -> Floats:
    """Return standard normal numbers turned into probabilities with mean `rate`, whose samples correlate so."""
    if correlation == 0 or rate in (0, 1):
        return np.full(np.shape(normal), rate)
    if correlation == 1:
        return np.where(normal > stats.norm.ppf(1 - rate), 1.0, 0.0)
    scale = 1 / correlation - 1
    quantiles = stats.beta.ppf(special.ndtr(_GRID), rate * scale, (1 - rate) * scale)
    return np.asarray(np.clip(np.interp(normal, _GRID, quantiles), 0.0, 1.0))


def simulated_power(design: Design, difference: float, alpha: float, runs: int, seed: int) -> float:
    """Return the share of made-up comparisons in which the sign-flip test finds a difference at the level `alpha`."""
    first, second = simulated_refusals(design, difference, runs, seed)
    sums = (second - first).sum(axis=2).astype(np.int64)
    return float(np.mean([sign_flip_p(own, seed + i)[0] <= alpha for i, own in enumerate(sums)]))


def _latent(design: Design, difference: float) -> float:
    """Correlation of the normal numbers of the two models that gives the design's of their probabilities."""
    first, second = _coefficients(design, difference)
    spread = float(np.sqrt((first**2).sum() * (second**2).sum()))
    wanted = design.model_correlation * spread
    if spread == 0 or design.model_correlation in (0, 1):
        return design.model_correlation
    series = _series(first, second)
    if series(1.0) <= wanted:  # two different distributions cannot correlate more
        return 1.0
    found: float = optimize.brentq(lambda correlation: float(series(correlation)) - wanted, 0, 1)
    return found


def _coefficients(design: Design, difference: float) -> list[Floats]:
    """Coefficients of both models' probabilities as functions of normal numbers, in Hermite polynomials of norm 1.

    The constant is left out, so that the squares add up to the variance.
    """
    density = stats.norm.pdf(_GRID) * (_GRID[1] - _GRID[0])
    before, here = np.ones_like(_GRID), _GRID
    rows = []
    for k in range(1, _TERMS + 1):
        rows.append(here * density)
        before, here = here, (_GRID * here - np.sqrt(k) * before) / np.sqrt(k + 1)
    hermite = np.array(rows)
    rates = (design.rate, design.rate + difference)
    return [hermite @ probabilities(_GRID, rate, design.prompt_correlation) for rate in rates]


def _series(first: Floats, second: Floats) -> Polynomial:
    """Covariance of two such functions of normal numbers, as a polynomial of the correlation of these (Mehler)."""
    return Polynomial([0.0, *(first * second)])


def table_by_rate(cells: Iterable[tuple[Design, Sequence[str]]], parts: Sequence[str] = ("",)) -> str:
    """Return a table in Markdown with columns for the parts of each rate, and a row for all else of a design."""
    rows: dict[tuple[str, ...], list[str]] = {}
    rates: list[str] = []
    for design, texts in cells:
        row = (str(design.samples), str(design.clusters), f"{design.prompts_per_cluster:g}")
        rows.setdefault(row, []).extend(texts)
        rates += [rate for rate in [f"{design.rate:g}"] if rate not in rates]
    header = [*COLUMNS, *(f"rate {rate}{part}" for rate in rates for part in parts)]
    lines = [header, ["--:"] * len(header), *([*row, *texts] for row, texts in rows.items())]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def percents(shares: Iterable[float]) -> str:
    """Return shares in percent, as `5.0 / 80.1`; `none` for what is not there."""
    return " / ".join("none" if np.isnan(share) else f"{100 * share:.1f}" for share in shares)
