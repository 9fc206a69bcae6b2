"""Lines and tables of a page of text."""

import textwrap
from collections.abc import Iterable, Sequence

WIDTH = 118


def filled(texts: Iterable[str], indent: str = "  ") -> list[str]:
    """Return texts in lines that are not too long, the second and further ones of each indented once more."""
    wrapper = textwrap.TextWrapper(WIDTH, indent, indent + "  ", break_on_hyphens=False, break_long_words=False)
    return [line for text in texts for line in wrapper.wrap(text)]


def table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return a table: names, which are indented below their head, take at least `width` columns, and stand left."""
    every = [head, *([f"  {row[0]}", *row[1:]] for row in rows)]
    first, *widths = (max(map(len, column)) for column in zip(*every, strict=True))
    width = max(width, first + 1)
    return [
        f"{row[0]:<{width}}" + "  ".join(f"{cell:>{size}}" for cell, size in zip(row[1:], widths, strict=True))
        for row in every
    ]


def many(count: int, noun: str) -> str:
    """Return a number with its noun: `1 GPU`, `2 GPUs`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
