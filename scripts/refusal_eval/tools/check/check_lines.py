"""What comes of one check, and the lines of a report: what was seen, whether it will do, and what to do if not."""

from collections.abc import Sequence
from functools import partial
from typing import Literal, NamedTuple

SHOWN = {"ok": "ok", "warn": "WARN", "fail": "FAIL", "not applicable": "-"}


class CheckOutcome(NamedTuple):
    """What comes of a check."""

    state: Literal["ok", "warn", "fail", "not applicable"]
    seen: str
    todo: str = ""  # what to do about it; of a warning and of a failure never empty


CheckLine = tuple[str, CheckOutcome]  # what was looked at, and what came of it
ok, warn, fail = partial(CheckOutcome, "ok"), partial(CheckOutcome, "warn"), partial(CheckOutcome, "fail")
not_applicable = partial(CheckOutcome, "not applicable")


def any_failed(lines: Sequence[CheckLine]) -> bool:
    return any(outcome.state == "fail" for _, outcome in lines)


def text_of(lines: Sequence[CheckLine]) -> str:
    """Return a line per check, below it one with what to do."""
    width = max(len(name) for name, _ in lines)
    shown = [(f"{SHOWN[one.state]:4}  {name:{width}}  {one.seen}", one.todo) for name, one in lines]
    return "\n".join(seen + (f"\n{'':{width + 8}}-> {todo}" if todo else "") for seen, todo in shown)


def count_outcomes(lines: Sequence[CheckLine]) -> str:
    """Return the number of checks by outcome, such as `9 ok, 1 to look at, 2 failed`."""
    states = [outcome.state for _, outcome in lines]
    words = {"ok": "ok", "warn": "to look at", "fail": "failed"}
    return ", ".join(f"{states.count(state)} {word}" for state, word in words.items() if state in states)
