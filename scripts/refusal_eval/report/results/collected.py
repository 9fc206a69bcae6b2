"""All estimates of a study in one list: each number once, in an order that does not depend on the files' order."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from refusal_eval.core.errors import UserError
from refusal_eval.stats.comparisons.study_comparisons import P_HOLM
from refusal_eval.stats.estimates.estimate import Estimate, estimate_of
from refusal_eval.report.results.dictionary import KEY

# Digits that count: far more than any sample supports, and few enough that no machine disagrees about the last one.
DIGITS = 10
_SAME = 1e-9


class Result(NamedTuple):
    """An estimate, and the file of the study's folder that it was taken from."""

    estimate: Estimate
    source: str


def estimates_in(content: Mapping[str, Any]) -> list[Estimate]:
    """Return the estimates of a file of estimates/, `{"estimates": [row, ...]}`."""
    return [estimate_of(row) for row in content["estimates"]]


def collected(results: Iterable[Result]) -> list[Result]:
    """Return the results sorted by what they estimate, each once; of equal ones the one that has an interval, and
    of two such the one that knows its clusters.

    Raises:
        UserError: if two files give different values for one number.
    """
    found: dict[tuple[str, ...], Result] = {}
    for result in results:
        key = key_of(result.estimate)
        other = found.get(key)
        found[key] = result if other is None else _one_of(other, result)
    return [found[key] for key in sorted(found)]


def key_of(estimate: Estimate) -> tuple[str, ...]:
    """Return what tells an estimate from all others, as texts; empty for what does not matter."""
    return tuple(text_of(getattr(estimate, name)) for name in KEY)


def text_of(value: Any) -> str:
    """Return a name, a count or a parameter as the table writes it; empty for None."""
    if value is None:
        return ""
    return f"{value:.{DIGITS}g}" if isinstance(value, float) else str(value)


def rounded(value: float | None) -> float | None:
    """Return a number with the digits that the table keeps; None for None, and no negative zero."""
    return None if value is None else float(f"{value:.{DIGITS}g}") + 0.0


def _one_of(first: Result, second: Result) -> Result:
    """The one of two results of one number that says more, with the marks of both."""
    a, b = first.estimate, second.estimate
    # Adjusted for a family: a comparison in several families has several, and the largest is the one to be cited.
    if a.estimand == P_HOLM and None not in (a.value, b.value):
        return max(first, second, key=lambda result: result.estimate.value or 0.0)
    if not _equal(a.value, b.value):
        names = ", ".join(f"{name} {part}" for name, part in zip(KEY, key_of(a), strict=True) if part)
        raise UserError(
            f"two values of one number ({names}): {a.value} in {first.source} and {b.value} in {second.source}"
        )
    better = second if _told(b) > _told(a) else first
    flags = tuple(dict.fromkeys((*a.flags, *b.flags)))
    return better._replace(estimate=dataclasses.replace(better.estimate, flags=flags))


def _told(estimate: Estimate) -> tuple[bool, bool]:
    """How much an estimate says of itself: its interval first, then its clusters, which files of scores do not know."""
    return estimate.low is not None, estimate.n_clusters is not None


def _equal(a: float | None, b: float | None) -> bool:
    return a == b or (a is not None and b is not None and math.isclose(a, b, rel_tol=_SAME, abs_tol=_SAME))
