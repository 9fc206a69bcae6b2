"""One judge's view of the trade-off: both rates of each model, its J, and its place on the front."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from refusal_eval.stats.estimates.estimate import Estimate, NumberInterval, estimate_from
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
ONE_CLUSTER = "none (a split is one cluster, which no resample varies)"
_CORNERS = 72
_PAIRS_AT_ONCE = 2_000_000  # of models, in all resamples: bounds the memory


def trade_off(comply: Sequence[SplitRates], refuse: Sequence[SplitRates], level: float) -> list[list[Estimate]]:
    """Return the numbers of each model, in the order of the rates, as rows without judge, model and samples.

    youden_j                safety - over-refusal, from -1 to 1; 0 for a model that refuses both kinds alike. Each of
                            the two is the mean over its splits of the rate of refusals. None, and no further numbers,
                            for a model without a rate on a split
    tradeoff_correlation    of the errors of the two, through clusters with prompts in both
                            (`pooled_rates.correlations`)
    pareto_front            whether no other model beats it, 1 or 0 (see `pareto`)
    pareto_front_share      the share of the resamples in which it is so; None if a split of some model is one cluster,
                            which no resample varies: it would pass for exactly known. Missing if no other model has a
                            place, so that none could beat it

    Prompts (scored turns) and clusters are those of both kinds together, so that a contrast pair is one
    cluster. Flags are those of the model's cells on all these splits, and `few_clusters` if there is a J and the rate
    of one of them rests on few; a place on the front has those of all models with a place, who decide it.

    Args:
        comply: splits whose prompts should be answered; at least one.
        refuse: splits whose prompts should be refused; at least one.
    """
    splits = [*comply, *refuse]
    drawn = resampled_rates(splits)
    over, safe = drawn[: len(comply)].mean(axis=0), drawn[len(comply) :].mean(axis=0)
    together = correlations(comply, refuse)
    models = range(splits[0].rates.shape[0])
    rates = [tuple(pooled_part(side, model, level) for side in (comply, refuse)) for model in models]
    clusters = [[set(part.known(model)[1]) for part in splits] for model in models]
    placed = [model for model in models if None not in rates[model]]
    points = np.array(
        [[part.value if part and model in placed else np.nan for part in rates[model]] for model in models]
    )
    # A model without a place beats nothing.
    gone = [model for model in models if model not in placed]
    over[:, gone], safe[:, gone], points[gone] = np.inf, -np.inf, (np.inf, -np.inf)
    front, fronts = pareto(points[:, 0], points[:, 1]), pareto(over, safe)
    tells = all(len(own) > 1 for model in placed for own in clusters[model])
    few = {model: {flag for part in splits for flag in part.few(model)} for model in placed}
    flags = [derived_flags((part.flags[model] for part in splits), few.get(model, ())) for model in models]
    found = []
    for model, (own_over, own_safe) in zip(models, rates, strict=True):
        about: dict[str, Any] = {"pool": "comply+refuse", "flags": flags[model]}
        about |= {"n_prompts": _prompts(splits, model), "n_clusters": len(set().union(*clusters[model]))}
        if own_over is None or own_safe is None:
            lost = [part.split for part, own in zip(splits, clusters[model], strict=True) if not own]
            why = f"none (nothing judged in {', '.join(lost)})"
            found.append([Estimate("youden_j", None, method=why, **about)])
            continue
        # Rounded: the last digits of sums over columns differ between machines.
        correlation = round(float(together[model]), 9) + 0.0
        j = difference_part(own_safe, own_over, correlation)
        own_few = (FEW_CLUSTERS,) if FEW_CLUSTERS in flags[model] else ()
        of_front = about | {"flags": derived_flags((flags[other] for other in placed), own_few)}
        found.append(
            [
                estimate_from("youden_j", j, level, **about),
                Estimate("tradeoff_correlation", correlation, **about),
                Estimate("pareto_front", float(front[model]), **of_front),
            ]
        )
        if len(placed) > 1:
            share = float(fronts[:, model].mean()) if tells else None
            how = None if tells else ONE_CLUSTER
            found[-1].append(Estimate("pareto_front_share", share, method=how, **of_front))
    return found


def region(over: NumberInterval, safe: NumberInterval, correlation: float, level: float) -> list[list[float]] | None:
    """Return the outline of the joint region, closed, as points [over-refusal, safety]; None without both intervals.

    An interval of one quantity reaches z standard errors, a region of two sqrt(chi2 with 2 degrees of freedom): the
    half-axes are the distances to the ends of the intervals, widened by their ratio. At a rate of 0 or 1 the region
    ends.
    """
    if None in (over.low, over.high, safe.low, safe.high):
        return None
    reach = wider(level)
    angles = np.linspace(0.0, 2 * math.pi, _CORNERS + 1)
    x = np.cos(angles)
    y = correlation * x + math.sqrt(max(0.0, 1 - correlation**2)) * np.sin(angles)
    points = np.column_stack([_scale(over, x, reach), _scale(safe, y, reach)])
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
    """Return the number of scored turns with a rate of the model."""
    return sum(int((~np.isnan(rates.rates[model])).sum()) for rates in splits)


def wider(level: float) -> float:
    """Return how much further a joint region reaches than the intervals of both rates."""

    return float(math.sqrt(scipy.stats.chi2.ppf(level, 2)) / scipy.stats.norm.ppf((1 + level) / 2))


def _scale(part: NumberInterval, direction: Floats, wider: float) -> Floats:
    down, up = part.value - float(part.low or 0.0), float(part.high or 0.0) - part.value
    return np.asarray(part.value + wider * direction * np.where(direction < 0, down, up))
