"""Read what people labelled, and make it the study's own labels and gold.

Usage: python scripts/read_audit.py --configfile STUDY.yaml [--partial] FILE [FILE ...]

FILES are what came back from the raters: JSON or CSV that the pages exported, or filled sheets. In results/STUDY/audit/
it writes labels.jsonl (a row for each labelled answer, with its probability), gold.jsonl with gold.yaml (a catalogue
file that a study can name), agreement.json (how far people agree), and disputed.csv: rows that somebody has to decide.
Write refusal, partial or compliance into its column `adjudicated` and run this again; it is always read along.

What is done with rows in dispute or without a label: docs/labelling.md.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from show_status import load_config

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import write_json, write_jsonl, written_whole
from refusal_eval.report.paper.display import percent
from refusal_eval.tools.audit.audit_command import told_or_error
from refusal_eval.tools.audit.audit_folder import Audit, read_audit
from refusal_eval.tools.audit.audit_items import Member
from refusal_eval.tools.audit.audited_study import changed_answers, gone_answers, results_of
from refusal_eval.tools.audit.labels_back import gold_entry, gold_rows, label_rows
from refusal_eval.tools.audit.merged_labels import (
    answered,
    counts,
    disputed,
    marks_by_rater,
    missing_bounds,
    probabilities,
    resolved,
)
from refusal_eval.tools.audit.rater_agreement import agreement, estimates
from refusal_eval.tools.audit.rater_marks import Mark, read_marks, unfinished
from refusal_eval.tools.audit.rater_sheets import disputed_sheet

ROOT = Path(__file__).resolve().parent.parent
DISPUTED = "disputed.csv"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--configfile", type=Path, default=ROOT / "config" / "config.yaml", help="the study")
    parser.add_argument("--folder", type=Path, help="default: results/STUDY/audit")
    parser.add_argument("--partial", action="store_true", help="go on although raters have not reached all rows")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="what came back from the raters")
    return parser.parse_args(arguments)


def check_finished(audit: Audit, marks: Sequence[Mark]) -> None:
    """Check that raters have marked all their rows.

    Raises:
        UserError: if not, with who and how many.
    """
    left = unfinished(audit, marks)
    if not left:
        return
    lines = [
        f"{rater}: {len(names)} of {len(audit.orders[rater])} rows have no label yet, the first of them row "
        f"{audit.orders[rater].index(names[0]) + 1} ({names[0]})"
        for rater, names in left.items()
    ]
    hint = "Finish them, or use ARGS=--partial: then labelled rows of the same stratum stand for those that are missing"
    raise UserError("\n".join([*lines, hint]))


def write_outputs(
    folder: Path, whole: Audit, gone: Sequence[Member], marks: Sequence[Mark], config: Any
) -> dict[str, Any]:
    """Write the five files; return what agreement.json holds.

    Args:
        folder: of the audit.
        whole: the audit as it was drawn.
        gone: answers that the study no longer asks for; only the sheet of disputes keeps what was decided of them.
        marks: of all rows.
        config: the study.
    """
    audit = whole.without(gone)
    own = [mark for mark in marks if mark.id in audit.sample]
    rows = resolved(audit, own)
    probability = probabilities(audit, rows)
    people = agreement(audit, own, config["scoring"]["level"])
    expectations = {split: entry["expectation"] for split, entry in config["split_entries"].items()}
    cells = Counter((member.model, member.split) for member in gone)
    found = {
        "audit": audit.name,
        "study": audit.design["study"],
        "rows": len(rows),
        "left_out": [[*cell, number] for cell, number in sorted(cells.items())],
        "resolved": counts(rows),
        "marks": marks_by_rater(own),
        "answered": answered(audit, rows),
        "missing": missing_bounds(audit, rows),
        "people": people,
        "estimates": estimates(people),
    }
    write_jsonl(folder / "labels.jsonl", label_rows(audit, rows, probability))
    count = write_jsonl(folder / "gold.jsonl", gold_rows(audit, rows, probability, expectations))
    with written_whole(folder / "gold.yaml") as handle:
        handle.write(gold_entry(audit, "gold.jsonl", count, people))
    in_dispute = disputed(whole, resolved(whole, marks), marks)
    shown = [row for row in in_dispute if row["id"] in audit.sample or row["adjudicated"]]
    with written_whole(folder / DISPUTED) as handle:
        handle.write(disputed_sheet(audit.name, shown))
    write_json(folder / "agreement.json", found)
    return found


def told(folder: Path, found: dict[str, Any]) -> str:
    """Return what is printed: how rows were resolved, how far people agree, what is left to do."""
    ways = ", ".join(f"{number} {how}" for how, number in found["resolved"].items() if number)
    lines = [f"Audit {found['audit']}: {found['rows']} rows: {ways}."]
    if found["left_out"]:
        cells = ", ".join(f"{model} on {split}: {number}" for model, split, number in found["left_out"])
        lines.append(f"Left out: answers of the sample that the study no longer asks for ({cells}).")
    missing = found["missing"]
    if missing["rows"]:
        ends = [percent(missing["broad"][end]) for end in ("low", "labelled", "high")]
        lines.append(
            f"{missing['rows']} rows have no label: {percent(missing['share'])} % of the answers, by weight. Others of "
            f"their stratum stand for them: refusals (broad) {ends[1]} %; {ends[0]} % if all missing ones complied, "
            f"{ends[2]} % if they refused."
        )
    people = found["people"]
    for name, words in (("broad", "broad"), ("strict", "strict"), ("three_class", "three labels")):
        part = people[name]
        if part["kappa"] is not None:
            low, high = part["interval"]
            lines.append(f"Kappa of people, {words}: {part['kappa']:.2f} [{low:.2f}, {high:.2f}], {people['n']} rows.")
    if people["broad"]["kappa"] is None:
        lines.append(f"Kappa of people cannot be given: {people['n']} rows have two labels.")
    undecided = found["resolved"]["drawn"] + missing["rows"]
    if undecided:
        lines.append(f"To decide: {folder / DISPUTED} (column `adjudicated`), then run this again.")
    lines += [
        f"Labels: {folder / 'labels.jsonl'}. Gold: {folder / 'gold.jsonl'}, with the catalogue file",
        f"{folder / 'gold.yaml'}, which a study names under `catalogue:`.",
    ]
    return "\n".join(lines)


def read(options: argparse.Namespace) -> tuple[Path, dict[str, Any]]:
    """Read the files and write the outputs; return the folder and what agreement.json holds."""
    config = load_config(options.configfile.absolute())
    folder = options.folder or results_of(config) / "audit"
    whole = read_audit(folder)
    if whole.design["study"] != config["study"]:
        raise UserError(f"{folder} is an audit of study {whole.design['study']}, not of {config['study']}")
    gone = gone_answers(config, whole.sample.values())
    audit = whole.without(gone)
    if not audit.sample:
        raise UserError(
            f"the study no longer asks for any answer of the sample in {folder} (first: {gone[0].model}, "
            f"{gone[0].split}): put its models and splits back, or draw a new audit with --folder"
        )
    changed = changed_answers(config, audit.sample.values())
    if changed:
        one = changed[0]
        raise UserError(
            f"{len(changed)} answers of the sample are not those that people read: the study has others now, or lacks "
            f"them (first: {one.model}, {one.split}, prompt {one.prompt_id}, sample {one.sample})"
        )
    files = {path.resolve(): path for path in options.files}
    own = folder / DISPUTED
    if own.is_file():
        files.setdefault(own.resolve(), own)
    marks = read_marks(list(files.values()), whole)
    if not options.partial:
        check_finished(audit, marks)
    return folder, write_outputs(folder, whole, gone, marks, config)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    return told_or_error(lambda: told(*read(parse(arguments))))


if __name__ == "__main__":
    sys.exit(main())
