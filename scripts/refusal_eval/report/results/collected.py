"""All estimates of a study in one list: each number once, in an order that does not depend on the files' order."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from refusal_eval.core.errors import UserError
from refusal_eval.stats.comparisons.corrections import ESTIMANDS
from refusal_eval.stats.estimates.estimate import Estimate, estimate_of
from refusal_eval.report.results.dictionary import KEY

# Digits that count: far more than any sample supports, and few enough that no machine disagrees about the last one.
DIGITS = 10


class Result(NamedTuple):
    """An estimate, and the file of the study's folder that it was taken from."""

    estimate: Estimate
    source: str


def estimates_in(content: Mapping[str, Any]) -> list[Estimate]:
    """Return the estimates of a file of estimates/, `{"estimates": [row, ...]}`."""
    return [estimate_of(row) for row in content["estimates"]]


def collected(results: Iterable[Result]) -> list[Result]:
    """Return the results sorted by what they estimate, each once.

    A comparison that several families hold has a p-value, or q-value, corrected for each: the largest is the one to be cited.

    Raises:
        UserError: if two files give a value for one number.
    """
    found: dict[tuple[str, ...], Result] = {}
    for result in results:
        key = key_of(result.estimate)
        other = found.get(key)
        if other is not None and result.estimate.estimand not in ESTIMANDS.values():
            names = ", ".join(f"{name} {part}" for name, part in zip(KEY, key, strict=True) if part)
            values = f"{other.estimate.value} in {other.source} and {result.estimate.value} in {result.source}"
            raise UserError(f"two values of one number ({names}): {values}")
        if other is None or (result.estimate.value or 0.0) > (other.estimate.value or 0.0):
            found[key] = result
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
