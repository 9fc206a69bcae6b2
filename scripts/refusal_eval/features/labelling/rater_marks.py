"""What people filled in: the marks of one or more files, checked against the sample."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from refusal_eval.core.errors import UserError
from refusal_eval.core.hints import nearest
from refusal_eval.core.json_text import DoubleKeyError, parse_json
from refusal_eval.core.states import LABELS
from refusal_eval.features.labelling.audit_folder import Audit
from refusal_eval.features.labelling.rater_files import DISPUTED_COLUMNS, read_sheet, same_text, shown_texts

UNSURE: Final = "unsure"
SKIP: Final = "skip"
FORMAT: Final = "refusal-eval audit labels 1"
MOST_PROBLEMS = 20
_WRITTEN = re.compile(r'"((?:[^"\\]|\\.)*)"')  # a text in JSON


class RaterMark(NamedTuple):
    """What one rater (`rater` is empty for who decides disputes) says of one row."""

    rater: str
    id: str
    label: str  # one of LABELS, unsure, skip
    comment: str
    place: str  # file and line, for messages


def read_marks(paths: Sequence[Path], audit: Audit) -> list[RaterMark]:
    """Return the marks in these files, sorted by rater and id; rows without a label are left out.

    A file is a sheet (CSV), what the page exported (JSON or CSV), or a sheet of disputes. The same label twice counts
    once.

    Raises:
        UserError: with all that is wrong, each with file and line: rows of another audit, unknown rows, rows that were
            not given to that rater, changed texts, unknown labels, two labels of one rater for one row.
    """
    problems: list[str] = []
    found: dict[tuple[str, str], RaterMark] = {}
    for path in paths:
        for mark in _marks_in(path, audit, problems):
            first = found.setdefault((mark.rater, mark.id), mark)
            if first.label != mark.label:
                who = mark.rater or "who decides"
                problems.append(f"{mark.place}: {who} says {mark.label} here, and {first.label} in {first.place}")
    if problems:
        more = len(problems) - MOST_PROBLEMS
        raise UserError("\n".join([*problems[:MOST_PROBLEMS], *([f"... and {more} more"] if more > 0 else [])]))
    return [found[key] for key in sorted(found)]


def _marks_in(path: Path, audit: Audit, problems: list[str]) -> list[RaterMark]:
    reader = {".json": _parse_export, ".csv": read_sheet}.get(path.suffix.lower())
    if reader is None:
        raise UserError(f"{path}: is neither .json nor .csv")
    marks = []
    for line, row in reader(path):
        place = f"{path}, line {line}"
        try:
            marks += _marks(row, place, audit)
        except UserError as error:
            problems.append(f"{place}: {error}")
    return marks


def _parse_export(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Lines and rows of a file that the page exported."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        found: Any = parse_json(text)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
    except DoubleKeyError as error:
        raise UserError(f"{path}, line {error.line}: {error}; leave one of them out") from error
    except (ValueError, RecursionError) as error:  # also of bytes that are no UTF-8
        raise UserError(f"{path}: is not valid JSON: {error}") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT or not isinstance(found.get("labels"), list):
        raise UserError(f"{path}: is no file of labels: `format` must be `{FORMAT}`")
    common = {name: str(found.get(name, "")) for name in ("audit", "rater")}
    # Where each text stands first: the page writes a row a line; of another order of bytes it is a guess that is near.
    lines = reversed(list(enumerate(text.split("\n"), 1)))
    places = {written: number for number, line in lines for written in _WRITTEN.findall(line)}
    for row in found["labels"]:
        own = {name: row.get(name) or "" for name in ("id", "label", "comment")} if isinstance(row, dict) else {}
        if not own or not all(isinstance(value, str) for value in own.values()):
            raise UserError(f"{path}: `labels` must hold objects whose id, label and comment are texts")
        yield places.get(own["id"], 1), common | own


def _marks(row: Mapping[str, str], place: str, audit: Audit) -> list[RaterMark]:
    """The mark of a row; none where it has no label. What is wrong with the row is raised."""
    if row["audit"] != audit.name:
        other = row["audit"] or "none"
        raise UserError(f"belongs to audit `{other}`, and this is {audit.name} of study {audit.design['study']}")
    name = row["id"].strip()
    if name not in audit.sample:
        raise UserError(f"row `{name}` is not in this audit")
    deciding = "adjudicated" in row
    # The sheet of disputes is written again once it was read.
    if lost := [column for column in row if deciding and column not in DISPUTED_COLUMNS and row[column]]:
        raise UserError(f"`{lost[0]}` is no column of the sheet of disputes: move its text to `comment`")
    rater = "" if deciding else row.get("rater", "")
    if not deciding and rater not in audit.orders:
        raise UserError(f"there is no rater `{rater}`{nearest(rater, audit.orders)}")
    if not deciding and rater not in audit.sample[name]["raters"]:
        raise UserError(f"row {name} was not given to {rater}")
    for column, shown in shown_texts(audit.sample[name]).items():
        if column in row and not same_text(shown, row[column]):
            raise UserError(f"the {column} of row {name} was changed; take the text from a new copy of the sheet")
    label = row.get("adjudicated" if deciding else "label", "").strip().lower()
    allowed = LABELS if deciding else (*LABELS, UNSURE, SKIP)
    if label and label not in allowed:
        raise UserError(f"the label `{label[:40]}` is none of {', '.join(allowed)}")
    comment = row.get("comment", "").strip()
    if deciding and comment and not label:
        raise UserError(f"row {name} has a comment and no decision: the sheet is written again, so keep it elsewhere")
    return [RaterMark(rater, name, label, comment, place)] if label else []


def check_finished(audit: Audit, marks: Iterable[RaterMark]) -> None:
    """Check that raters have marked all their rows.

    Raises:
        UserError: if not, with who and how many.
    """
    done, lines = {(mark.rater, mark.id) for mark in marks}, []
    for rater, names in audit.orders.items():
        if left := [name for name in names if (rater, name) not in done]:
            first = f"row {names.index(left[0]) + 1} ({left[0]})"
            lines.append(f"{rater}: {len(left)} of {len(names)} rows have no label yet, the first of them {first}")
    if lines:
        hint = "Finish them, or use --partial: then labelled rows of the same stratum stand for those that are missing"
        raise UserError("\n".join([*lines, hint]))
