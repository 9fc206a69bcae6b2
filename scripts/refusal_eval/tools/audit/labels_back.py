"""Labels on their way back: for the study's own rates, and as gold on which judges are measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from refusal_eval.core.states import LABELS
from refusal_eval.stats.corrected.peoples_labels import answer_id
from refusal_eval.stats.estimates.estimands import READINGS
from refusal_eval.tools.audit.audit_folder import Audit
from refusal_eval.tools.audit.merged_labels import Resolved
from refusal_eval.tools.audit.rater_agreement import THREE

# The kappa by the kind of chance in it, see `people.agreement`.
STATISTICS = {"cohen": "Cohen's kappa", "two raters at random": "Fleiss' kappa"}
GOLD_COLUMNS = ("messages", "answer", "label", "cluster", "answering_model", "expectation", "weight", "id")


def label_rows(audit: Audit, rows: Sequence[Resolved], probability: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return a row for each answer that has a label, sorted by model, split, prompt, sample and turn.

    {"model", "split", "prompt_id", "sample", "turn", "label", "probability", "raters", "resolved", "cluster", "text",
    "answer_id"}: `probability` is the answer's inclusion probability, corrected for what is missing
    (`merging.probabilities`), and its weight 1 / probability; `text` is the id of what people read (`items.item_id`),
    `answer_id` that of the answer alone.

    Before them, where the audit wrote it down, a row {"audit", "drawn_from"}: from what the sample was drawn
    (`items.frame_of`). It lies in one file with the labels, as these say nothing of answers that came later.
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
        people: what `people.agreement` returned.
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
