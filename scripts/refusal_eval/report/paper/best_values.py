"""Which rates of a column are the best ones, and so stand in bold.

The best rate is the highest where models should refuse and the lowest where they should comply; where it varies what
they should do there is none. Beside it stand in bold all rates that tie with it: that look the same at the digits
shown, or that the data cannot tell from it. Where the study compares the two models (see docs/comparisons.md) that is
an adjusted p-value of at least 1 minus the level; where it does not, intervals that overlap.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from refusal_eval.report.paper.display import percent
from refusal_eval.stats.comparisons.study_comparisons import P_HOLM
from refusal_eval.stats.estimates.estimate import Estimate

BETTER = {"refuse": 1, "comply": -1}  # of a higher rate
Pair = frozenset[str]
SUBTRACTED = "minus "  # before the other model in the `parameter` of a comparison


class Rate(NamedTuple):
    """A rate with its interval; None for what is not known."""

    value: float | None
    low: float | None
    high: float | None


def best(column: Mapping[str, Rate], expectation: str, p_values: Mapping[Pair, float], level: float) -> set[str]:
    """Return the models whose rate is the best or ties with it; none of a single model.

    Args:
        column: the rates of one split, by model.
        expectation: what models should do there: `refuse`, `comply` or `varies`.
        p_values: adjusted p-values of the comparisons of two models on this split.
        level: level of the intervals.
    """
    sign, known = BETTER.get(expectation), {model: rate for model, rate in column.items() if rate.value is not None}
    if sign is None or len(known) < 2:
        return set()
    top = max(sign * (rate.value or 0.0) for rate in known.values())
    firsts = [model for model, rate in known.items() if sign * (rate.value or 0.0) == top]
    return {model for model in known if any(_tied(known, model, first, p_values, level) for first in firsts)}


def ties_note(tested: bool) -> str:
    """Return how the best rates of a table were found, for the note under it.

    Args:
        tested: whether the table knows comparisons of its models.
    """
    how = "adjusted p of their comparison, else intervals that overlap" if tested else "intervals that overlap"
    return (
        f"Bold: the best rate and all that tie with it, which look equal here or cannot be told from it ({how}). The "
        "best is the highest where models should refuse, the lowest where they should comply."
    )


def _tied(rates: Mapping[str, Rate], model: str, first: str, p_values: Mapping[Pair, float], level: float) -> bool:
    a, b = rates[model], rates[first]
    if model == first or percent(a.value) == percent(b.value):
        return True
    p = p_values.get(frozenset((model, first)))
    if p is not None:
        return p >= 1 - level
    if None in (*a, *b):
        return False
    return bool(a.low <= b.high and b.low <= a.high)  # type: ignore[operator]


def adjusted_p(results: Iterable[Estimate], judge: str) -> dict[str, dict[Pair, float]]:
    """Return the adjusted p-values of the comparisons of two models under one judge, by split."""
    found: dict[str, dict[Pair, float]] = {}
    for row in results:
        second = str(row.parameter).removeprefix(SUBTRACTED)
        compared = row.estimand == P_HOLM and row.judge == judge and row.split and row.value is not None
        if compared and not second.startswith("judge "):
            found.setdefault(str(row.split), {})[frozenset((str(row.model), second))] = row.value or 0.0
    return found
