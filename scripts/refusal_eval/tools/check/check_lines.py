"""What comes of one check, and the lines of a report: what was seen, whether it will do, and what to do if not."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

State = Literal["ok", "warn", "fail", "not applicable"]
SHOWN: dict[State, str] = {"ok": "ok", "warn": "WARN", "fail": "FAIL", "not applicable": "-"}


class Outcome(NamedTuple):
    """What comes of a check: whether it will do, what was seen, and what to do about it (empty if nothing)."""

    state: State
    seen: str
    todo: str = ""


Line = tuple[str, Outcome]  # what was looked at, and what came of it


def ok(seen: str) -> Outcome:
    """Nothing wrong."""
    return Outcome("ok", seen)


def warn(seen: str, todo: str) -> Outcome:
    """Something may be in the way."""
    return Outcome("warn", seen, todo)


def fail(seen: str, todo: str) -> Outcome:
    """Something will be in the way."""
    return Outcome("fail", seen, todo)


def not_applicable(seen: str) -> Outcome:
    """There is nothing to look at here."""
    return Outcome("not applicable", seen)


def any_failed(lines: Sequence[Line]) -> bool:
    """Tell whether one of the checks failed."""
    return any(outcome.state == "fail" for _, outcome in lines)


def text_of(lines: Sequence[Line]) -> str:
    """Return a line per check, below it one with what to do."""
    told = []
    width = max((len(name) for name, _ in lines), default=0)
    for name, outcome in lines:
        told.append(f"{SHOWN[outcome.state]:4}  {name:{width}}  {outcome.seen}")
        if outcome.todo:
            told.append(f"{'':4}  {'':{width}}  -> {outcome.todo}")
    return "\n".join(told)


def counted(lines: Sequence[Line]) -> str:
    """Return how many checks came out how, such as `9 ok, 1 to look at, 2 failed`."""
    states = [outcome.state for _, outcome in lines]
    words = {"ok": "ok", "warn": "to look at", "fail": "failed"}
    return ", ".join(f"{states.count(state)} {word}" for state, word in words.items() if state in states)
