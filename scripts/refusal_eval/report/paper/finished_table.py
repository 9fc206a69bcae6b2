"""What a table of a paper leaves out: columns that say nothing, and marks that nearly all of its cells have.

The CSV keeps both.
"""

import dataclasses
import re
from collections.abc import Sequence

from refusal_eval.report.paper.display import ALL_MARKS, MARKS, NO_DATA
from refusal_eval.report.paper.markup import Table, keep_columns

MOST_MARKED = 4 / 5  # of the cells; a mark that more of them carry is said once
_NAMED = 3  # exceptions that the note names
_NOTHING = re.compile(r"0(\.0+)?")
_MARKS_AT_END = re.compile(f"[{ALL_MARKS}]*$")


def finished(table: Table) -> Table:
    """Return a table as it is printed."""
    return without_common_marks(without_empty_columns(table))


def without_empty_columns(table: Table) -> Table:
    """Return a table without the columns that have nothing but zeros or dashes; a note names them.

    A table that has no others stays as it is.
    """
    empty = {i: cells for i in range(table.keys, len(table.header)) if (cells := _said_alike(table, i))}
    if not empty or len(empty) == len(table.header) - table.keys:
        return table
    texts = {"0": "0 in every row", NO_DATA: "no value in any row", "": "0 or no value in every row"}
    said = []
    for what, words in texts.items():
        names = [" ".join(table.header[i].split()) for i, cells in empty.items() if cells.get("what") == what]
        said += [f"{'; '.join(names)} ({words})"] * bool(names)
    found = keep_columns(table, [i for i in range(len(table.header)) if i not in empty])
    return dataclasses.replace(found, notes=[*table.notes, f"Columns not shown: {', '.join(said)}."])


def without_common_marks(table: Table) -> Table:
    """Return a table whose cells lack the marks that more than four fifths of them have; the notes say so."""
    rows, notes = [list(row) for row in table.rows], list(table.notes)
    columns = range(table.keys, len(table.header)) if table.marked is None else sorted(table.marked)
    cells = [(i, j) for i, row in enumerate(rows) for j in columns if row[j] not in ("", NO_DATA)]
    for symbol, _ in MARKS.values():
        place = next((i for i, note in enumerate(notes) if note.startswith(f"{symbol} ")), None)
        having = [(i, j) for i, j in cells if symbol in _marks(table.rows[i][j])]
        if place is None or len(having) < 2 or len(having) <= MOST_MARKED * len(cells):
            continue
        for i, j in having:
            marks = _marks(rows[i][j])
            rows[i][j] = rows[i][j].removesuffix(marks) + marks.replace(symbol, "")
        where = _where(table, [cell for cell in cells if cell not in having], len(cells))
        notes[place] = f"{symbol} ({where}, and so not printed) {notes[place].removeprefix(symbol).strip()}"
    return dataclasses.replace(table, rows=rows, notes=notes)


def _said_alike(table: Table, i: int) -> dict[str, str]:
    """Return what all cells of a column say, if that is nothing: 0, a dash, or both (empty)."""
    texts = {"0" if _NOTHING.fullmatch(row[i]) else row[i] for row in table.rows}
    if not texts or not texts <= {"0", NO_DATA}:
        return {}
    return {"what": texts.pop() if len(texts) == 1 else ""}


def _marks(cell: str) -> str:
    found = _MARKS_AT_END.search(cell)
    return found[0] if found else ""


def _where(table: Table, without: Sequence[tuple[int, int]], count: int) -> str:
    """Return which cells carry a mark, given those of `count` that do not."""
    if not without:
        return "in every cell"
    if len(without) > _NAMED:
        return f"in {count - len(without)} of {count} cells"
    columns = {j for _, j in without} if table.marked is None or len(table.marked) > 1 else set()
    names = [
        ", ".join([*table.rows[i][: table.keys], *([" ".join(table.header[j].split())] if columns else [])])
        for i, j in without
    ]
    return f"in every cell but {'; '.join(names)}"
