"""One check: what was seen, whether that will do, and what to do if not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warn", "fail", "not applicable"]
SHOWN: dict[State, str] = {"ok": "ok", "warn": "WARN", "fail": "FAIL", "not applicable": "-"}


@dataclass(frozen=True)
class Check:
    """The outcome of one check, in one line each.

    Attributes:
        name: what was looked at.
        state: whether it will do.
        seen: what was seen.
        todo: what to do about it; empty if nothing.
    """

    name: str
    state: State
    seen: str
    todo: str = ""


def ok(name: str, seen: str) -> Check:
    """Return a check that found nothing wrong."""
    return Check(name, "ok", seen)


def warn(name: str, seen: str, todo: str) -> Check:
    """Return a check that found what may be in the way."""
    return Check(name, "warn", seen, todo)


def fail(name: str, seen: str, todo: str) -> Check:
    """Return a check that found what will be in the way."""
    return Check(name, "fail", seen, todo)


def not_applicable(name: str, seen: str) -> Check:
    """Return a check that has nothing to look at here."""
    return Check(name, "not applicable", seen)


def any_failed(checks: Sequence[Check]) -> bool:
    """Tell whether one of the checks failed."""
    return any(check.state == "fail" for check in checks)


def lines_of(checks: Sequence[Check]) -> list[str]:
    """Return a line per check, and below it one with what to do."""
    lines = []
    width = max((len(check.name) for check in checks), default=0)
    for check in checks:
        lines.append(f"{SHOWN[check.state]:4}  {check.name:{width}}  {check.seen}")
        if check.todo:
            lines.append(f"{'':4}  {'':{width}}  -> {check.todo}")
    return lines


def counted(checks: Sequence[Check]) -> str:
    """Return how many checks came out how, such as `9 ok, 1 to look at, 2 failed`."""
    states = [check.state for check in checks]
    words = {"ok": "ok", "warn": "to look at", "fail": "failed"}
    return ", ".join(f"{states.count(state)} {word}" for state, word in words.items() if state in states)
