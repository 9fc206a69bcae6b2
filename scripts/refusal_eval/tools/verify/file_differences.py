"""Where two files differ, in words that help to find out why."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

_MOST = 2  # differences of one file that are told
_WIDTH = 60  # characters of a value that are shown
_TEXTS = (".csv", ".md", ".tex", ".jsonl")


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
    if stored.suffix == ".parquet":
        before_table, after_table = _table(stored), _table(made)
        if before_table is not None and before_table == after_table:
            return []  # another version of pyarrow writes other bytes
        found = list(_values("", before_table, after_table)) if before_table else ["stored file is not Parquet"]
    elif stored.suffix == ".json":
        found = list(_values("", json.loads(before), json.loads(after)))
    elif stored.suffix in _TEXTS:
        found = list(_lines(before.decode("utf-8", "replace"), after.decode("utf-8", "replace")))
    else:
        found = ["other bytes"]
    told = found[:_MOST] + ([f"and {len(found) - _MOST} more"] if len(found) > _MOST else [])
    return [Difference(name, problem) for problem in told or ["other bytes, the same values"]]


def _table(path: Path) -> dict[str, Any] | None:
    """Return the metadata and rows of a Parquet file; None where it is none."""
    import pyarrow.parquet as pq
    from pyarrow.lib import ArrowInvalid

    try:
        table = pq.read_table(path)
    except (ArrowInvalid, OSError):
        return None
    metadata = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    return {"metadata": metadata, "rows": table.to_pylist()}


def _values(place: str, stored: Any, made: Any) -> Iterator[str]:
    if isinstance(stored, dict) and isinstance(made, dict):
        for key in sorted(stored.keys() | made.keys()):
            if key not in made or key not in stored:
                yield f"{place}{key} is only in the {'stored' if key in stored else 'recomputed'} file"
            else:
                yield from _values(f"{place}{key}.", stored[key], made[key])
    elif isinstance(stored, list) and isinstance(made, list) and len(stored) == len(made):
        for number, pair in enumerate(zip(stored, made, strict=True)):
            yield from _values(f"{place}{number}.", *pair)
    elif stored != made:
        yield f"{place.rstrip('.')}: stored {_short(stored)}, recomputed {_short(made)}"


def _lines(stored: str, made: str) -> Iterator[str]:
    for number, (a, b) in enumerate(zip_longest(stored.splitlines(), made.splitlines()), 1):
        if a is None or b is None:
            yield f"line {number} is only in the {'recomputed' if a is None else 'stored'} file"
        elif a != b:
            # Shown from a little before the first character that differs.
            begin = max(0, next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), 0) - 20)
            yield f"line {number}: stored {_short(a[begin:])}, recomputed {_short(b[begin:])}"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}..."
