"""Lines and tables of a page of text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

WIDTH = 118


def filled(texts: Iterable[str], indent: str = "  ") -> list[str]:
    """Return texts in lines that are not too long, the second and further ones of each indented once more."""
    lines: list[str] = []
    for text in texts:
        lines += textwrap.wrap(
            text,
            WIDTH,
            initial_indent=indent,
            subsequent_indent=indent + "  ",
            break_on_hyphens=False,
            break_long_words=False,
        )
    return lines


def table(names: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return a table: the first line is its head, the others are indented."""
    columns = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    width = max(width, *(len(name) + 3 for name in names))
    return [
        f"{name if number == 0 else '  ' + name:<{width}}"
        + "  ".join(f"{cell:>{columns[column]}}" for column, cell in enumerate(row))
        for number, (name, row) in enumerate(zip(names, rows, strict=True))
    ]
