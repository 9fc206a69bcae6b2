"""One judge's view of the trade-off: each model's over-refusal and safety, its J, and its place on the front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from refusal_eval.stats.estimates.scores import FEW_CLUSTERS, derived_flags, few_flags
from refusal_eval.stats.tradeoff.joint import pareto, region
from refusal_eval.stats.tradeoff.pooled_rates import correlations, difference_part, pooled_part, resampled_rates
from refusal_eval.stats.tradeoff.split_rates import SplitRates


def trade_off(comply: Sequence[SplitRates], refuse: Sequence[SplitRates], level: float) -> list[dict[str, Any]]:
    """Return one entry per model, in the order of the rates; None for what a model without any rate on a split lacks.

    over_refusal, safety    mean over the `comply` and the `refuse` splits of the rate of refusals: value, low, high,
                            n_prompts (with a rate; of dialogues scored turns, here and below)
    youden_j                safety - over_refusal, from -1 to 1; 0 for a model that refuses both kinds alike
    correlation             of the two, by clusters with prompts in both (`pooled.correlations`)
    region                  outline of their joint region at `level`, see `joint.region`
    on_front                whether no other model beats it (see `joint.pareto`)
    front_share             in what share of the resamples that is so; None where a split of some model is one cluster,
                            which no resample varies: it would be taken for known exactly; and where no other model
                            has a place, so that nobody could beat it
    n_prompts, n_clusters   of both kinds together; clusters over both, so that a contrast pair is one
    fewest_clusters         of the split that has the fewest; without near-duplicates a split may have few though none
                            of its cells has
    flags                   of the model's cells on all these splits, and `few_clusters` where there is a J
    front_flags             of its place on the front: those of all models that have a place, who decide it

    Args:
        comply: splits whose prompts should be answered; at least one.
        refuse: splits whose prompts should be refused; at least one.
        level: of intervals and region.
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
        entry["n_prompts"] = _prompts(splits, model)
        clusters = [set(rates.clusters[mask]) for rates, mask in zip(splits, known, strict=True)]
        entry["n_clusters"], entry["fewest_clusters"] = len(set().union(*clusters)), min(map(len, clusters))
        few = () if entry["youden_j"] is None else few_flags(entry["fewest_clusters"])
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
        few = (FEW_CLUSTERS,) if FEW_CLUSTERS in entry["flags"] else ()
        entry["front_flags"] = list(derived_flags((other["flags"] for other in placed), few))
    return entries


def _prompts(splits: Sequence[SplitRates], model: int) -> int:
    """Number of prompts with a rate of the model, of dialogues of scored turns."""
    return sum(int((~np.isnan(rates.rates[model])).sum()) for rates in splits)


def _point(entry: dict[str, Any]) -> list[float]:
    if entry["youden_j"] is None:
        return [np.inf, -np.inf]
    return [entry["over_refusal"]["value"], entry["safety"]["value"]]
