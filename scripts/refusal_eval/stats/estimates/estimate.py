"""An estimate: one number of a study with its interval and all that is needed to cite it."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

SMALLEST_P = 5e-324


@dataclasses.dataclass(frozen=True)
class Estimate:
    """One number of a study, a row of its results table."""

    estimand: str  # what is estimated, e.g. `refusal_rate`; the data dictionary explains each
    value: float | None  # the number; None where the data cannot give it
    low: float | None = None  # lower end of its interval, None without one
    high: float | None = None  # upper end
    level: float | None = None  # level of the interval, e.g. 0.95
    method: str | None = None  # how the interval was made, in words fit for a table note
    judge: str | None = None  # the judge behind it
    model: str | None = None
    split: str | None = None  # the split; None for what is pooled over several
    pool: str | None = None  # what is pooled: an expectation (`comply`, `refuse`, `varies`); None for one split
    category: str | None = None  # the category of the split; None for all
    reading: str | None = None  # strict or broad; None where it does not matter
    samples: int | None = None  # K
    n_prompts: int | None = None  # prompts that enter, of several turns each scored one
    n_clusters: int | None = None  # clusters that enter
    parameter: float | str | None = None  # what the estimand depends on further, e.g. tau or the number of the turn
    flags: tuple[str, ...] = ()  # marks to show with it (see `scores.cell_flags`)

    def __post_init__(self) -> None:
        for name in ("value", "low", "high"):
            number = getattr(self, name)
            if number is not None and not math.isfinite(number):
                raise ValueError(f"{self.estimand}: {name} is {number}; a number that cannot be given is None")
        if (self.low is None) != (self.high is None):
            raise ValueError(f"{self.estimand}: an interval has two ends")

    def row(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {"flags": list(self.flags)}


class NumberInterval(NamedTuple):
    """A number, the ends of its interval and how that was made, None where there is none."""

    value: float
    low: float | None = None
    high: float | None = None
    method: str | None = None


def p_value(p: float) -> float:
    # No p value is 0; the smallest float stands for those that underflow.
    return min(1.0, max(p, SMALLEST_P))


def estimate_from(estimand: str, number: NumberInterval | None, level: float, **about: Any) -> Estimate:
    """Return the estimate that a number is, None for one that the data cannot give; only an interval has a level."""
    if number is None or number.low is None:
        return Estimate(estimand, number and number.value, **about)
    return Estimate(estimand, **number._asdict(), level=level, **about)


def estimate_of(row: dict[str, Any]) -> Estimate:
    """Undo `Estimate.row`."""
    return Estimate(**{**row, "flags": tuple(row["flags"])})


def mean(values: Sequence[float]) -> float | None:
    """Return the mean, None of nothing; the sum is exact, so the order of the values does not matter."""
    return math.fsum(values) / len(values) if values else None
