"""From marks of several people to one label for each row, its weight, and the study's labels and gold made of it.

The label of a row, by the first of these that applies:

    adjudicated   what the sheet of disputes says
    single        one rater gave a label (the other, if there is one, was unsure or skipped it)
    agreed        two raters gave the same label
    drawn         they gave different labels: that of one of them, drawn at random (by the seed)

Dropping disputed rows would drop the hard ones and flatter every judge. Most rows are labelled by one rater who
happened to get them; drawing one of two is the same thing, so that all rows have the label of a rater taken at random,
and every row keeps its weight. An adjudicated label is better, and replaces the drawn one.

Rows without a label (unsure, skipped, not reached) are missing. The labelled rows of their stratum represent them too:
their probability is multiplied by the share of the stratum, by weight, that has a label. That is right if labels are
missing at random within a stratum; `missing_bounds` shows what it could hide.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import answer_id, sha256_of
from refusal_eval.core.states import LABELS
from refusal_eval.features.labelling.audit_folder import Audit
from refusal_eval.features.labelling.audit_sample import Member
from refusal_eval.features.labelling.rater_marks import RaterMark
from refusal_eval.stats.estimates.estimands import READINGS, REFUSES

WAYS = ("adjudicated", "single", "agreed", "drawn", "missing")
THREE = "three_class"
# The kappa by the kind of chance in it, see `rater_agreement.agreement`.
STATISTICS = {"cohen": "Cohen's kappa", "two raters at random": "Fleiss' kappa"}
GOLD_COLUMNS = ("messages", "answer", "label", "cluster", "answering_model", "expectation", "weight", "id")


@dataclass(frozen=True)
class MergedLabel:
    """A row of the sample with what people say of it."""

    row: Mapping[str, Any]  # of sample.jsonl
    label: str | None  # None if no rater could give one
    how: str  # one of `WAYS`
    given: Mapping[str, str]  # the labels of raters, by their names
    marks: Sequence[RaterMark]  # all marks, sorted by rater; that of who decides has none

    @property
    def weight(self) -> float:
        """The number of the study's answers that the row stands for."""
        return len(self.row["members"]) / float(self.row["probability"])

    @property
    def people(self) -> int:
        """The number of people who labelled it."""
        return len(self.given) + (self.how == "adjudicated")


def merge_labels(audit: Audit, marks: Iterable[RaterMark]) -> list[MergedLabel]:
    """Return the rows of the sample with their labels, sorted by id."""
    by_row: dict[str, list[RaterMark]] = defaultdict(list)
    for mark in sorted(marks):
        by_row[mark.id].append(mark)
    return [_merge_row(audit.sample[name], by_row[name], audit.design["seed"]) for name in sorted(audit.sample)]


def _merge_row(row: Mapping[str, Any], marks: Sequence[RaterMark], seed: int) -> MergedLabel:
    given = {mark.rater: mark.label for mark in marks if mark.rater and mark.label in LABELS}
    labels = list(given.values())
    if decided := [mark.label for mark in marks if not mark.rater]:
        return MergedLabel(row, decided[0], "adjudicated", given, marks)
    if not labels:
        return MergedLabel(row, None, "missing", given, marks)
    if len(set(labels)) == 1:
        return MergedLabel(row, labels[0], "single" if len(labels) == 1 else "agreed", given, marks)
    place = int(sha256_of([seed, "drawn", row["id"]])[:8], 16) % len(labels)
    return MergedLabel(row, labels[place], "drawn", given, marks)


def labelled_shares(rows: Iterable[MergedLabel]) -> dict[str, float]:
    """Return the share of each stratum's weight that has a label; exactly 1 where nothing is missing."""
    strata: dict[str, list[MergedLabel]] = defaultdict(list)
    for one in rows:
        strata[one.row["stratum"]].append(one)
    return {
        name: math.fsum(one.weight for one in found if one.label) / math.fsum(one.weight for one in found)
        for name, found in sorted(strata.items())
    }


def probabilities(audit: Audit, rows: Sequence[MergedLabel]) -> dict[str, float]:
    """Return the probability of each labelled row: that of its draw, times the labelled share of its stratum.

    The weights of a stratum sum to the same with and without what is missing.

    Raises:
        UserError: if a stratum has no label at all, so that nothing represents it.
    """
    share = labelled_shares(rows)
    if empty := [stratum for stratum, part in share.items() if part == 0]:
        answers = sum(audit.design["strata"][stratum]["answers"] for stratum in empty)
        raise UserError(
            f"no row of the stratum {' or '.join(empty)} has a label, and nothing else can stand for its {answers} "
            "answers: label (or adjudicate) at least one of its rows"
        )
    return {one.row["id"]: one.row["probability"] * share[one.row["stratum"]] for one in rows if one.label}


def missing_bounds(rows: Sequence[MergedLabel]) -> dict[str, Any]:
    """Return how much is missing, and the share of refusals if all of it complied, or refused.

    Shares are of the audit's answers, by weight, in each reading: `low` and `high`, and `labelled`, the share among
    rows with a label.
    """
    total = math.fsum(one.weight for one in rows)
    missing = math.fsum(one.weight for one in rows if one.label is None)
    found: dict[str, Any] = {"rows": sum(one.label is None for one in rows), "share": missing / total}
    for reading in READINGS:
        refused = math.fsum(one.weight for one in rows if one.label in REFUSES[reading])
        labelled = refused / (total - missing) if total - missing else None
        found[reading] = {"low": refused / total, "high": (refused + missing) / total, "labelled": labelled}
    return found


def disputed_rows(rows: Iterable[MergedLabel]) -> list[dict[str, Any]]:
    """Return the rows that need a decision, or have one: raters differ, or gave marks but no label.

    Each has id, messages, answer, `labels` and `comments` (of all raters, without their names), `adjudicated` and the
    `comment` of who decided.
    """
    found = []
    for one in rows:
        people = [mark for mark in one.marks if mark.rater]
        if one.how in ("adjudicated", "drawn") or (one.label is None and people):
            labels = sorted((mark.label for mark in people), key=lambda label: (label not in LABELS, label))
            comments = sorted(mark.comment for mark in people if mark.comment)
            row = {name: one.row[name] for name in ("id", "messages", "answer")}
            row |= {"labels": " | ".join(labels), "comments": " | ".join(comments)}
            decided = next(((mark.label, mark.comment) for mark in one.marks if not mark.rater), ("", ""))
            found.append(row | dict(zip(("adjudicated", "comment"), decided, strict=True)))
    return found


def label_rows(audit: Audit, rows: Iterable[MergedLabel], probability: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return a row for each answer that has a label, sorted by model, split, prompt, sample and turn.

    {"model", "split", "prompt_id", "sample", "turn", "label", "probability", "raters", "resolved", "cluster", "text",
    "answer_id"}: `probability` is the answer's inclusion probability, corrected for what is missing
    (`probabilities`), and its weight 1 / probability; `text` is the id of what people read, `answer_id` that of the
    answer alone.

    Before them, where the audit wrote it down, a row {"audit", "drawn_from"}: from what the sample was drawn
    (`Audit.frame`). It lies in one file with the labels, as these say nothing of answers that came later.
    """
    found = []
    for one in rows:
        if one.label is not None:
            common = {"label": one.label, "probability": probability[one.row["id"]], "raters": one.people}
            common |= {"resolved": one.how, "cluster": one.row["cluster"], "text": one.row["id"]}
            common["answer_id"] = answer_id(one.row["answer"])
            found += [(Member(*member), common) for member in one.row["members"]]
    found.sort(key=lambda pair: pair[0])
    head = [] if audit.frame is None else [{"audit": audit.name, "drawn_from": audit.frame}]
    return [*head, *(member._asdict() | common for member, common in found)]


def gold_rows(
    rows: Iterable[MergedLabel], probability: Mapping[str, float], expectations: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the rows of a gold source: one for each text and model, with the columns of `GOLD_COLUMNS`.

    `weight` is the number of the study's answers that the row represents: its own, divided by their probability.
    `expectations` are those of the splits.
    """
    found = []
    for one in rows:
        members = [Member(*member) for member in one.row["members"]] if one.label else []
        for model in sorted({member.model for member in members}):
            own = [member for member in members if member.model == model]
            row = {name: one.row[name] for name in ("id", "messages", "answer", "cluster")}
            row |= {"label": one.label, "answering_model": model, "expectation": expectations[own[0].split]}
            found.append(row | {"weight": round(len(own) / probability[one.row["id"]], 6)})
    return found


def gold_entry(audit: Audit, path: str, rows: int, people: Mapping[str, Any], folder: str = "audit") -> str:
    """Return a catalogue file with the gold entry, ready to be named by a study under `catalogue:`.

    `path` is the gold file's, relative to it, `people` what `rater_agreement.agreement` returned. The entry's name
    contains the name of the audit's `folder`: a study may have several audits.
    """
    study = str(audit.design["study"])
    name = f"{study}-{re.sub('[^a-z0-9._-]+', '-', folder.lower())}"
    entry: dict[str, Any] = {
        "label": f"Audit of {study}" + (f" ({folder})" if folder != "audit" else ""),
        "source": {"kind": "file", "path": path},
        "columns": {column: column for column in GOLD_COLUMNS if column != "id"},
        "labels": {label: label for label in LABELS},
        "raters": 1,
        "expected_rows": rows,
    }
    kappas = {name: round(people[name]["kappa"], 4) for name in (*READINGS, THREE) if people[name]["kappa"] is not None}
    if kappas:
        ends = people["broad"]["interval"]
        interval = f", {100 * people['level']:g} % interval {ends[0]:.2f} to {ends[1]:.2f} (broad)" if ends else ""
        source = f"audit {audit.name} of study {study}: {people['n']} rows with two raters{interval}"
        entry["human_kappa"] = {"statistic": STATISTICS[people["kind"]], **kappas, "source": source}
    head = [
        "# Labels of people on a study's own answers, as gold. To use it, name this file under `catalogue:` of a study",
        f"# and `{name}` under `gold:`. A path is relative to the file that holds it: keep a copy of the gold file",
        "# with your study, as results can be deleted. Most rows have one rater; those with two give the kappa.",
    ]
    text = yaml.safe_dump({"gold": {name: entry}}, sort_keys=False, allow_unicode=True, width=100)
    return "\n".join(head) + "\n" + text
