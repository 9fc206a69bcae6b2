"""A table as aligned text, for a terminal."""

from collections.abc import Sequence

from refusal_eval.report.paper.display import columns, wrap_text
from refusal_eval.report.paper.markup import Table

WIDTH = 120
GAP = "  "


def plain_text(table: Table) -> str:
    """Return a table in aligned columns, its caption above and its notes below."""
    heads = [text.split("\n") for text in table.header]
    height = max(map(len, heads))
    rows = [[(head[i] if i < len(head) else "") for head in heads] for i in range(height)] + [*map(list, table.rows)]
    widths = [max(columns(row[i]) for row in rows) for i in range(len(table.header))]
    lines = [_line(row, widths, table.align) for row in rows]
    notes = [line for note in table.notes for line in wrap_text(note, WIDTH)]
    return "\n".join([table.caption, "", *lines, *([""] * bool(notes)), *notes]) + "\n"


def _line(row: Sequence[str], widths: Sequence[int], align: str) -> str:
    cells = []
    for cell, width, letter in zip(row, widths, align, strict=True):
        blank = " " * (width - columns(cell))
        cells.append(blank + cell if letter == "r" else cell + blank)
    return GAP.join(cells).rstrip()
