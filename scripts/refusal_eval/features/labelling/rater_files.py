"""What a rater gets: a page that needs no network and no other file, a sheet as CSV, and a text that explains it.

The sheet is written so that spreadsheets keep it whole, and read back whatever they made of it.
"""

import csv
import functools
import io
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.texts import csv_line, escaped_cell, plain_cell, visible
from refusal_eval.core.yaml_files import read_yaml
from refusal_eval.program.offline_page import offline_page
from refusal_eval.program.text_templates import render_template

COLUMNS = ("audit", "rater", "row", "id", "prompt", "answer", "label", "comment")
DISPUTED_COLUMNS = ("audit", "id", "prompt", "answer", "labels", "comments", "adjudicated", "comment")
LONGEST_CELL = 32_000  # units of UTF-16, of which an emoji has two; spreadsheets cut a cell at 32,767
ROLES = {"user": "User", "assistant": "Assistant", "system": "System"}
_DELIMITERS = (",", ";", "\t")  # some spreadsheets write what their country writes
PAGE = Path(__file__).parent / "page"
# A cell that a spreadsheet could take for a number, a date or a truth value and write back in another form, such as an
# id of digits, 1.0, 3/4 or Jan 5. It matches more, as an apostrophe too many does no harm: it goes when cells are read.
# page.js has the same.
VALUE = (
    r"'*(?:[^A-Za-z0-9]{0,5}[0-9](?:[^\n]{0,40}|[0-9.,]*)"
    r"|(?:jan|ene|gen|feb|f\u00e9v|mar|m\u00e4r|apr|abr|avr|ma[giy]|mei|ju[iln]|giu|lug|ago|aug|ao\u00fb|sep|set|o[ck]t|ott|out"
    r"|nov|de[cz]|dic|d\u00e9c|mon|tue|wed|thu|fri|sat|sun)[^0-9\n]{0,9}[0-9][^\n]{0,20}"
    r"|true|false|wahr|falsch|vrai|faux|verdadero|falso|vero|verdadeiro|waar|onwaar)[ \t\r\n]*"
)
_VALUE = re.compile(VALUE, re.IGNORECASE)


LANGUAGES = ("en", *sorted(path.stem for path in (PAGE / "words").glob("*.yaml") if path.stem != "en"))
PageWords = Mapping[str, Any]  # notice, task, meanings of the labels, rules, keys and headings


@functools.cache
def words_in(language: str) -> PageWords:
    """Return the instructions in one of `LANGUAGES`."""
    words: PageWords = read_yaml(PAGE / "words" / f"{language}.yaml")
    return words


def page(audit: str, rater: str, rows: Sequence[Mapping[str, Any]], language: str = "en") -> str:
    """Return the page of one rater with these rows of the sample, in their order, and instructions in a language.

    The page shows the texts as text, never as markup (`program.offline_page`).
    """
    shown = [{"id": row["id"], "messages": _spoken(row["messages"]), "answer": visible(row["answer"])} for row in rows]
    words = words_in(language)
    data = {"audit": audit, "rater": rater, "words": words, "rows": shown}
    style, script = (PAGE.joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    return offline_page(PAGE / "page.html", style, script, data, "Labelling answers", {"words": words})


def read_first(audit: str, rater: str, rows: int, language: str = "en") -> str:
    """Return the text file that goes with a rater's sheet, in a language."""
    values = {"audit": audit, "rater": rater, "rows": rows, "words": words_in(language)}
    return render_template(PAGE / "read_first.txt", values)


def shown_texts(row: Mapping[str, Any]) -> dict[str, str]:
    """Return what a sheet shows of a row of the sample: `prompt` and `answer`, nothing hidden, short enough for a cell.

    A longer text says how much is left out and where it stands.
    """
    return {"prompt": _short(conversation_text(row["messages"])), "answer": _short(visible(row["answer"]))}


def _short(text: str) -> str:
    units = text.encode("utf-16-le")  # two bytes each
    if len(units) <= 2 * LONGEST_CELL:
        return text
    shown = units[: 2 * LONGEST_CELL].decode("utf-16-le", "ignore")  # without half of a character
    return f"{shown}\n[{len(text) - len(shown)} more characters: label this row on the page]"


def conversation_text(messages: Sequence[Mapping[str, str]]) -> str:
    """Return messages as one visible text: the words alone where the user asked one thing, else with who speaks."""
    if len(messages) == 1 and messages[0]["role"] == "user":
        return visible(messages[0]["content"])
    return "\n\n".join(f"[{who}]\n{text}" for who, text in _spoken(messages))


def _spoken(messages: Sequence[Mapping[str, str]]) -> list[tuple[str, str]]:
    return [(ROLES.get(one["role"], one["role"]), visible(one["content"])) for one in messages]


def same_text(shown: str, given: str) -> bool:
    """Tell whether a cell that came back holds what was shown, but for what spreadsheets do to it.

    They change line ends and margins, and some drop an apostrophe at the beginning.
    """
    return " ".join(shown.split()).lstrip("'") == " ".join(given.split()).lstrip("'")


def sheet_cell(text: str) -> str:
    """Return a cell that a spreadsheet leaves unchanged: an apostrophe in front of what it would convert."""
    return "'" + text if _VALUE.fullmatch(text) else escaped_cell(text)


def plain_sheet_cell(cell: str) -> str:
    """Undo `sheet_cell`."""
    return cell[1:] if cell.startswith("'") and _VALUE.fullmatch(cell[1:]) else plain_cell(cell)


def sheet(audit: str, rater: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the CSV of one rater, with empty labels."""
    common = {"audit": audit, "rater": rater}
    return _csv(COLUMNS, (common | {"row": n, "id": row["id"]} | shown_texts(row) for n, row in enumerate(rows, 1)))


def disputed_sheet(audit: str, rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the CSV of rows that need a decision, from `label_merging.disputed`."""
    return _csv(DISPUTED_COLUMNS, ({"audit": audit, **row, **shown_texts(row)} for row in rows))


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
                yield line, {name: plain_sheet_cell(cell) for name, cell in zip(header, cells, strict=True)}
            line = reader.line_num + 1
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: is not valid CSV: {error}") from error


def _csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    lines = (csv_line(_cell(row.get(column, "")) for column in columns) for row in rows)
    return "\ufeff" + csv_line(columns) + "".join(lines)  # without the mark Excel reads UTF-8 as something else


def _cell(value: object) -> str:
    return sheet_cell(value) if isinstance(value, str) else str(value)
