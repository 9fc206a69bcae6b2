"""How entries and files of sides are written: one group of prompts, or a list of them; and what each is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")
# The paths of what a group of prompts is read from, by what they are; of a side that lists several groups a list.
PartFiles = Mapping[str, str]
SideFiles = Mapping[str, PartFiles | list[PartFiles]]


def groups_of(side: T | list[T]) -> list[T]:
    """Return the groups of prompts of a side, which is one of them or a list."""
    return side if isinstance(side, list) else [side]


def part_names(side: str, said: object) -> list[str]:
    """Return the name of each group of prompts of a side: `positive`, and of the others in a list `positive 2` ...

    Args:
        said: the side as its entry has it.
    """
    count = len(said) if isinstance(said, list) else 1
    return [side, *(f"{side} {number}" for number in range(2, count + 1))]
