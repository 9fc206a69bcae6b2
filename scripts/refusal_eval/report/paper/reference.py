"""Which of many comparisons a page shows: those that are named, or those with the study's reference model."""

from collections.abc import Sequence

MOST_ROWS = 40  # of a page, with headings and names that take two lines


def reference_model(pairs: Sequence[tuple[str, str]], models: Sequence[str]) -> str | None:
    """Return the model that is in every pair of several, else the first of the study that is in one."""
    named = {side for pair in pairs for side in pair}
    return common_model(pairs) or next((model for model in models if model in named), None)


def common_model(pairs: Sequence[tuple[str, str]]) -> str | None:
    """Return the model that is in every pair of several; None where there is none."""
    common = frozenset.intersection(*map(frozenset, pairs)) if len(set(pairs)) > 1 else frozenset[str]()
    return next(iter(common), None)


def pairs_shown(pairs: Sequence[tuple[str, str]], models: Sequence[str], most: int = MOST_ROWS) -> list[bool]:
    """Tell of each row whether a page shows it: all of them, or if they are too many those with the reference model.

    Args:
        pairs: of models, one for each row of a table.
        models: of the study, in its order.
        most: rows of a page.
    """
    reference = reference_model(pairs, models)
    return [len(pairs) <= most or reference in pair for pair in pairs]
