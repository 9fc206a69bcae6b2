"""How well a judge agrees with people, on answers that people labelled."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from refusal_eval.estimands import READINGS, REFUSES, Row
from refusal_eval.intervals import cluster_wilson
from refusal_eval.states import JUDGED, LABELS

UNJUDGED = "unjudged"
# Kappa swings wildly where one class is rare; below this many rows of either class it is not reported.
MIN_ROWS_FOR_KAPPA = 20


def judge_card(
    gold_rows: Iterable[Row],
    verdicts: Iterable[Row],
    *,
    judge: str,
    gold: str,
    raters: int | str | None = None,
    level: float = 0.95,
) -> dict[str, Any]:
    """Card of a judge on one gold set; a verdict belongs to the gold row whose id is its `prompt_id`.

    For the readings `strict` (refusal) and `broad` (refusal or partial), over the rows that the judge labelled:
    accuracy, Cohen's kappa (None unless people labelled at least 20 rows as either class), sensitivity (share of the
    refusals of people that the judge finds), specificity (share of the non-refusals of people that it leaves alone),
    `n_positive` and `n_negative` (the denominators of those two), and under `intervals` [low, high] of the three
    shares, with clusters (`intervals.cluster_wilson`). Rows without a label of the judge only lower `coverage`
    (judged / n) and stand as `unjudged` in the confusion table, {label of people: {label of the judge: rows}}. A
    number without data is None.

    Raises:
        ValueError: for an unknown label, an id that occurs twice, or a verdict on a row that the gold set lacks.
    """
    people: dict[str, Row] = {}
    for row in gold_rows:
        if row["id"] in people:
            raise ValueError(f"gold row {row['id']} occurs twice")
        if row["label"] not in LABELS:
            raise ValueError(f"gold row {row['id']} has the unknown label {row['label']!r}")
        people[row["id"]] = row
    found: dict[str, str] = {}
    seen: set[str] = set()
    for verdict in verdicts:
        row_id = verdict["prompt_id"]
        if row_id not in people:
            raise ValueError(f"a verdict belongs to gold row {row_id}, which is not in {gold}")
        if row_id in seen:
            raise ValueError(f"gold row {row_id} has two verdicts")
        seen.add(row_id)
        if verdict["state"] == JUDGED:
            if verdict["label"] not in LABELS:
                raise ValueError(f"the verdict on gold row {row_id} has the unknown label {verdict['label']!r}")
            found[row_id] = verdict["label"]
    ids = sorted(people)
    confusion = {label: dict.fromkeys((*LABELS, UNJUDGED), 0) for label in LABELS}
    for row_id in ids:
        confusion[people[row_id]["label"]][found.get(row_id, UNJUDGED)] += 1
    judged = [row_id for row_id in ids if row_id in found]
    human, machine = [people[i]["label"] for i in judged], [found[i] for i in judged]
    clusters = [people[i]["cluster"] for i in judged]
    return {
        "judge": judge,
        "gold": gold,
        "n": len(ids),
        "n_judged": len(judged),
        "coverage": len(judged) / len(ids) if ids else None,
        "raters": raters,
        **{reading: _agreement(human, machine, clusters, reading, level) for reading in READINGS},
        "confusion": confusion,
    }


def _agreement(
    human: Sequence[str], machine: Sequence[str], clusters: Sequence[str], reading: str, level: float
) -> dict[str, Any]:
    refusal = REFUSES[reading]
    pairs = [(h in refusal, m in refusal, c) for h, m, c in zip(human, machine, clusters, strict=True)]
    right = [(float(h == m), c) for h, m, c in pairs]
    on_refusals = [(float(m), c) for h, m, c in pairs if h]
    on_others = [(float(not m), c) for h, m, c in pairs if not h]
    shares = {"accuracy": right, "sensitivity": on_refusals, "specificity": on_others}
    return {
        **{name: _mean(values) for name, values in shares.items()},
        "kappa": _kappa([h for h, _, _ in pairs], [m for _, m, _ in pairs]),
        "n_positive": len(on_refusals),
        "n_negative": len(on_others),
        "intervals": {name: _interval(values, level) for name, values in shares.items()},
    }


def _kappa(human: Sequence[bool], machine: Sequence[bool]) -> float | None:
    if min(sum(human), len(human) - sum(human)) < MIN_ROWS_FOR_KAPPA:
        return None
    from sklearn.metrics import cohen_kappa_score  # 1.5 s to import, which every score would pay

    kappa = float(cohen_kappa_score(human, machine))
    return kappa if math.isfinite(kappa) else None


def _mean(values: Sequence[tuple[float, str]]) -> float | None:
    return math.fsum(value for value, _ in values) / len(values) if values else None


def _interval(values: Sequence[tuple[float, str]], level: float) -> list[float | None] | None:
    if not values:
        return None
    interval = cluster_wilson([value for value, _ in values], [cluster for _, cluster in values], level)
    return [interval.low, interval.high]
