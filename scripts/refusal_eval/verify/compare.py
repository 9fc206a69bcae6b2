"""Where two files differ, in words that help to find out why."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

_MOST = 5  # differences of one file that are told
_WIDTH = 100


@dataclass(frozen=True)
class Difference:
    """One file that is not what it should be: its path within the study, and what is wrong."""

    path: str
    problem: str


def differences(stored: Path, made: Path, name: str) -> list[Difference]:
    """Return how a stored file differs from one that was made anew; none where their bytes agree."""
    if not made.is_file():
        return []
    if not stored.is_file():
        return [Difference(name, "is missing")]
    before, after = stored.read_bytes(), made.read_bytes()
    if before == after:
        return []
    if stored.suffix == ".json":
        found = list(_values("", json.loads(before), json.loads(after)))
    elif stored.suffix == ".parquet":
        found = ["other bytes than the same table makes now"]
    else:
        found = list(_lines(before.decode("utf-8", "replace"), after.decode("utf-8", "replace")))
    told = found[:_MOST] + ([f"and {len(found) - _MOST} more"] if len(found) > _MOST else [])
    return [Difference(name, problem) for problem in told or ["other bytes, the same values"]]


def _values(place: str, stored: Any, made: Any) -> Iterator[str]:
    if isinstance(stored, dict) and isinstance(made, dict):
        for key in sorted(stored.keys() | made.keys()):
            if key not in made or key not in stored:
                yield f"{place}{key} is only in the {'stored' if key in stored else 'recomputed'} file"
            else:
                yield from _values(f"{place}{key}.", stored[key], made[key])
    elif stored != made:
        yield f"{place.rstrip('.')}: stored {_short(stored)}, recomputed {_short(made)}"


def _lines(stored: str, made: str) -> Iterator[str]:
    pairs: Iterator[Sequence[str | None]] = zip_longest(stored.splitlines(), made.splitlines())
    for number, (a, b) in enumerate(pairs, 1):
        if a != b:
            yield f"line {number}: stored {_short(a)}, recomputed {_short(b)}"


def _short(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}..."
