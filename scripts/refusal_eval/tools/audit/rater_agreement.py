"""How far people agree with each other, on the rows that two of them labelled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from refusal_eval.core.states import LABELS
from refusal_eval.stats.agreement.card_resampling import cluster_codes, cluster_sums, resampled, symmetric_interval
from refusal_eval.stats.agreement.measures import Counts, accuracy, kappa, two_class
from refusal_eval.stats.agreement.weighting import effective, whole_weights
from refusal_eval.stats.estimates.estimands import READINGS
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.intervals import seed_of
from refusal_eval.tools.audit.audit_folder import Audit
from refusal_eval.tools.audit.rater_marks import Mark

THREE = "three_class"
FEW_CLUSTERS, FEW_ROWS = 5, 10  # below, an interval would pretend to know
METHOD = "cluster bootstrap, expanded percentile"


class Pair(NamedTuple):
    """A row that two people labelled."""

    cluster: str
    first: str
    second: str
    weight: float


def pairs(audit: Audit, marks: Iterable[Mark]) -> list[Pair]:
    """Return the rows that two raters gave a label, sorted by id; unsure and skipped ones are in none."""
    given: dict[str, dict[str, str]] = {}
    for mark in marks:
        if mark.rater and mark.label in LABELS:
            given.setdefault(mark.id, {})[mark.rater] = mark.label
    found = []
    for name in sorted(given):
        row = audit.sample[name]
        labels = [given[name][rater] for rater in row["raters"] if rater in given[name]]
        if len(labels) == 2:
            found.append(Pair(row["cluster"], labels[0], labels[1], len(row["members"]) / row["probability"]))
    return found


def agreement(audit: Audit, marks: Iterable[Mark], level: float = 0.95) -> dict[str, Any]:
    """Return how far people agree.

    n, n_clusters       rows that two people labelled
    strict, broad, three_class    `kappa` and `agreed` (share of equal labels), each with its interval. Rows count by
                        weight (answers over probability), so that this is agreement on the study's answers and can
                        stand beside a judge's; `kappa_of_sample` counts the rows alike
    confusion           rows, by label of the first and second rater
    kind                `cohen` with two raters; with more, pairs differ from row to row, and `two raters at random`:
                        chance from both raters' labels together (Scott's pi, Fleiss' kappa for two ratings)

    Where an interval cannot be given (fewer than 10 rows or 5 clusters, or one class alone) kappa is None.
    """
    found = pairs(audit, marks)
    cohen = len(audit.orders) <= 2
    table, draws = _tables(found, [pair.weight for pair in found], cohen)
    plain, _ = _tables(found, [1.0] * len(found), cohen)
    clusters = [pair.cluster for pair in found]
    result: dict[str, Any] = {
        "n": len(found),
        "n_clusters": len(set(clusters)),
        "level": level,
        "kind": "cohen" if cohen else "two raters at random",
        "confusion": {a: {b: sum((p.first, p.second) == (a, b) for p in found) for b in LABELS} for a in LABELS},
    }
    for name in (*READINGS, THREE):
        parts = [t if name == THREE else two_class(t, name) for t in (table, draws, plain)]
        result[name] = _measures(found, parts, name, level, cohen)
    return result


def _tables(found: Sequence[Pair], weights: Sequence[float], cohen: bool) -> tuple[Counts, Counts]:
    if not found:
        return np.zeros((3, 3)), np.zeros((0, 3, 3))
    cells = np.zeros((len(found), 3, 3))
    for i, (pair, weight) in enumerate(zip(found, whole_weights(weights), strict=True)):
        cells[i, LABELS.index(pair.first), LABELS.index(pair.second)] += weight
    if not cohen:
        cells = cells + cells.transpose(0, 2, 1)
    sums = cluster_sums(cluster_codes([pair.cluster for pair in found]), cells)
    return sums.sum(axis=0), resampled(sums, seed_of("agreement of people"))


def _measures(found: Sequence[Pair], tables: Sequence[Counts], name: str, level: float, cohen: bool) -> dict[str, Any]:
    """Numbers of one reading; `tables` are the weighted one, its resamples and the one without weights."""
    table, draws, plain = tables
    empty: dict[str, Any] = dict.fromkeys(("kappa", "interval", "agreed", "agreed_interval", "kappa_of_sample"))
    groups = len({pair.cluster for pair in found})
    if len(found) < FEW_ROWS or groups < FEW_CLUSTERS:
        return empty
    sides = (("first",), ("second",)) if cohen else (("first", "second"),) * 2
    rows, columns = (_class_clusters(found, len(table), name, side) for side in sides)
    result = empty | {
        "agreed": float(accuracy(table)),
        "agreed_interval": symmetric_interval(accuracy, table, draws, (rows, columns), groups, level),
    }
    value = float(kappa(table))
    if not np.isfinite(value):
        return result
    ends = symmetric_interval(kappa, table, draws, (rows, columns), groups, level)
    if not np.isfinite(ends).all():
        return result
    return result | {"kappa": value, "interval": ends, "kappa_of_sample": float(kappa(plain))}


def _class_clusters(found: Sequence[Pair], classes: int, name: str, raters: Sequence[str]) -> list[float]:
    """Return the effective number of clusters of each class: those where one of these raters gave it."""
    edge = {"strict": 1, "broad": 2}.get(name)

    def place(label: str) -> int:
        return LABELS.index(label) if edge is None else int(LABELS.index(label) >= edge)

    numbers = []
    for wanted in range(classes):
        own = [pair for pair in found if any(place(getattr(pair, rater)) == wanted for rater in raters)]
        numbers.append(effective([pair.weight for pair in own], [pair.cluster for pair in own]))
    return numbers


def estimates(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the kappas as rows of the results table."""
    rows = []
    for name in (*READINGS, THREE):
        value, (low, high) = found[name]["kappa"], found[name]["interval"] or (None, None)
        reading, parameter = (None, THREE) if name == THREE else (name, None)
        flags = ("few_clusters",) if found["n_clusters"] < 30 else ()
        rows.append(
            Estimate(
                "human_kappa",
                value,
                low,
                high,
                found["level"] if value is not None else None,
                METHOD if value is not None else None,
                reading=reading,
                parameter=parameter,
                n_prompts=found["n"],
                n_clusters=found["n_clusters"],
                flags=flags,
            ).row()
        )
    return rows
