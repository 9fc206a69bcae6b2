"""The first differences between two files, in words that help to find the cause."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_MOST = 2  # differences of one file that are reported
_WIDTH = 60  # characters of a value that are shown
_BEFORE = 20  # how many of them come before the first that differs
_TEXTS = (".csv", ".md", ".tex", ".html", ".jsonl")


def differences(stored: Path, made: Path) -> list[str]:
    """Return how a stored file differs from one that was made again; nothing where their bytes agree."""
    if not made.is_file() or (stored.is_file() and stored.read_bytes() == made.read_bytes()):
        return []
    if not stored.is_file():
        return ["is missing"]
    if stored.suffix not in (".parquet", ".json", *_TEXTS):
        return ["other bytes"]
    try:
        before = dict(_values(stored))
    except (OSError, ValueError):
        return [f"stored file is not {'Parquet' if stored.suffix == '.parquet' else 'JSON'}"]
    after, found = dict(_values(made)), []
    for place in {**before, **after}:
        if place not in after or place not in before:
            found.append(f"{place} is only in the {'stored' if place in before else 'recomputed'} file")
        elif before[place] != after[place]:
            found.append(f"{place}: {_excerpts(str(before[place]), str(after[place]))}")
    if not found:  # another version of pyarrow writes other bytes
        return [] if stored.suffix == ".parquet" else ["other bytes, the same values"]
    return found[:_MOST] + ([f"and {len(found) - _MOST} more"] if len(found) > _MOST else [])


def _values(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield every value of a file, or every line of a text, with its place."""
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        table = pq.read_table(path)
        metadata = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
        yield from _flat({"metadata": metadata, "rows": table.to_pylist()}, "")
    elif path.suffix == ".json":
        yield from _flat(json.loads(path.read_bytes()), "")
    else:
        for number, line in enumerate(path.read_bytes().decode("utf-8", "replace").splitlines(), 1):
            yield f"line {number}", line


def _flat(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    inner = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    for key, one in inner:
        yield from _flat(one, f"{place}.{key}")
    if not inner:
        yield place.removeprefix("."), value


def _excerpts(stored: str, made: str) -> str:
    """Return two texts from a little before the first character that differs."""
    same = next((i for i, (x, y) in enumerate(zip(stored, made, strict=False)) if x != y), 0)
    begin = max(0, same - _BEFORE)
    first, second = (
        text[begin : begin + _WIDTH] + ("..." if len(text) > begin + _WIDTH else "") for text in (stored, made)
    )
    return f"stored {first}, recomputed {second}"
