"""What a judge's card says of each task by itself, refusals and each flag, in all and by slice of the gold set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from refusal_eval.core.states import COMPLIANCE, JUDGED, REFUSAL
from refusal_eval.features.judge_cards.card_measures import measure_group
from refusal_eval.stats.estimates.estimands import READINGS, CellRow
from refusal_eval.stats.estimates.intervals import seed_of

REFUSES = "refusal"  # the task that is no flag
MET, BELOW, ABOVE = "met", "missed, below", "missed, above"
_PARTS = ("sensitivity", "specificity", "f1", "n_positive", "n_negative", "n_positive_clusters", "n_negative_clusters")


class TaskPart(NamedTuple):
    """A part of a gold set, and the task that it is measured for."""

    task: str  # refusal, or the name of a flag
    slice: str | None = None
    expectation: str | None = None


def card_tasks(
    gold_rows: Sequence[CellRow],
    verdicts: Iterable[CellRow],
    rows: pd.DataFrame,
    *,
    judge: str,
    gold: str,
    flags: Sequence[str],
    anchors: Sequence[Mapping[str, Any]],
    level: float,
) -> list[dict[str, Any]]:
    """Return how well a judge does each task on each part of a gold set; nothing for a gold set without parts.

    A task is `refusal`, or one of `flags`: a flag that judge and gold both have is the positive class, and rows that
    people did not label for it are left out. The parts are all rows, each slice and, for refusals, the prompts that
    should be refused. Each has `n` (labelled rows), `n_judged`, `n_clusters` and, for each reading, F1, sensitivity and
    specificity with `intervals` and the sizes of both classes, as `card_measures.measure_group` makes them (a flag has
    the reading `broad` alone). `published` are the figures of this very judge (`anchors` with its name), and whether
    each is `met`: the interval of the judge's own F1 holds it. The F1 of a reading is `missed, below` or `missed,
    above` where all of the interval lies there; None without an interval.

    Args:
        rows: gold rows joined with the judge's labels (`compared.join_verdicts`).
        anchors: published figures on this gold set.
    """
    by_id = {row["id"]: row for row in gold_rows}
    own = [anchor for anchor in anchors if anchor.get("judge") == judge]
    if not own and not any("slice" in row or "flags" in row for row in gold_rows):
        return []
    said = {v["prompt_id"]: frozenset(v.get("flags") or ()) for v in verdicts if v["state"] == JUDGED}
    slices = rows["row_id"].map(lambda row: by_id[row].get("slice"))
    found = []
    for task in (REFUSES, *flags):
        of_task = rows if task == REFUSES else _of_flag(rows, task, by_id, said)
        for part, chosen in _parts(task, of_task, slices[of_task.index]):
            seed = seed_of("judge card", gold, *(str(name) for name in part))
            found.append(_measured(part, of_task[chosen], own, level, seed))
    return found


def _of_flag(
    rows: pd.DataFrame, flag: str, by_id: Mapping[str, CellRow], said: Mapping[str, frozenset[str]]
) -> pd.DataFrame:
    """Return the rows that people labelled for a flag, with raised and not raised as refusal and compliance."""
    labelled = rows[[flag in by_id[row].get("flags", {}) for row in rows["row_id"]]]

    def word(raised: bool | None) -> str | None:
        return None if raised is None else REFUSAL if raised else COMPLIANCE

    people = [word(by_id[row]["flags"][flag]) for row in labelled["row_id"]]
    judge = [word(flag in said[row] if row in said else None) for row in labelled["row_id"]]
    sides = {"human": people, "machine": judge}
    return labelled.assign(**{side: pd.Series(words, labelled.index, dtype=object) for side, words in sides.items()})


def _parts(task: str, rows: pd.DataFrame, slices: pd.Series[Any]) -> Iterator[tuple[TaskPart, pd.Series[bool]]]:
    yield TaskPart(task), pd.Series(True, rows.index)
    for name in sorted(slices.dropna().unique()):
        yield TaskPart(task, slice=name), slices == name
    if task == REFUSES and (rows["expectation"] == "refuse").any():
        yield TaskPart(task, expectation="refuse"), rows["expectation"] == "refuse"


def _measured(
    part: TaskPart, rows: pd.DataFrame, own: Sequence[Mapping[str, Any]], level: float, seed: int
) -> dict[str, Any]:
    group = measure_group(rows, level, seed)
    readings = READINGS if part.task == REFUSES else ("broad",)
    found: dict[str, Any] = {**part._asdict(), **{name: group[name] for name in ("n", "n_judged", "n_clusters")}}
    found["few_classes"] = {reading: group["few_classes"][reading] for reading in readings}
    for reading in readings:
        whole = group[reading]
        intervals = {name: whole["intervals"][name] for name in _PARTS[:3]}
        found[reading] = {name: whole[name] for name in _PARTS} | {"intervals": intervals}
    anchors = [anchor for anchor in own if TaskPart(*_named(anchor)) == part]
    found["published"] = [
        {"f1": anchor["f1"], "reading": anchor["reading"], "source": anchor["source"]}
        | {"met": _met(anchor["f1"], found[anchor["reading"]]["intervals"]["f1"])}
        for anchor in anchors
    ]
    return found


def _named(anchor: Mapping[str, Any]) -> tuple[str, str | None, str | None]:
    return anchor.get("flag") or REFUSES, anchor.get("slice"), anchor.get("expectation")


def _met(published: float, interval: Sequence[float] | None) -> str | None:
    """Return whether an interval holds a published figure, or on which side of it the judge is."""
    if interval is None:
        return None
    low, high = interval
    return BELOW if high < published else ABOVE if low > published else MET
