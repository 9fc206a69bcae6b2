"""Seeded mutations of valid inputs: of their bytes, and of the values that they hold."""

import copy
import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import yaml

Encode = Callable[[Any], bytes]

# Values that a program does not expect in the place of another.
ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    -(2**70),
    10**400,
    0.5,
    -0.0,
    1e308,
    5e-324,
    float("nan"),
    float("inf"),
    float("-inf"),
    "",
    " ",
    "\x00",
    "\ud83d",
    "\u202e\u200b\ufeff",
    "\u0301" * 50,
    "x" * 10_000,
    "1",
    "NaN",
    "null",
    "../../etc/passwd",
    "/etc/passwd",
    "-rf",
    "=HYPERLINK(1)",
    "{{ 7 * 7 }}",
    [],
    {},
    [[]],
    [None],
    {"": None},
    {"a": {"b": {"c": []}}},
)
ODD_BYTES: tuple[bytes, ...] = (
    b"",
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\xed\xa0\xbd",
    b"\r",
    b"\r\n",
    b"\n\n\n",
    b"\t",
    b'"',
    b"'",
    b"\\",
    b"\\ud83d",
    b"\\u0000",
    b",",
    b":",
    b": ",
    b"{",
    b"}",
    b"[",
    b"]",
    b"[" * 2000,
    b'{"a":' * 2000,
    b"-",
    b"- ",
    b"#",
    b"&a ",
    b"*a",
    b"<<: *a",
    b"!!int ''",
    b"!!python/object:os.system ",
    b"!!timestamp x",
    b"NaN",
    b"Infinity",
    b"1e999",
    b"9" * 5000,
    b"-1",
    b"null",
    b"true",
    b"{{",
    b"{%",
    b"\xcc\x81" * 200,
    b"a" * 100_000,
)


def mutated_bytes(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return `data` after one to four changes of its bytes."""
    for _ in range(random.randint(1, 4)):
        start = random.randrange(len(data) + 1)
        end = min(len(data), start + random.choice((1, 2, 8, 64, 1000)))
        match random.randrange(8):
            case 0:
                data = data[:start] + random.randbytes(end - start) + data[end:]
            case 1:
                data = data[:start] + data[end:]
            case 2:
                data = data[:end] + data[start:end] * random.choice((1, 2, 50)) + data[end:]
            case 3:
                data = data[:start]
            case 4:
                data = data[:start] + random.choice(ODD_BYTES) + data[start:]
            case 5:
                data = data[:start] + random.choice(ODD_BYTES) + data[end:]
            case 6:
                other = random.choice(others)
                data = data[:start] + other[random.randrange(len(other) + 1) :]
            case _:
                if start < len(data):
                    data = data[:start] + bytes([data[start] ^ (1 << random.randrange(8))]) + data[start + 1 :]
    return data


def mutated_value(random: Random, value: Any) -> Any:
    """Return a copy of a value after one to three changes at random places inside of it."""
    value = copy.deepcopy(value)
    for _ in range(random.randint(1, 3)):
        places = list(_places(value))
        if not places:
            return random.choice(ODD_VALUES)
        inside, key = random.choice(places)
        match random.randrange(6):
            case 0:
                del inside[key]
            case 1:
                inside[key] = [inside[key]]
            case 2:
                inside[key] = inside[random.choice([k for i, k in places if i is inside])]
            case 3 if isinstance(inside, dict):
                inside[random.choice(("", "__proto__", "id", str(key) + " ", "x" * 300))] = inside.pop(key)
            case 4 if isinstance(inside, list):
                inside.extend(copy.deepcopy(inside[:50]))
            case _:
                inside[key] = copy.deepcopy(random.choice(ODD_VALUES))
    return value


def _places(value: Any) -> list[tuple[Any, Any]]:
    places: list[tuple[Any, Any]] = []
    todo = [value]
    while todo:
        inside = todo.pop()
        children = list(inside.items()) if isinstance(inside, dict) else list(enumerate(inside))
        for key, child in children:
            places.append((inside, key))
            if isinstance(child, (dict, list)):
                todo.append(child)
    return places


def as_json(value: Any) -> bytes:
    """Return a value as JSON, with what JSON forbids as Python writes it (NaN, half of a surrogate pair escaped)."""
    return json.dumps(value).encode()


def as_jsonl(values: Any) -> bytes:
    """Return a list as JSONL, anything else as one line."""
    return b"".join(as_json(value) + b"\n" for value in (values if isinstance(values, list) else [values]))


def as_yaml(value: Any) -> bytes:
    """Return a value as YAML; text that YAML cannot hold is replaced."""
    return yaml.dump(value, allow_unicode=True).encode(errors="replace")
