"""Whole JSONL files read at once, for the scripts whose time goes into reading them."""

from __future__ import annotations

import itertools
import json
import math
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from refusal_eval.core.files import BadFile, read_jsonl

_AT_ONCE = 1000  # lines; bounds the text that is held beside the rows


def read_rows(path: str | Path) -> list[Any]:
    """Return the values of a JSONL file, those of `files.read_jsonl` but many lines at once, which is faster.

    Raises:
        BadFile: for a line that is not JSON, with its number.
    """
    rows: list[Any] = []
    try:
        with open(path, encoding="utf-8", newline="\n") as handle:
            while lines := list(itertools.islice(handle, _AT_ONCE)):
                rows += _values(lines)
    except (ValueError, RecursionError):
        return list(read_jsonl(path))  # it skips blank lines, and tells which line is wrong
    return rows


def _values(lines: list[str]) -> list[Any]:
    """Return the value of each line.

    Raises:
        ValueError: if some line is not one value.
        RecursionError: if one is nested too deeply.
    """
    # A word that no line holds stands between two lines: they cannot be parts of one value, nor a line hold two.
    word = uuid.uuid4().hex
    values: list[Any] = json.loads("[" + f',"{word}",'.join(lines) + "]")
    if len(values) != 2 * len(lines) - 1 or values[1::2] != [word] * (len(lines) - 1):
        raise ValueError("a line is not one value")
    return values[::2]


def refuse_bad_rows(path: str | Path, rows: Iterable[Any], fields: Mapping[str, tuple[type, ...]]) -> None:
    """Raise `BadFile` for the first row that lacks one of these fields, or has one of another type, or no number.

    A field whose types hold that of `...` may be missing.
    """
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise BadFile(f"{path}, row {number}: is no object; delete the file and run again")
        for name, types in fields.items():
            value = row.get(name, ...)
            right = type(value) in types and (not isinstance(value, int | float) or abs(value) < math.inf)
            right = right and (type(value) is not int or abs(value) < 2**63)
            if not right:
                what = "is missing" if value is ... else f"is {value!r:.40}"
                raise BadFile(f"{path}, row {number}: `{name}` {what}; delete the file and run again")
