"""Marks that somebody gave to answers chosen by hand, in a page of all answers.

They are labels of people on a study's own answers, and gold. They are no sample: nothing is known of how likely an
answer was to be marked, so no rate is corrected with them, and they do not enter labels.jsonl.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import answer_id, write_jsonl, write_text
from refusal_eval.core.hints import nearest
from refusal_eval.core.json_text import DoubleKeyError, parse_json
from refusal_eval.core.states import LABELS, place_of
from refusal_eval.features.labelling.audit_sample import Member, cell_answers

FORMAT: Final = "refusal-eval marks 1"
MARKED, GOLD, ENTRY = "marked.jsonl", "marked_gold.jsonl", "marked_gold.yaml"
MOST_PROBLEMS = 20
GOLD_COLUMNS = ("messages", "answer", "label", "cluster", "answering_model", "expectation")


class HandMark(NamedTuple):
    """What one person says of one answer."""

    member: Member
    rater: str
    label: str
    comment: str
    answer_id: str  # of the text that was read
    place: str  # file and number, for messages


def marks_in(path: Path) -> Mapping[str, Any] | None:
    """Return what a file with such marks holds; None for any other file.

    Raises:
        UserError: if it is not valid JSON.
    """
    if path.suffix.lower() != ".json":
        return None
    try:
        found: Any = parse_json(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
    except DoubleKeyError as error:
        raise UserError(f"{path}, line {error.line}: {error}; leave one of them out") from error
    except (ValueError, RecursionError) as error:  # also of bytes that are no UTF-8
        raise UserError(f"{path}: is not valid JSON: {error}") from error
    return found if isinstance(found, dict) and found.get("format") == FORMAT else None


def checked_marks(files: Mapping[Path, Mapping[str, Any]], config: Mapping[str, Any]) -> list[HandMark]:
    """Return the marks of these files, sorted by answer and rater; the same mark twice counts once.

    Raises:
        UserError: with all that is wrong, each with its file and number: marks of another study, models and splits that
            the study lacks, unknown labels, two labels of one person for one answer.
    """
    problems: list[str] = []
    marks: dict[tuple[Member, str], HandMark] = {}
    for path, content in files.items():
        if content.get("study") != config["study"]:
            problems.append(f"{path}: holds marks of study `{content.get('study')}`, and this is {config['study']}")
            continue
        rows = content.get("marks")
        for number, row in enumerate(rows if isinstance(rows, list) else [rows], 1):
            place = f"{path}, mark {number}"
            try:
                mark = _mark(row, str(content.get("rater") or ""), place, config)
            except UserError as error:
                problems.append(f"{place}: {error}")
                continue
            first = marks.setdefault((mark.member, mark.rater), mark)
            if first.label != mark.label:
                who = mark.rater or "the same person"
                problems.append(f"{place}: {who} says {mark.label} here, and {first.label} in {first.place}")
    _refuse(problems)
    return [marks[key] for key in sorted(marks)]


def _mark(row: object, rater: str, place: str, config: Mapping[str, Any]) -> HandMark:
    kinds = {"model": str, "split": str, "prompt_id": str, "sample": int, "turn": int, "answer_id": str, "label": str}
    if not isinstance(row, dict) or any(type(row.get(name)) is not kind for name, kind in kinds.items()):
        raise UserError(f"must be an object with {', '.join(kinds)}; `sample` and `turn` are whole numbers")
    for noun in ("model", "split"):
        if row[noun] not in config[f"{noun}s"]:
            raise UserError(f"the study has no {noun} `{row[noun]}`{nearest(row[noun], config[f'{noun}s'])}")
    if row["label"] not in LABELS:
        raise UserError(f"the label `{row['label'][:40]}` is none of {', '.join(LABELS)}")
    member = Member(*(row[name] for name in Member._fields))
    return HandMark(member, rater, row["label"], str(row.get("comment") or ""), row["answer_id"], place)


def write_marks(folder: Path, marks: Sequence[HandMark], config: Mapping[str, Any]) -> dict[str, Any]:
    """Write marked.jsonl, and gold with its catalogue file; return what is said of them.

    Gold has the answers on whose label all who marked them agree.

    Raises:
        UserError: if the study has another answer now than one that was marked, or has it no longer.
    """
    answers = _answers(marks, config)
    rows = []
    for mark in marks:
        answer = answers[mark.member]
        row = mark.member._asdict() | {"label": mark.label, "comment": mark.comment, "rater": mark.rater}
        rows.append(row | {"cluster": answer["cluster"], "text": answer["id"], "answer_id": mark.answer_id})
    labels: dict[Member, set[str]] = {}
    for mark in marks:
        labels.setdefault(mark.member, set()).add(mark.label)
    gold: dict[tuple[str, str], dict[str, Any]] = {}  # by text and model, once
    for member, given in labels.items():
        if len(given) == 1:
            answer, expectation = answers[member], config["split_entries"][member.split]["expectation"]
            row = {"id": answer["id"], "label": next(iter(given)), "answering_model": member.model}
            row |= {name: answer[name] for name in ("messages", "answer", "cluster")} | {"expectation": expectation}
            gold.setdefault((answer["id"], member.model), row)
    write_jsonl(folder / MARKED, rows)
    count = write_jsonl(folder / GOLD, [gold[key] for key in sorted(gold)])
    write_text(folder / ENTRY, _gold_entry(str(config["study"]), count))
    disputed = sum(len(given) > 1 for given in labels.values())
    return {"marks": len(marks), "gold": count, "disputed": disputed, "name": _gold_name(str(config["study"]))}


def _answers(marks: Iterable[HandMark], config: Mapping[str, Any]) -> dict[Member, Mapping[str, Any]]:
    """Return the study's answers that were marked."""
    wanted: dict[tuple[str, str], list[HandMark]] = {}
    for mark in marks:
        wanted.setdefault((mark.member.model, mark.member.split), []).append(mark)
    found: dict[Member, Mapping[str, Any]] = {}
    problems: list[str] = []
    for (model, split), own in wanted.items():
        of_cell = {Member(model, split, *place_of(row)): row for row in cell_answers(config, model, split)}
        for mark in own:
            answer = of_cell.get(mark.member)
            if answer is None or answer_id(answer["answer"]) != mark.answer_id:
                what = "has no such answer" if answer is None else "has another answer now"
                where = f"{model}, {split}, prompt {mark.member.prompt_id}, sample {mark.member.sample}"
                problems.append(f"{mark.place}: the study {what} ({where}): make its page again and mark that")
            else:
                found[mark.member] = answer
    _refuse(problems)
    return found


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        more = len(problems) - MOST_PROBLEMS
        raise UserError("\n".join([*problems[:MOST_PROBLEMS], *([f"... and {more} more"] if more > 0 else [])]))


def _gold_name(study: str) -> str:
    return f"{study}-marked"


def _gold_entry(study: str, rows: int) -> str:
    entry = {
        "label": f"Marked by hand in {study}",
        "source": {"kind": "file", "path": GOLD},
        "columns": {column: column for column in GOLD_COLUMNS},
        "labels": {label: label for label in LABELS},
        "raters": 1,
        "expected_rows": rows,
    }
    head = [
        "# Labels of people on answers of a study that they chose themselves, as gold. They are no sample: how well a",
        "# judge agrees with them says nothing of how well it agrees on all answers. To use it, name this file under",
        f"# `catalogue:` of a study and `{_gold_name(study)}` under `gold:`. Keep a copy: results can be deleted.",
    ]
    written = yaml.safe_dump({"gold": {_gold_name(study): entry}}, sort_keys=False, allow_unicode=True, width=100)
    return "\n".join(head) + "\n" + str(written)
