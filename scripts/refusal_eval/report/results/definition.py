"""The definition of an estimand."""

from __future__ import annotations

from dataclasses import dataclass

SHARE = "share, 0 to 1"
COHEN = "Cohen 1960, Educational and Psychological Measurement 20:37"


@dataclass(frozen=True)
class Definition:
    """What an estimand is. A name may hold `@K`, for which the table has the number of samples.

    Attributes:
        name: the estimand.
        unit: of its values.
        meaning: what it tells.
        formula: how it is computed, in words.
        source: who defined it.
    """

    name: str
    unit: str
    meaning: str
    formula: str
    source: str = "refusal-eval"
