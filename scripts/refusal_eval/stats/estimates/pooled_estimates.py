"""Refusal rates over all splits of one expectation, each split with equal weight."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from refusal_eval.stats.estimates.estimands import READINGS
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.intervals import pooled_wilson
from refusal_eval.stats.estimates.near_duplicates import Place
from refusal_eval.stats.estimates.scores import HEADLINE_READING, MIN_CLUSTERS, MIXED, derived_flags, few_flags
from refusal_eval.stats.estimates.units import Units, clusters_apart

EXPECTATIONS = tuple(HEADLINE_READING)


def pooled_rates(
    cells: Sequence[tuple[Mapping[str, Any], Units]],
    duplicates: Collection[Place],
    level: float,
    sources: Mapping[str, str] | None = None,
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
        level: of the intervals.
        sources: a word for the source of each split (see `clusters.names_apart`); None where they have the same.
    """
    if sources is not None:
        apart = clusters_apart({(s["judge"], s["model"], s["split"]): u for s, u in cells}, sources)
        cells = [(s, apart[s["judge"], s["model"], s["split"]]) for s, _ in cells]
    found = []
    for expectation in EXPECTATIONS:
        own = sorted(((s, u) for s, u in cells if s["expectation"] == expectation), key=lambda cell: cell[0]["split"])
        headlines = {score["headline"] for score, _ in own}
        for reading in [*READINGS, *([MIXED] if len(headlines) > 1 else [])]:
            estimate = _pooled(own, expectation, reading, duplicates, level)
            found += [] if estimate is None else [estimate]
    return found


def _pooled(
    cells: Sequence[tuple[Mapping[str, Any], Units]],
    expectation: str,
    reading: str,
    duplicates: Collection[Place],
    level: float,
) -> Estimate | None:
    rates: list[float] = []
    clusters: list[str] = []
    splits: list[str] = []
    draws: list[int] = []
    means: list[float] = []
    flags: list[tuple[str, ...]] = []
    lost: list[str] = []
    fewest = MIN_CLUSTERS
    for score, units in cells:
        values = units.rates(score["headline"] if reading == MIXED else reading)
        counted = [Place(score["split"], name) not in duplicates for name in units.prompt_ids]
        if not any(counted):
            continue
        places = np.flatnonzero(np.array(counted, dtype=bool) & np.isfinite(values))
        rates += values[places].tolist()
        clusters += [units.clusters[i] for i in places]
        splits += [score["split"]] * len(places)
        draws += units.counting[places].tolist()
        flags.append(units.flags)
        means.append(math.fsum(values[places]) / max(1, len(places)))
        fewest = min(fewest, len({units.clusters[i] for i in places}))
        lost += [] if len(places) else [score["split"]]
    if not means:
        return None
    if lost:
        known: dict[str, Any] = {"value": None, "method": f"none (nothing judged in {', '.join(lost)})"}
    else:
        interval = pooled_wilson(rates, clusters, splits, level, draws)
        ends = {"low": interval.low, "high": interval.high, "level": level, "method": interval.method}
        known = {"value": math.fsum(means) / len(means), **ends}
    return Estimate(
        "refusal_rate",
        **known,
        pool=expectation,
        reading=reading,
        samples=cells[0][0]["samples"],
        n_prompts=len(rates),
        n_clusters=len(set(clusters)),
        parameter=f"{len(means)} splits" if len(means) > 1 else "1 split",
        flags=derived_flags(flags, few_flags(fewest)),
    )
