"""A rater's sheet as CSV: written so that spreadsheets keep it whole, and read back whatever they made of it."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.texts import csv_line, escaped_cell, plain_cell, visible
from refusal_eval.tools.audit.shown_text import conversation_text, shortened

COLUMNS = ("audit", "rater", "row", "id", "prompt", "answer", "label", "comment")
DISPUTED_COLUMNS = ("audit", "id", "prompt", "answer", "labels", "comments", "adjudicated")
_DELIMITERS = (",", ";", "\t")  # some spreadsheets write what their country writes


def shown_texts(row: Mapping[str, Any]) -> dict[str, str]:
    """Return what a sheet shows of a row of the sample: `prompt` and `answer`."""
    return {"prompt": shortened(conversation_text(row["messages"])), "answer": shortened(visible(row["answer"]))}


def sheet(audit: str, rater: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the CSV of one rater, with empty labels."""
    cells = (
        {"audit": audit, "rater": rater, "row": number, "id": row["id"], **shown_texts(row)}
        for number, row in enumerate(rows, 1)
    )
    return _csv(COLUMNS, cells)


def disputed_sheet(audit: str, rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the CSV of rows that somebody has to decide.

    Args:
        audit: the audit's id.
        rows: with id, messages, answer, `labels`, `comments` and `adjudicated` (may be empty).
    """
    names = ("id", "labels", "comments", "adjudicated")
    cells = ({"audit": audit, **{name: row[name] for name in names}, **shown_texts(row)} for row in rows)
    return _csv(DISPUTED_COLUMNS, cells)


def _csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    lines = (csv_line(escaped_cell(str(row.get(column, ""))) for column in columns) for row in rows)
    return "\ufeff" + csv_line(columns) + "".join(lines)  # without the mark Excel reads UTF-8 as something else


def read_sheet(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the line on which each row begins, and the row with its cells as they were before they were escaped.

    Commas, semicolons and tabs are understood as separators. Blank rows are left out.

    Raises:
        UserError: for a file that is no CSV in UTF-8 or lacks the columns `audit` and `id`.
    """
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not UTF-8 (byte {error.start}); save it as CSV UTF-8") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
    head = text.split("\n", 1)[0]
    delimiter = max(_DELIMITERS, key=head.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        header = [name.strip().lower() for name in next(reader, [])]
        if not {"audit", "id"} <= set(header):
            raise UserError(f"{path}, line 1: is no sheet of an audit: it needs the columns `audit` and `id`")
        line = reader.line_num + 1
        for cells in reader:
            if any(cell.strip() for cell in cells):
                if len(cells) > len(header):
                    raise UserError(f"{path}, line {line}: has {len(cells)} cells, the header has {len(header)}")
                cells += [""] * (len(header) - len(cells))
                yield line, {name: plain_cell(cell) for name, cell in zip(header, cells, strict=True)}
            line = reader.line_num + 1
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: is not valid CSV: {error}") from error
