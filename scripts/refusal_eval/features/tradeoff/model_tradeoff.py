"""One judge's view of the trade-off: each model's over-refusal and safety, its J, and its place on the front."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from refusal_eval.stats.estimates.estimate import Number
from refusal_eval.stats.estimates.flags import FEW_CLUSTERS, derived_flags
from refusal_eval.stats.estimates.intervals import Floats
from refusal_eval.stats.estimates.pooled_rates import (
    SplitRates,
    correlations,
    difference_part,
    pooled_part,
    resampled_rates,
)
from refusal_eval.stats.estimates.resampling import blocks

REGION = (
    "an ellipse whose half-axes on each side of the point come from the two intervals, its tilt from clusters "
    "in both, cut at 0 and 1"
)
_CORNERS = 72
_PAIRS_AT_ONCE = 2_000_000  # of models, in all resamples: bounds the memory


def trade_off(comply: Sequence[SplitRates], refuse: Sequence[SplitRates], level: float) -> list[dict[str, Any]]:
    """Return one entry per model, in the order of the rates; None for what a model without any rate on a split lacks.

    over_refusal, safety    mean over the `comply` and the `refuse` splits of the rate of refusals: value, low, high,
                            n_prompts (with a rate; of dialogues scored turns, here and below)
    youden_j                safety - over_refusal, from -1 to 1; 0 for a model that refuses both kinds alike
    correlation             of the two, by clusters with prompts in both (`pooled_rates.correlations`)
    region                  outline of their joint region at `level`, see `region`
    on_front                whether no other model beats it (see `pareto`)
    front_share             in what share of the resamples that is so; None where a split of some model is one cluster,
                            which no resample varies: it would be taken for known exactly; and where no other model
                            has a place, so that nobody could beat it
    lost                    splits without a rate of the model; with one there is no J
    n_prompts, n_clusters   of both kinds together; clusters over both, so that a contrast pair is one
    fewest_clusters         of the split that has the fewest; without near-duplicates a split may have few though none
                            of its cells has
    flags                   of the model's cells on all these splits, and `few_clusters` where there is a J and the rate
                            of one of them rests on few
    front_flags             of its place on the front: those of all models that have a place, who decide it

    Args:
        comply: splits whose prompts should be answered; at least one.
        refuse: splits whose prompts should be refused; at least one.
    """
    splits = [*comply, *refuse]
    drawn = resampled_rates(splits)
    over, safe = drawn[: len(comply)].mean(axis=0), drawn[len(comply) :].mean(axis=0)
    together = correlations(comply, refuse)
    entries = []
    for model in range(splits[0].rates.shape[0]):
        parts = [pooled_part(side, model, level) for side in (comply, refuse)]
        entry: dict[str, Any] = dict.fromkeys(("over_refusal", "safety", "youden_j", "correlation", "region"))
        if parts[0] is None or parts[1] is None:
            over[:, model], safe[:, model] = np.inf, -np.inf  # beats nothing
        else:
            # Rounded: the last digits of sums over columns differ between machines.
            own = round(float(together[model]), 9) + 0.0
            entry["over_refusal"] = parts[0]._asdict() | {"n_prompts": _prompts(comply, model)}
            entry["safety"] = parts[1]._asdict() | {"n_prompts": _prompts(refuse, model)}
            entry["youden_j"] = difference_part(parts[1], parts[0], own)._asdict()
            entry["correlation"] = own
            entry["region"] = region(parts[0], parts[1], own, level)
        known = [~np.isnan(rates.rates[model]) for rates in splits]
        entry["lost"] = [rates.split for rates, own in zip(splits, known, strict=True) if not own.any()]
        entry["n_prompts"] = _prompts(splits, model)
        clusters = [set(rates.clusters[mask]) for rates, mask in zip(splits, known, strict=True)]
        entry["n_clusters"], entry["fewest_clusters"] = len(set().union(*clusters)), min(map(len, clusters))
        few = () if entry["youden_j"] is None else {flag for rates in splits for flag in rates.few(model)}
        entry["flags"] = list(derived_flags((rates.flags[model] for rates in splits), few))
        entries.append(entry)
    placed = [entry for entry in entries if entry["youden_j"] is not None]
    tells = len(placed) > 1 and all(entry["fewest_clusters"] > 1 for entry in placed)
    points = np.array([_point(entry) for entry in entries])
    front, fronts = pareto(points[:, 0], points[:, 1]), pareto(over, safe)
    for model, entry in enumerate(entries):
        known_here = entry["youden_j"] is not None
        entry["on_front"] = bool(front[model]) if known_here else None
        entry["front_share"] = float(fronts[:, model].mean()) if known_here and tells else None
        own_few = (FEW_CLUSTERS,) if FEW_CLUSTERS in entry["flags"] else ()
        entry["front_flags"] = list(derived_flags((other["flags"] for other in placed), own_few))
    return entries


def region(over: Number, safe: Number, correlation: float, level: float) -> list[list[float]] | None:
    """Return the outline of the joint region, closed, as points [over-refusal, safety]; None without both intervals.

    An interval of one quantity reaches z standard errors, a region of two sqrt(chi2 with 2 degrees of freedom): the
    half-axes are the distances to the ends of the intervals, widened by their ratio. Where a rate is 0 or 1 the region
    ends there.
    """
    if None in (over.low, over.high, safe.low, safe.high):
        return None
    reach = wider(level)
    angles = np.linspace(0.0, 2 * math.pi, _CORNERS + 1)
    x = np.cos(angles)
    y = correlation * x + math.sqrt(max(0.0, 1 - correlation**2)) * np.sin(angles)
    points = np.column_stack([_scaled(over, x, reach), _scaled(safe, y, reach)])
    return [[float(a), float(b)] for a, b in np.clip(points, 0.0, 1.0).round(9)]


def pareto(over: Floats, safe: Floats) -> NDArray[np.bool_]:
    """Return which models no other one beats; all are anything x models.

    A model beats those that have at least its over-refusal and at most its safety, and are worse in one of the two.
    """
    models = over.shape[-1]
    if over.ndim > 1 and len(over) > 1 and len(over) * models**2 > _PAIRS_AT_ONCE:
        places = np.cumsum(list(blocks(len(over), models**2, _PAIRS_AT_ONCE)))[:-1]
        parts = (np.split(side, places) for side in (over, safe))
        return np.concatenate([pareto(*part) for part in zip(*parts, strict=True)])
    # Axis -1 is the model that may be beaten, axis -2 the one that may beat it. Rates differ by 1e-12 from rounding.
    less = over[..., :, None] < over[..., None, :] - 1e-12
    more = safe[..., :, None] > safe[..., None, :] + 1e-12
    as_low = over[..., :, None] <= over[..., None, :] + 1e-12
    as_safe = safe[..., :, None] >= safe[..., None, :] - 1e-12
    beaten = (as_low & as_safe & (less | more)).any(axis=-2)
    return np.asarray(~beaten)


def _prompts(splits: Sequence[SplitRates], model: int) -> int:
    """Number of prompts with a rate of the model, of dialogues of scored turns."""
    return sum(int((~np.isnan(rates.rates[model])).sum()) for rates in splits)


def _point(entry: dict[str, Any]) -> list[float]:
    if entry["youden_j"] is None:
        return [np.inf, -np.inf]
    return [entry["over_refusal"]["value"], entry["safety"]["value"]]


def wider(level: float) -> float:
    """Return how much further a joint region reaches than the intervals of both rates."""

    return float(math.sqrt(scipy.stats.chi2.ppf(level, 2)) / scipy.stats.norm.ppf((1 + level) / 2))


def _scaled(part: Number, direction: Floats, wider: float) -> Floats:
    down, up = part.value - float(part.low or 0.0), float(part.high or 0.0) - part.value
    return np.asarray(part.value + wider * direction * np.where(direction < 0, down, up))
