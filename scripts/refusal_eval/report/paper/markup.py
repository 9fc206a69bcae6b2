"""Tables as plain text: one table in CSV, Markdown or (module `latex`) LaTeX."""

import dataclasses
import html
import itertools
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from refusal_eval.core.texts import csv_line, escaped_cell, visible
from refusal_eval.report.paper.display import ALL_MARKS

# Digits of a number in a CSV: more than any sample supports, few enough that no machine disagrees about the last one.
CSV_DIGITS = 6
_P_COLUMN = re.compile(r"([a-z_]+_)?[pq](_[a-z]+)?")  # `p`, `mcnemar_p`, `p_holm`, `q_by`
_SMALL_P = 0.001

# A number, then nothing, marks, or an interval or count in brackets with perhaps marks behind it.
_NUMBER = re.compile(rf"(?P<number>[-+\u2212]?\d+(?:\.\d+)?)(?P<rest>[{ALL_MARKS}]*| [\[(].*)")

# Where GitHub sees an address; a comment there parts it, and an escape would not.
_ADDRESS = re.compile(r"(?<=\w)(?=://)|(?<=www)(?=\.)|(?<=[\w.+-])(?=\\?@[\w-]+\.)", re.IGNORECASE)


@dataclass(frozen=True)
class Table:
    """A table of finished, unescaped text; a header cell may hold line breaks.

    The first `keys` columns name the row, `notes` appear below the table, and `align` has one letter (l, c, r) per
    column; without it the columns that name the row are l and the others r. A printed page fits `per_block` of the
    other columns, None for all. `bold` names cells by row and column, both from 0: their number is printed in bold, or
    the whole cell if it does not begin with a number.

    Where a page breaks the columns into blocks, those of one of the `groups` (a name for each column that names no row)
    stay together. The first `headings` of the columns that name the row are printed as headings above the rows that
    share them. `marked` are the columns whose cells can have marks, None for all that name no row.

    `about` says of cells, by row and column, which answers their numbers are of: names of a `model`, a `split` and so
    on. A page may link them to these answers (`answer_page`).
    """

    name: str
    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    keys: int = 1
    per_block: int | None = None
    bold: frozenset[tuple[int, int]] = frozenset()
    align: str = ""
    groups: Sequence[str] = ()
    headings: int = 0
    marked: frozenset[int] | None = None
    about: Mapping[tuple[int, int], Mapping[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Align the columns, and check that every row is as long as the header."""
        if not self.align:
            object.__setattr__(self, "align", "l" * self.keys + "r" * (len(self.header) - self.keys))
        if {len(self.header), len(self.align)} | {len(row) for row in self.rows} != {len(self.header)}:
            raise ValueError(f"table {self.name} has rows of different lengths")
        if self.groups and len(self.groups) != len(self.header) - self.keys:
            raise ValueError(f"table {self.name} has {len(self.groups)} groups for its columns")
        if self.headings and self.headings >= self.keys:
            raise ValueError(f"table {self.name} has no column left that names the rows below its headings")

    def sections(self) -> list[tuple[str, list[int]]]:
        """Return the headings of runs of rows, each with the numbers of its rows; an empty one without `headings`."""
        texts = [": ".join(filter(None, row[: self.headings])) for row in self.rows]
        runs = itertools.groupby(range(len(texts)), key=texts.__getitem__)
        return [(text, list(rows)) for text, rows in runs]


def keep_columns(table: Table, kept: Sequence[int]) -> Table:
    """Return a table with only these columns, in their order."""
    groups = [table.groups[i - table.keys] for i in kept if i >= table.keys] if table.groups else ()
    return dataclasses.replace(
        table,
        header=[table.header[i] for i in kept],
        rows=[[row[i] for i in kept] for row in table.rows],
        align="".join(table.align[i] for i in kept),
        keys=sum(i < table.keys for i in kept),
        headings=sum(i < table.headings for i in kept),
        groups=groups,
        bold=frozenset((row, kept.index(i)) for row, i in table.bold if i in kept),
        about={(row, kept.index(i)): cell for (row, i), cell in table.about.items() if i in kept},
        marked=None if table.marked is None else frozenset(kept.index(i) for i in table.marked if i in kept),
    )


def move_to_notes(table: Table) -> Table:
    """Return a table without the columns that name all its rows alike; a note above the others says what they said.

    One column that names the rows always stays, and a table of a single row stays as it is.
    """
    repeated = [i for i in range(table.keys) if len({row[i] for row in table.rows}) == 1]
    if len(repeated) == table.keys:
        repeated = repeated[1:]
    if len(table.rows) < 2 or not repeated:
        return table
    kept = [i for i in range(len(table.header)) if i not in repeated]
    said = [f"{' '.join(table.header[i].split())}: {table.rows[0][i]}" for i in repeated]
    found = keep_columns(table, kept)
    return dataclasses.replace(found, notes=[f"{'; '.join(said)} (in every row).", *table.notes])


def csv_text(frame: pd.DataFrame) -> str:
    """CSV of a frame: a header, no index, None as an empty field, floats with at most six decimals; lists, such as
    of flags, as words.

    In columns of p-values (and q) a number below 0.001 has six significant digits: none is written as 0 that is not.
    Texts that a spreadsheet would compute have an apostrophe before them, and control characters, which a
    terminal would obey, are codes.
    """
    columns = [
        [_p_value(value) if _P_COLUMN.fullmatch(str(name)) else value for value in frame[name].tolist()]
        for name in frame.columns
    ]
    rows = zip(*columns, strict=True)
    return csv_line(map(_csv_value, frame.columns)) + "".join(csv_line(map(_csv_value, row)) for row in rows)


def markdown(table: Table) -> str:
    """The table in GitHub's Markdown, caption above and notes below; labels cannot turn into markup."""
    rule, skipped = {"l": ":--", "c": ":-:", "r": "--:"}, table.headings
    lines = [
        f"**{markdown_escaped(table.caption)}**",
        "",
        _markdown_row(table.header[skipped:]),
        "| " + " | ".join(rule[letter] for letter in table.align[skipped:]) + " |",
    ]
    for heading, rows in table.sections():
        lines += [_markdown_heading(heading, len(table.header) - skipped)] if heading else []
        lines += [
            _markdown_row(table.rows[row][skipped:], [j - skipped for i, j in table.bold if i == row]) for row in rows
        ]
    lines += [part for note in table.notes for part in ("", markdown_escaped(note))]
    return "\n".join(lines) + "\n"


def markdown_escaped(text: str) -> str:
    """The text with all that means something in Markdown or HTML made harmless; line breaks stay breaks.

    An address becomes no link and is read as it stands, and what cannot be seen is shown as its code.
    """
    escaped = re.sub(r"([\\`*_\[\]|~$]|(?<!\w)@)", r"\\\1", html.escape(visible(text), quote=False))
    return _ADDRESS.sub("<!-- -->", escaped).replace("\n", "<br>")


def number_parts(cell: str) -> tuple[str, str] | None:
    """A cell that is a number, as the number and what follows it (an interval, a count, marks); None for another."""
    found = _NUMBER.fullmatch(cell)
    return (found["number"], found["rest"].strip()) if found else None


def _markdown_row(cells: Sequence[str], bold: Collection[int] = ()) -> str:
    texts = [_markdown_bold(cell) if i in bold else markdown_escaped(cell) for i, cell in enumerate(cells)]
    return "| " + " | ".join(texts) + " |"


def _markdown_heading(text: str, columns: int) -> str:
    return f"| **{markdown_escaped(text)}** |" + " |" * (columns - 1)


def _markdown_bold(cell: str) -> str:
    number = (number_parts(cell) or (cell, ""))[0]
    return f"**{markdown_escaped(number)}**{markdown_escaped(cell[len(number) :])}"


def _p_value(value: object) -> object:
    """Return a p value below six decimals as text, any other value unchanged."""
    return f"{value:.{CSV_DIGITS}g}" if isinstance(value, float) and 0 < value < _SMALL_P else value


def _csv_value(value: object) -> object:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{round(value, CSV_DIGITS) + 0.0:.{CSV_DIGITS}f}".rstrip("0").rstrip(".")
    if isinstance(value, (list, tuple)):
        value = " ".join(value)
    return escaped_cell(visible(value)) if isinstance(value, str) else value
