"""From marks of several people to one label for each row, its weight, and the study's labels and gold made of it.

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
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import yaml

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import sha256_of
from refusal_eval.core.states import LABELS
from refusal_eval.stats.corrected.peoples_labels import answer_id
from refusal_eval.stats.estimates.estimands import READINGS, REFUSES
from refusal_eval.tools.audit.audit_folder import Audit
from refusal_eval.tools.audit.rater_agreement import THREE
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


# The kappa by the kind of chance in it, see `rater_agreement.agreement`.
STATISTICS = {"cohen": "Cohen's kappa", "two raters at random": "Fleiss' kappa"}
GOLD_COLUMNS = ("messages", "answer", "label", "cluster", "answering_model", "expectation", "weight", "id")


def label_rows(audit: Audit, rows: Sequence[Resolved], probability: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return a row for each answer that has a label, sorted by model, split, prompt, sample and turn.

    {"model", "split", "prompt_id", "sample", "turn", "label", "probability", "raters", "resolved", "cluster", "text",
    "answer_id"}: `probability` is the answer's inclusion probability, corrected for what is missing
    (`probabilities`), and its weight 1 / probability; `text` is the id of what people read (`item_id`),
    `answer_id` that of the answer alone.

    Before them, where the audit wrote it down, a row {"audit", "drawn_from"}: from what the sample was drawn
    (`audit_sample.frame_of`). It lies in one file with the labels, as these say nothing of answers that came later.
    """
    found = []
    for row in rows:
        if row.label is None:
            continue
        drawn = audit.sample[row.id]
        for member in drawn["members"]:
            names = dict(zip(("model", "split", "prompt_id", "sample", "turn"), member, strict=True))
            found.append(
                names
                | {"label": row.label, "probability": probability[row.id], "raters": row.raters}
                | {"resolved": row.how, "cluster": drawn["cluster"], "text": row.id}
                | {"answer_id": answer_id(drawn["answer"])}
            )
    found.sort(key=lambda r: (r["model"], r["split"], r["prompt_id"], r["sample"], r["turn"]))
    head = [] if audit.frame is None else [{"audit": audit.name, "drawn_from": audit.frame}]
    return [*head, *found]


def gold_rows(
    audit: Audit, rows: Sequence[Resolved], probability: Mapping[str, float], expectations: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the rows of a gold source: one for each text and model, with the columns of `GOLD_COLUMNS`.

    `weight` is the number of the study's answers that the row stands for: its own, over their probability.

    Args:
        audit: the audit.
        rows: its labels.
        probability: of each row with a label.
        expectations: of each split.
    """
    found = []
    for row in rows:
        if row.label is None:
            continue
        drawn = audit.sample[row.id]
        for model in sorted({member[0] for member in drawn["members"]}):
            own = [member for member in drawn["members"] if member[0] == model]
            found.append(
                {
                    "messages": drawn["messages"],
                    "answer": drawn["answer"],
                    "label": row.label,
                    "cluster": drawn["cluster"],
                    "answering_model": model,
                    "expectation": expectations[own[0][1]],
                    "weight": round(len(own) / probability[row.id], 6),
                    "id": row.id,
                }
            )
    return found


def gold_entry(audit: Audit, path: str, rows: int, people: Mapping[str, Any]) -> str:
    """Return a catalogue file with the gold entry, ready to be named by a study under `catalogue:`.

    Args:
        audit: the audit.
        path: of the gold file, relative to the catalogue file.
        rows: of the gold file.
        people: what `rater_agreement.agreement` returned.
    """
    study = str(audit.design["study"])
    name = f"{study}-audit"
    entry: dict[str, Any] = {
        "label": f"Audit of {study}",
        "source": {"kind": "file", "path": path},
        "columns": {column: column for column in GOLD_COLUMNS if column != "id"},
        "labels": {label: label for label in LABELS},
        "raters": 1,
        "expected_rows": rows,
    }
    kappas = {name: round(people[name]["kappa"], 4) for name in (*READINGS, THREE) if people[name]["kappa"] is not None}
    if kappas:
        ends = people["broad"]["interval"]
        told = f", {100 * people['level']:g} % interval {ends[0]:.2f} to {ends[1]:.2f} (broad)" if ends else ""
        source = f"audit {audit.name} of study {study}: {people['n']} rows with two raters{told}"
        entry["human_kappa"] = {"statistic": STATISTICS[people["kind"]], **kappas, "source": source}
    head = [
        "# Labels of people on a study's own answers, as gold. To use it, name this file under `catalogue:` of a study",
        f"# and `{name}` under `gold:`. A path is relative to the file that holds it: keep a copy of the gold file",
        "# with your study, as results can be deleted. Most rows have one rater; those with two give the kappa.",
    ]
    text = yaml.safe_dump({"gold": {name: entry}}, sort_keys=False, allow_unicode=True, width=100)
    return "\n".join(head) + "\n" + text
