"""Marks that nearly every cell of a figure carries: they tell cells apart no longer, and are said once instead."""

from collections import Counter
from collections.abc import Collection, Iterable

from refusal_eval.report.paper.display import mark_of

MOST = 4 / 5  # of the cells; a mark that more of them carry is said once
_FEWEST_CELLS = 3  # of which most can be spoken of


def shared_flags(cells: Iterable[Collection[str]]) -> set[str]:
    """Return the flags with a mark that more than four fifths of the cells carry."""
    found = [set(flags) for flags in cells]
    counts = Counter(flag for flags in found for flag in flags if mark_of([flag]))
    return {flag for flag, n in counts.items() if len(found) >= _FEWEST_CELLS and n > MOST * len(found)}
