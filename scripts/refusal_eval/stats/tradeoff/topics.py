"""Topics of a split: how often a model refuses prompts of one category, against the rest of the split."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refusal_eval.stats.estimates.intervals import cluster_wilson
from refusal_eval.stats.estimates.units import independent_within
from refusal_eval.stats.tradeoff.pooled_rates import Part, difference_part
from refusal_eval.stats.tradeoff.split_rates import SplitRates

MIN_PROMPTS = 2  # of a topic, and of the rest


def topics(rates: SplitRates, model: int, level: float) -> list[dict[str, Any]]:
    """Return each topic of a split (a category of it) for one model, sorted by name; none for a split without several.

    `topic`, `n_prompts`, `n_clusters`, `rate` with its interval, `rest` (the rate on the other topics), `difference`
    from it with its interval (variances recovered from both intervals), and `fewest_clusters`, of the topic or of the
    rest.

    Where all prompts of a topic are one cluster, they are taken as independent, as for the rate of a category
    (`estimates.units.independent_within`), and counted as the one cluster that they are.
    """
    names = sorted({name for name in rates.categories if name})
    if len(names) < 2:
        return []
    values, known, draws = rates.rates[model], ~np.isnan(rates.rates[model]), rates.draws[model]
    found = []
    for name in names:
        mine = (rates.categories == name) & known
        rest = ~(rates.categories == name) & known
        if min(mine.sum(), rest.sum()) < MIN_PROMPTS:
            continue
        units = independent_within(rates.clusters[mine].tolist(), rates.prompts[mine].tolist())
        topic = _part(values[mine], units, level, int(draws[mine].sum()))
        others = _part(values[rest], rates.clusters[rest].tolist(), level, int(draws[rest].sum()))
        n_clusters, n_others = (len(set(rates.clusters[side].tolist())) for side in (mine, rest))
        gap = difference_part(topic, others, 0.0)
        found.append(
            {
                "topic": name,
                "n_prompts": int(mine.sum()),
                "n_clusters": n_clusters,
                "fewest_clusters": min(n_clusters, n_others),
                "rate": {"value": topic.value, "low": topic.low, "high": topic.high},
                "rest": others.value,
                "difference": {"value": gap.value, "low": gap.low, "high": gap.high},
            }
        )
    return found


def _part(values: NDArray[np.float64], units: list[str], level: float, draws: int) -> Part:
    ends = cluster_wilson(values.tolist(), units, level, draws)
    return Part(math.fsum(values) / len(values), ends.low, ends.high)
