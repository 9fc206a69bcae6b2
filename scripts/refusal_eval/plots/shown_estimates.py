"""Estimates of a study (`estimate.Estimate`) as figures look them up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


def chosen_rows(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """Return the rows whose columns have these values; of a tuple, list or set, one of these values."""
    tests = {key: value if isinstance(value, tuple | list | set) else (value,) for key, value in wanted.items()}
    return [row for row in rows if all(row[key] in values for key, values in tests.items())]


def tau_of(parameter: Any) -> float:
    """The temperature that a row's parameter names; equal weights are infinite."""
    return math.inf if parameter in ("inf", "infinity") else float(parameter)


def tau_text(tau: float) -> str:
    """A temperature as an axis shows it."""
    return "\u221e" if math.isinf(tau) else f"{tau:g}"


def percent_scale(highest: float) -> list[float]:
    """Ticks in percent from 0 to the first of 20, 40, 60, 80 and 100 that a share does not exceed."""
    end = next((end for end in (20, 40, 60, 80, 100) if 100 * highest <= end), 100)
    return [0, end / 2, end]


def highest(rows: Sequence[Row], intervals: bool = True) -> float:
    """The highest value, or end of an interval; 0 without any."""
    names = ("value", "high") if intervals else ("value",)
    return max((row[name] for row in rows for name in names if row[name] is not None), default=0.0)
