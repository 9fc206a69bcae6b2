"""From marks of several people to one label for each row, and the weight of each row that has one.

The label of a row, by the first of these that applies:

    adjudicated   what the sheet of disputes says
    single        one rater gave a label (the other, if there is one, was unsure or skipped it)
    agreed        two raters gave the same label
    drawn         they gave different labels: that of one of them, drawn at random (by the seed)

Leaving rows in dispute out would leave out the hard ones and flatter every judge. Most rows are labelled by one rater
who happened to get them; drawing one of two is the same thing, so that all rows have the label of a rater taken at
random, and every row keeps its weight. An adjudicated label is better, and replaces the drawn one.

Rows without a label (unsure, skipped, not reached) are missing. The rows of their stratum that have one stand for them
too: their probability is multiplied by the share of the stratum, by weight, that has a label. That is right if within a
stratum what is missing is like what is not; `missing_bounds` says what it could hide.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import sha256_of
from refusal_eval.core.states import LABELS
from refusal_eval.stats.estimates.estimands import READINGS, REFUSES
from refusal_eval.tools.audit.audit_folder import Audit
from refusal_eval.tools.audit.rater_marks import Mark


class Resolved(NamedTuple):
    """The label of a row; None where nobody could give one."""

    id: str
    label: str | None
    how: str  # adjudicated, single, agreed, drawn; missing without a label
    raters: int  # people who gave it a label


def resolved(audit: Audit, marks: Iterable[Mark]) -> list[Resolved]:
    """Return the label of each row of the sample, sorted by id."""
    given: dict[str, list[str]] = {name: [] for name in audit.sample}
    decided: dict[str, str] = {}
    for mark in sorted(marks):
        if not mark.rater:
            decided[mark.id] = mark.label
        elif mark.label in LABELS:
            given[mark.id].append(mark.label)
    return [_resolved(name, given[name], decided.get(name), audit.design["seed"]) for name in sorted(audit.sample)]


def _resolved(name: str, labels: list[str], decided: str | None, seed: int) -> Resolved:
    if decided is not None:
        return Resolved(name, decided, "adjudicated", len(labels) + 1)
    if not labels:
        return Resolved(name, None, "missing", 0)
    if len(set(labels)) == 1:
        return Resolved(name, labels[0], "single" if len(labels) == 1 else "agreed", len(labels))
    place = int(sha256_of([seed, "drawn", name])[:8], 16) % len(labels)
    return Resolved(name, labels[place], "drawn", len(labels))


def probabilities(audit: Audit, rows: Iterable[Resolved]) -> dict[str, float]:
    """Return the probability of each row that has a label: that of its draw, times the share of its stratum answered.

    The weights of a stratum, the answers behind a row over its probability, sum to the same with and without what is
    missing.

    Raises:
        UserError: if a stratum has no label at all: nothing could stand for it.
    """
    rows = list(rows)
    share = answered(audit, rows)
    empty = [stratum for stratum, part in share.items() if part == 0]
    if empty:
        answers = sum(audit.design["strata"][stratum]["answers"] for stratum in empty)
        raise UserError(
            f"no row of the stratum {' or '.join(empty)} has a label, and nothing else can stand for its {answers} "
            "answers: label (or adjudicate) at least one of its rows"
        )
    labelled = (audit.sample[row.id] for row in rows if row.label is not None)
    return {row["id"]: row["probability"] * share[row["stratum"]] for row in labelled}


def answered(audit: Audit, rows: Iterable[Resolved]) -> dict[str, float]:
    """Return the share of each stratum's weight that has a label."""
    whole: dict[str, list[float]] = {}
    known: dict[str, list[float]] = {}
    for row in rows:
        drawn = audit.sample[row.id]
        weight = len(drawn["members"]) / drawn["probability"]
        whole.setdefault(drawn["stratum"], []).append(weight)
        known.setdefault(drawn["stratum"], []).append(weight if row.label is not None else 0.0)
    # The one where nothing is missing is exactly 1.
    return {
        name: 1.0 if known[name] == weights else math.fsum(known[name]) / math.fsum(weights)
        for name, weights in sorted(whole.items())
    }


def missing_bounds(audit: Audit, rows: Iterable[Resolved]) -> dict[str, Any]:
    """Return how much is missing, and the share of refusals if all of it complied, or refused.

    Shares are of the audit's answers, by weight, in each reading: `low` and `high`, and `labelled`, the share among
    rows with a label.
    """
    rows = list(rows)
    weights = {row.id: len(audit.sample[row.id]["members"]) / audit.sample[row.id]["probability"] for row in rows}
    total = math.fsum(weights.values())
    missing = math.fsum(weights[row.id] for row in rows if row.label is None)
    found: dict[str, Any] = {"rows": sum(row.label is None for row in rows), "share": missing / total}
    for reading in READINGS:
        refused = math.fsum(weights[row.id] for row in rows if row.label in REFUSES[reading])
        known = total - missing
        labelled = refused / known if known else None
        found[reading] = {"low": refused / total, "high": (refused + missing) / total, "labelled": labelled}
    return found


def disputed(audit: Audit, rows: Iterable[Resolved], marks: Iterable[Mark]) -> list[dict[str, Any]]:
    """Return the rows that somebody should decide, or decided: raters differ, or nobody gave a label but a mark.

    Each has id, messages, answer, `labels` and `comments` (of all raters, without their names) and `adjudicated`.
    """
    own: dict[str, list[Mark]] = {}
    for mark in sorted(marks):
        own.setdefault(mark.id, []).append(mark)
    found = []
    for row in rows:
        people = [mark for mark in own.get(row.id, []) if mark.rater]
        decided = next((mark.label for mark in own.get(row.id, []) if not mark.rater), "")
        if not decided and row.how != "drawn" and not (row.label is None and people):
            continue
        drawn = audit.sample[row.id]
        labels = sorted((mark.label for mark in people), key=lambda label: (label not in LABELS, label))
        comments = " | ".join(sorted(mark.comment for mark in people if mark.comment))
        found.append(
            {"id": row.id, "messages": drawn["messages"], "answer": drawn["answer"], "adjudicated": decided}
            | {"labels": " | ".join(labels), "comments": comments}
        )
    return found


def counts(rows: Iterable[Resolved]) -> dict[str, int]:
    """Return how many rows were resolved in which way, in a fixed order."""
    found = Counter(row.how for row in rows)
    return {how: found[how] for how in ("adjudicated", "single", "agreed", "drawn", "missing")}


def marks_by_rater(marks: Iterable[Mark]) -> dict[str, Mapping[str, int]]:
    """Return how often each rater gave each mark."""
    found: dict[str, Counter[str]] = {}
    for mark in marks:
        if mark.rater:
            found.setdefault(mark.rater, Counter())[mark.label] += 1
    return {rater: dict(sorted(count.items())) for rater, count in sorted(found.items())}
