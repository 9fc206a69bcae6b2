"""Lines of a page of text, and things grouped for one."""

import textwrap
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

import pandas as pd

WIDTH = 120
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def fill_lines(texts: Iterable[str], indent: str = "  ", further: str | None = None) -> list[str]:
    """Return texts in lines that are not too long, where their words allow that.

    Args:
        indent: what each begins with.
        further: what its second and further lines begin with; the same and two spaces more, if not given.
    """
    further = indent + "  " if further is None else further
    wrapper = textwrap.TextWrapper(WIDTH, indent, further, break_on_hyphens=False, break_long_words=False)
    return [line for text in texts for line in wrapper.wrap(text)]


def table(title: str, frame: pd.DataFrame, indent: str = "  ") -> list[str]:
    """Return a table with its title in the head: names, which are its index, are indented below that."""
    if frame.empty:
        return [title]
    text = frame.rename_axis(index=None, columns=title).to_string(
        na_rep="-", float_format="{:,.0f}".format, col_space=[len(str(column)) + 1 for column in frame]
    )
    head, *rows = text.splitlines()
    return [line.rstrip() for line in (title + indent + head[len(title) :], *(indent + row for row in rows))]


def many(count: int, noun: str) -> str:
    """Return a number with its noun: `1 GPU`, `2 GPUs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def group_by(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return items by a key, in the order in which they come."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
