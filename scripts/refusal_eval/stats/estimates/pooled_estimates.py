"""Refusal rates over all splits of one expectation, each split with equal weight."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from refusal_eval.core.states import HEADLINE_READING
from refusal_eval.stats.estimates.estimands import READINGS
from refusal_eval.stats.estimates.estimate import Estimate, ends
from refusal_eval.stats.estimates.intervals import pooled_rate
from refusal_eval.stats.estimates.near_duplicates import Place
from refusal_eval.stats.estimates.scores import MIXED, derived_flags, few_flags
from refusal_eval.stats.estimates.units import Units, clusters_apart

Scored = tuple[Mapping[str, Any], Units]


def pooled_rates(
    cells: Sequence[Scored], duplicates: Collection[Place], level: float, sources: Mapping[str, str] | None = None
) -> list[Estimate]:
    """Return the pooled refusal rates of one model under one judge, for each expectation in both readings.

    The rate is the mean over splits of the mean over prompts. Where splits of one expectation name different headline
    readings, there is a third rate with each split in its own, whose reading is called `headline`. A split all of whose
    prompts are duplicates is not in the pool, for any model; `parameter` names the number of splits that are. Where a
    split of the pool has no judged answer at all, the rate is None and `method` names the split: a rate of the others
    would stand beside those of other models on other prompts. The flags are those of all splits of the pool;
    `few_clusters` is flagged where one of them has few.

    Args:
        cells: the score (scores/*.json) and the scored prompts of each split.
        duplicates: prompts not to be counted, because an earlier split has them.
        sources: a word for the source of each split (see `units.names_apart`); None where they have the same.
    """
    if sources is not None:
        apart = clusters_apart({(s["judge"], s["model"], s["split"]): u for s, u in cells}, sources)
        cells = [(score, units) for (score, _), units in zip(cells, apart.values(), strict=True)]
    found = []
    for expectation in HEADLINE_READING:
        own = sorted(
            (cell for cell in cells if cell[0]["expectation"] == expectation), key=lambda cell: cell[0]["split"]
        )
        counted = [(score, units.kept(_counted(score["split"], units, duplicates))) for score, units in own]
        pool = [(score, units) for score, units in counted if len(units)]
        headlines = {score["headline"] for score, _ in own}
        for reading in [*READINGS, *([MIXED] if len(headlines) > 1 else [])] if pool else []:
            found.append(_pooled(pool, expectation, reading, level))
    return found


def _counted(split: str, units: Units, duplicates: Collection[Place]) -> Any:
    return np.array([Place(split, prompt) not in duplicates for prompt in units["prompt_id"]], dtype=bool)


def _pooled(cells: Sequence[Scored], expectation: str, reading: str, level: float) -> Estimate:
    parts = {}
    for score, units in cells:
        rates = units[f"rate_{score['headline'] if reading == MIXED else reading}"]
        known = np.isfinite(rates)
        parts[score["split"]] = (rates[known], units["cluster"][known].tolist(), units["counting"][known].tolist())
    lost = [split for split, (rates, _, _) in parts.items() if not len(rates)]
    if lost:
        known_of: dict[str, Any] = {"value": None, "method": f"none (nothing judged in {', '.join(lost)})"}
    else:
        value, interval = pooled_rate(parts, level)
        known_of = {"value": value} | ends(interval.low, interval.high, level, interval.method)
    return Estimate(
        "refusal_rate",
        **known_of,
        pool=expectation,
        reading=reading,
        samples=cells[0][0]["samples"],
        n_prompts=sum(len(rates) for rates, _, _ in parts.values()),
        n_clusters=len({name for _, clusters, _ in parts.values() for name in clusters}),
        parameter=f"{len(parts)} splits" if len(parts) > 1 else "1 split",
        flags=derived_flags(
            (units.flags for _, units in cells), few_flags(min(len(set(names)) for _, names, _ in parts.values()))
        ),
    )
