"""JSON from outside: a duplicate key is an error, where JSON itself takes the last."""

import json
import re
from typing import Any

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\]:]', re.DOTALL)
MOST_SHOWN = 60  # characters of a key


class DoubleKeyError(ValueError):
    """An object has a key twice."""

    def __init__(self, key: str, line: int) -> None:
        self.line = line
        super().__init__(f"the key {json.dumps(key)[:MOST_SHOWN]} stands twice in one object")


def parse_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        DoubleKeyError: if a key stands twice in an object.
        ValueError: if it is no JSON.
        RecursionError: if it is nested too deeply.
    """
    try:
        return json.loads(text, object_pairs_hook=_once)
    except _TwiceError as error:
        raise DoubleKeyError(str(error), _line_of_double(text)) from None


class _TwiceError(ValueError):
    pass


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _TwiceError(next(name for name in found if names.count(name) > 1))
    return found


def _line_of_double(text: str) -> int:
    """Return the line of the first duplicate key of a JSON text that has one."""
    objects: list[set[str]] = []
    last: re.Match[str] | None = None
    for token in _TOKEN.finditer(text):
        kind = token[0]
        if kind in "{[":
            objects.append(set())
        elif kind in "}]":
            objects.pop()
        elif kind == ":" and last is not None:
            name = json.loads(last[0])
            if name in objects[-1]:
                return text.count("\n", 0, last.start()) + 1
            objects[-1].add(name)
        last = token
    return 1
