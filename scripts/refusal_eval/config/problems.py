"""Mistakes in a config, as the user reads them: where, what is wrong, what is allowed, and the nearest valid name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from refusal_eval.config.shapes import KeyPath

Mistake = tuple[KeyPath, str]  # where (in the entry that is asked, or in the study), and what is wrong


class ConfigError(Exception):
    """All mistakes of a config at once; `str()` is what the user reads."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = sorted(set(problems), key=lambda problem: (problem.comes_last, problem))
        count = len(self.problems)
        heading = f"{count} mistake{'s' if count != 1 else ''} in the configuration (nothing was run):"
        super().__init__("\n".join([heading, *(f"  - {problem}" for problem in self.problems)]))


@dataclass(frozen=True, order=True)
class Problem:
    """One mistake: the file, its line (0 when unknown), the key's path, and what is wrong and would be right."""

    file: str
    line: int
    path: str
    message: str
    comes_last: bool = False  # whether it is about other files than those at fault for the rest

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        parts = [place, self.path, self.message] if self.path else [place, self.message]
        return " ".join(": ".join(parts).split())  # one mistake, one line


def dotted(path: Iterable[str | int]) -> str:
    """Return a key path as people write it: `models.smollm2.sampling.stop[0]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def one_of(words: Sequence[str]) -> str:
    """Return words as `a, b or c`."""
    return ", ".join(words[:-1]) + (" or " if words[1:] else "") + words[-1]
