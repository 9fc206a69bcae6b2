"""What is fuzzed: a parser, valid inputs of it, and what an accepted input must look like."""

import importlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzz.mutations import Encode

GROUPS = sorted(path.stem.removeprefix("of_") for path in Path(__file__).parent.glob("of_*.py"))

Parse = Callable[[bytes, Path], object]


@dataclass(frozen=True)
class Target:
    """A parser under fuzzing.

    Attributes:
        name: its name in test ids.
        parse: gives mutated bytes to the parser, in an empty folder, and asserts what the schema forbids.
        seeds: valid inputs, as values that `encode` writes, or as bytes; of a folder for what has to be built.
        encode: how values become bytes; None for bytes.
        refusals: how the parser says no. Any other exception is a finding.
    """

    name: str
    parse: Parse
    seeds: Callable[[Path], Sequence[Any]]
    encode: Encode | None
    refusals: tuple[type[Exception], ...]


TARGETS: dict[str, Target] = {}


def target(
    name: str,
    seeds: Sequence[Any] | Callable[[Path], Sequence[Any]],
    encode: Encode | None = None,
    refusals: Iterable[type[Exception]] = (),
) -> Callable[[Parse], Parse]:
    """Register the decorated function as the target `name`."""
    from refusal_eval.config.problems import ConfigError
    from refusal_eval.core.errors import UserError

    def register(parse: Parse) -> Parse:
        given = seeds if callable(seeds) else lambda _: seeds
        TARGETS[name] = Target(name, parse, given, encode, (UserError, ConfigError, *refusals))
        return parse

    return register


def all_targets() -> dict[str, Target]:
    """Return every target by name."""
    for group in GROUPS:
        importlib.import_module(f"fuzz.of_{group}")
    return TARGETS


def is_text(value: object) -> bool:
    """Tell whether a value is a string that can be written as UTF-8."""
    return isinstance(value, str) and not any(0xD800 <= ord(character) < 0xE000 for character in value)


def is_finite(value: object) -> bool:
    """Tell whether a value is a finite number, and no truth value."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def file_of(folder: Path, name: str, data: bytes) -> Path:
    """Write a file below `folder`; return its path."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
