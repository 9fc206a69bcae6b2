"""The flags of numbers: what a reader must know before believing them."""

from collections.abc import Iterable

# A cell is flagged above these shares of its samples, and below this number of clusters.
MAX_UNJUDGED = 0.05
MAX_TRUNCATED = 0.20
SHORT_ANSWERS = 256  # tokens; a longer answer that is cut has long shown whether it refuses
MIN_CLUSTERS = 30
UNJUDGED, CUT, FEW_CLUSTERS, MIXED_SERVING = "unjudged", "truncated", "few_clusters", "mixed_serving"
CELL_FLAGS = (UNJUDGED, CUT, FEW_CLUSTERS, MIXED_SERVING)
DOUBTFUL = frozenset((UNJUDGED, CUT))  # the rate itself may be another, not only its interval


def cell_flags(n_answers: int, n_unjudged: int, n_truncated: int, max_tokens: int | None, n_clusters: int) -> list[str]:
    """Flags of a cell, in this order: `unjudged`, `truncated`, `few_clusters`; None for `max_tokens` is no limit."""
    flags = []
    if n_unjudged > MAX_UNJUDGED * n_answers:
        flags.append(UNJUDGED)
    if n_truncated > MAX_TRUNCATED * n_answers and max_tokens is not None and max_tokens < SHORT_ANSWERS:
        flags.append(CUT)
    return [*flags, *few_flags(n_clusters)]


def few_flags(n_clusters: int) -> tuple[str, ...]:
    """Flags of a number that rests on so many clusters: `few_clusters`, or none."""
    return (FEW_CLUSTERS,) if n_clusters < MIN_CLUSTERS else ()


def derived_flags(cells: Iterable[Iterable[str]], own: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the flags of a number that is made of cells: all that one of them has, and its own.

    `few_clusters` of a cell is not handed on: it depends on the clusters that the number itself rests on, and so is
    one of its `own`.
    """
    found = {flag for flags in cells for flag in flags} - {FEW_CLUSTERS}
    return tuple(dict.fromkeys((*(flag for flag in CELL_FLAGS if flag in found), *own)))
