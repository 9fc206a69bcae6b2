"""The numbers of a judge card on one group of answers, each with its interval."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from refusal_eval.core.states import LABELS
from refusal_eval.stats.agreement.card_resampling import bootstrap_interval, cluster_codes, cluster_sums, resampled
from refusal_eval.stats.agreement.compared import Compared
from refusal_eval.stats.agreement.measures import Counts, Measure, balanced_accuracy, f1, kappa, two_class
from refusal_eval.stats.agreement.weighting import are_weighted, effective, effective_rows, units, weighted_share
from refusal_eval.stats.estimates.estimands import READINGS, REFUSES

UNJUDGED = "unjudged"
# Kappa swings wildly where one class is rare; below this many rows of a class it is not reported.
MIN_ROWS = 20
MIN_CLUSTERS = 30  # below it an interval is approximate, which the card says
_BOOTSTRAP_CLUSTERS = 5  # of either class; fewer tell a bootstrap next to nothing

Ends = list[float | None]
COMPOSED: Mapping[str, Measure] = {"balanced_accuracy": balanced_accuracy, "f1": f1, "kappa": kappa}


def measured(rows: Sequence[Compared], level: float, seed: int) -> dict[str, Any]:
    """Return what `agreement.judge_card` tells of a group of answers: of all of them, or of one answering model.

    Shares (coverage, accuracy, sensitivity, specificity) have `intervals.cluster_wilson`. Balanced accuracy, F1 and
    kappa have a bootstrap over clusters (`seed` decides the draws). A bootstrap cannot draw errors that the gold set
    happens to lack: where a class is read without one error, or never right, the interval also reaches as far as the
    exact interval of that class allows. Where a class has less than 20 rows or 5 clusters, their interval is what the
    ends of sensitivity and specificity allow, and kappa is None with less than 20 rows.
    """
    judged = [row for row in rows if row.machine is not None]
    confusion = {label: dict.fromkeys((*LABELS, UNJUDGED), 0) for label in LABELS}
    for row in rows:
        confusion[row.human][row.machine or UNJUDGED] += 1
    seen, coverage = _share([(float(row.machine is not None), row) for row in rows], level)
    tables, draws = _tables(judged, seed)
    return {
        "n": len(rows),
        "n_judged": len(judged),
        "n_clusters": len({row.cluster for row in judged}),
        "few_clusters": len({row.cluster for row in judged}) < MIN_CLUSTERS,
        "coverage": seen,
        "coverage_interval": coverage,
        **{reading: _reading(judged, tables, draws, reading, level) for reading in READINGS},
        "three_class": _three_class(judged, tables, draws, level),
        "confusion": confusion,
        **_weighted(rows, judged),
    }


def _weighted(rows: Sequence[Compared], judged: Sequence[Compared]) -> dict[str, Any]:
    """What a group says beside the rest where its rows have weights; nothing where they do not."""
    if not are_weighted(row.weight for row in rows):
        return {}
    sums = {label: dict.fromkeys((*LABELS, UNJUDGED), 0.0) for label in LABELS}
    for row in rows:
        sums[row.human][row.machine or UNJUDGED] += row.weight
    confusion = {human: {machine: round(value, 6) for machine, value in row.items()} for human, row in sums.items()}
    return {"weighted": {"n_effective": effective_rows([row.weight for row in judged]), "confusion": confusion}}


def _tables(judged: Sequence[Compared], seed: int) -> tuple[Counts, Counts]:
    """The 3 x 3 table of all rows, and that of each resample of their clusters."""
    if not judged:
        return np.zeros((3, 3)), np.zeros((0, 3, 3))
    place = {label: i for i, label in enumerate(LABELS)}
    cells = np.zeros((len(judged), 3, 3))
    for i, (row, weight) in enumerate(zip(judged, units([row.weight for row in judged]), strict=True)):
        cells[i, place[row.human], place[str(row.machine)]] = weight
    sums = cluster_sums(cluster_codes([row.cluster for row in judged]), cells)
    return sums.sum(axis=0), resampled(sums, seed)


def _reading(judged: Sequence[Compared], table: Counts, draws: Counts, reading: str, level: float) -> dict[str, Any]:
    refusal = REFUSES[reading]
    classes = [[row for row in judged if (row.human in refusal) == positive] for positive in (True, False)]
    small, drawn = two_class(table, reading), two_class(draws, reading)

    def share(rows: Sequence[Compared]) -> tuple[float | None, Ends | None]:
        right = [(float((row.human in refusal) == (row.machine in refusal)), row) for row in rows]
        return _share(right, level)

    shares = {"accuracy": share(judged), "sensitivity": share(classes[0]), "specificity": share(classes[1])}
    values = {name: value for name, (value, _) in shares.items()}
    intervals: dict[str, Sequence[float | None] | None] = {name: ends for name, (_, ends) in shares.items()}
    enough = min(len(rows) for rows in classes) >= MIN_ROWS
    clusters = [len({row.cluster for row in rows}) for rows in classes]
    for name, measure in COMPOSED.items():
        values[name] = intervals[name] = None
        if not all(clusters) or (name == "kappa" and not enough):
            continue
        values[name] = _number(measure(small))
        if values[name] is None:
            continue
        if enough and min(clusters) >= _BOOTSTRAP_CLUSTERS:
            groups = len({row.cluster for row in judged})
            intervals[name] = bootstrap_interval(
                measure, small, drawn, [_effective(rows) for rows in classes], groups, level
            )
        else:
            ends = [shares[side][1] for side in ("sensitivity", "specificity")]
            intervals[name] = _corners(measure, small, ends)
    return {**values, "n_positive": len(classes[0]), "n_negative": len(classes[1]), "intervals": intervals}


def _three_class(judged: Sequence[Compared], table: Counts, draws: Counts, level: float) -> dict[str, Any]:
    """Kappa of the three labels, where people gave each of them to at least 20 answers of at least 5 clusters."""
    rows = [[row for row in judged if row.human == label] for label in LABELS]
    clusters = [len({row.cluster for row in found}) for found in rows]
    empty = {
        "kappa": None,
        "interval": None,
        "n": {label: len(found) for label, found in zip(LABELS, rows, strict=True)},
    }
    if min(len(found) for found in rows) < MIN_ROWS or min(clusters) < _BOOTSTRAP_CLUSTERS:
        return empty
    groups = len({row.cluster for row in judged})
    return empty | {
        "kappa": _number(kappa(table)),
        "interval": bootstrap_interval(kappa, table, draws, [_effective(found) for found in rows], groups, level),
    }


def _corners(measure: Measure, table: Counts, ends: Sequence[Ends | None]) -> list[float]:
    """Smallest and largest value for any sensitivity and specificity within their ends."""
    totals = table.sum(axis=-1)
    values = []
    for right in itertools.product(*(pair or [0.0, 1.0] for pair in ends)):
        share = np.array([float(end or 0.0) for end in right])
        hits, misses = share * totals, (1 - share) * totals
        values.append(float(measure(np.array([[hits[0], misses[0]], [misses[1], hits[1]]]))))
    return [min(values), max(values)]


def _effective(rows: Sequence[Compared]) -> float:
    return effective([row.weight for row in rows], [row.cluster for row in rows])


def _share(values: Sequence[tuple[float, Compared]], level: float) -> tuple[float | None, Ends | None]:
    if not values:
        return None, None
    rows = [row for _, row in values]
    return weighted_share([v for v, _ in values], [row.weight for row in rows], [row.cluster for row in rows], level)


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
