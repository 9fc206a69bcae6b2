"""Rows of answers and verdicts without any text, for what anybody may read: states, labels, numbers, and names.

A provider, another tool or a judge may write any text where a name is meant, so only what has the form of a name stays.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

NAME = re.compile(r"[\w.:/-]{1,40}", re.ASCII)
TEXTS = ("answer", "reasoning", "reason")  # of an answer; `raw` of a verdict
OF_BLOCK = ("by", "stage", "category", "severity", "code")  # without what the model had written


def answer_without_texts(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer's row with its texts empty, and without words of others that are no names."""
    found = dict(row) | {name: None for name in TEXTS if name in row} | {"answer": ""}
    for name in ("finish_reason", "stop_reason"):
        if name in found:
            found[name] = _name(found[name])
    if row.get("marks"):
        found["marks"] = [mark for mark in row["marks"] if _name(mark)]
    if row.get("blocked"):
        found["blocked"] = {name: _name(row["blocked"].get(name)) for name in OF_BLOCK}
    return found


def verdict_without_texts(row: Mapping[str, Any], kinds: Collection[str]) -> dict[str, Any]:
    """Return a verdict's row without what the judge wrote.

    Args:
        kinds: those that the judge's entry names.
    """
    kind = row.get("kind")
    flags = [flag for flag in row.get("flags") or () if _name(flag)]
    return dict(row) | {"kind": kind if kind in kinds else _name(kind), "flags": flags, "raw": {}}


def _name(value: Any) -> str | None:
    return value if isinstance(value, str) and NAME.fullmatch(value) else None
