"""Refusal rates over all splits of one expectation, each split with equal weight."""

from collections.abc import Collection, Mapping, Sequence

from refusal_eval.core.states import HEADLINE_READING
from refusal_eval.stats.estimates.estimands import MIXED, READINGS
from refusal_eval.stats.estimates.estimate import Estimate, NumberInterval, estimate_from
from refusal_eval.stats.estimates.flags import derived_flags
from refusal_eval.stats.estimates.intervals import pooled_rate
from refusal_eval.stats.estimates.near_duplicates import PromptPlace, without_duplicates
from refusal_eval.stats.estimates.units import Units, clusters_apart


def pooled_rates(
    cells: Sequence[Units], duplicates: Collection[PromptPlace], sources: Mapping[str, str]
) -> list[Estimate]:
    """Return the pooled refusal rates of one model under one judge, for each expectation in both readings.

    The rate is the mean over splits of the mean over prompts. Where splits of one expectation name different headline
    readings, there is a third rate with each split in its own, whose reading is called `headline`. A split all of whose
    prompts are duplicates is not in the pool, for any model; `parameter` names the number of splits that are. Where a
    split of the pool has no judged answer at all, the rate is None and `method` names the split: a rate of the others
    would stand beside those of other models on other prompts. The flags are those of the rates of all splits of
    the pool in the reading; `few_clusters` is flagged where one of them has few.

    Args:
        cells: of each split.
        duplicates: prompts not to be counted, because an earlier split has them.
        sources: a word for the source of each split (see `cluster_names.names_apart`).
    """
    named = {(u.facts["judge"], u.facts["model"], u.facts["split"]): u for u in cells}
    counted = sorted(without_duplicates(clusters_apart(named, sources), duplicates).items(), key=lambda item: item[0])
    marks = {units.facts["split"]: {reading: units.marks(reading) for reading in READINGS} for units in cells}
    found = []
    for expectation in HEADLINE_READING:
        pool = [units for _, units in counted if units.facts["expectation"] == expectation]
        headlines = {units.facts["headline"] for units in cells if units.facts["expectation"] == expectation}
        for reading in [*READINGS, *([MIXED] if len(headlines) > 1 else [])] if pool else []:
            own = [marks[units.facts["split"]][_reading(units, reading)] for units in pool]
            found.append(_pool(pool, expectation, reading, own))
    return found


def _reading(units: Units, reading: str) -> str:
    return str(units.facts["headline"]) if reading == MIXED else reading


def _pool(cells: Sequence[Units], expectation: str, reading: str, marks: Sequence[Collection[str]]) -> Estimate:
    level = cells[0].facts["level"]
    parts = {units.facts["split"]: units.known(_reading(units, reading)) for units in cells}
    lost = [split for split, (rates, _, _) in parts.items() if not len(rates)]
    number = None
    if not lost:
        value, interval = pooled_rate(parts, level)
        number = NumberInterval(value, interval.low, interval.high, interval.method)
    return estimate_from(
        "refusal_rate",
        number,
        level,
        **({"method": f"none (nothing judged in {', '.join(lost)})"} if lost else {}),
        pool=expectation,
        reading=reading,
        samples=cells[0].facts["samples"],
        n_prompts=sum(len(rates) for rates, _, _ in parts.values()),
        n_clusters=len({name for _, clusters, _ in parts.values() for name in clusters}),
        parameter=f"{len(parts)} splits" if len(parts) > 1 else "1 split",
        flags=derived_flags(marks, {flag for units in cells for flag in units.few(_reading(units, reading))}),
    )
