"""The journal of a study's money: what a request can cost is reserved before it is sent, and settled by its usage.

A journal is a file with a line for each of the two. A request of which no reply came stays reserved: it may have been
billed. So what was billed is never more than what the journal says, and that never more than the budget, whenever a
process is killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Self

from refusal_eval.core.errors import UserError

LOG = logging.getLogger(__name__)
UNKNOWN = "an unknown engine"
INFINITE = Decimal("Infinity")


@dataclass
class Spending:
    """What a journal says, by engine."""

    spent: dict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    reserved: dict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    currency: str | None = None
    _open: dict[str, tuple[str, Decimal]] = field(default_factory=dict)

    @property
    def total(self) -> Decimal:
        return sum([*self.spent.values(), *self.reserved.values()], Decimal(0))

    def take_in(self, line: Mapping[str, Any]) -> None:
        """Take in a line of a journal.

        Raises:
            KeyError, TypeError, InvalidOperation: if it is none.
        """
        number, amount = str(line["id"]), Decimal(line["amount"])
        if line["what"] == "reserved":
            self._open[number] = (str(line["engine"]), amount)
            self.reserved[str(line["engine"])] += amount
            self.currency = line["currency"]
        else:  # of a line that is damaged nothing was reserved, and its money is spent all the same
            engine, reserved = self._open.pop(number, (UNKNOWN, Decimal(0)))
            self.reserved[engine] -= reserved
            self.spent[engine] += amount


def journal_path(store_dir: str | Path, study: str) -> Path:
    return Path(store_dir, "spending", f"{study}.journal")


def read_spending(path: Path) -> Spending:
    """Return what a journal says; nothing where there is none. A line that a kill cut off counts for nothing."""
    found = Spending()
    for line in _lines(path):
        with contextlib.suppress(KeyError):  # it is none of ours
            found.take_in(line)
    return found


def _lines(path: Path) -> Iterator[Mapping[str, Any]]:
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as handle:
        for number, text in enumerate(handle, 1):
            try:
                line = json.loads(text)
                if 0 <= Decimal(line["amount"]) < INFINITE:
                    yield line
            except (ValueError, KeyError, TypeError, InvalidOperation, RecursionError):
                # Its request was not sent, or its reservation stays.
                LOG.debug("%s, line %d was cut off", path, number)


class Journal:
    """A study's journal, opened to be written by one process at a time.

    Args:
        budget: what reserved and spent money may come to; None for no limit.
        engine: the name of the engine whose requests these are.
    """

    def __init__(self, path: Path, budget: Decimal | None, engine: str, currency: str) -> None:
        self._path, self._budget, self._engine, self._currency = path, budget, engine, currency
        self._count = 0

    def __enter__(self) -> Self:
        """Open it.

        Raises:
            BlockingIOError: if another process has it open.
            UserError: if it counts another currency.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._handle = open(self._path, "a+b", buffering=0)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._begin()
        except BaseException:
            self._handle.close()
            raise
        return self

    def _begin(self) -> None:
        self.spending = read_spending(self._path)
        if self.spending.currency not in (None, self._currency):
            raise UserError(
                f"{self._path} counts {self.spending.currency}, and the price of engine `{self._engine}` is in "
                f"{self._currency}: use one currency, or another `study` name"
            )
        self._run = f"{os.getpid()}-{os.fstat(self._handle.fileno()).st_size}"
        self._begin_line()

    def __exit__(self, *_: object) -> None:
        self._handle.close()

    def reserve(self, amount: Decimal) -> str | None:
        """Note on the disk that a request may cost `amount`, and return its id; None where the budget has no room."""
        if self._budget is not None and self.spending.total + amount > self._budget:
            return None
        self._count += 1
        number = f"{self._run}-{self._count}"
        about = {"engine": self._engine, "currency": self._currency}
        self._write({"what": "reserved", "id": number, "amount": str(amount), **about})
        os.fsync(self._handle.fileno())
        return number

    def settle(self, number: str, amount: Decimal) -> None:
        """Note what a request did cost."""
        self._write({"what": "spent", "id": number, "amount": str(amount)})

    def left(self) -> Decimal | None:
        """Return what the budget has left; None without one."""
        return None if self._budget is None else self._budget - self.spending.total

    def summary(self) -> str:
        """Return it as one line for people."""
        spent, reserved = (sum(part.values(), Decimal(0)) for part in (self.spending.spent, self.spending.reserved))
        rest = "" if (left := self.left()) is None else f", {left:.2f} left of {self._budget:.2f}"
        return f"{spent:.4f} {self._currency} spent, {reserved:.4f} reserved{rest}"

    def _begin_line(self) -> None:
        """End a line that a kill has cut off."""
        size = os.fstat(self._handle.fileno()).st_size
        if size and os.pread(self._handle.fileno(), 1, size - 1) != b"\n":
            self._handle.write(b"\n")

    def _write(self, line: Mapping[str, Any]) -> None:
        text = json.dumps(line).encode() + b"\n"
        if self._handle.write(text) != len(text):
            raise UserError(f"{self._path} cannot be written to its end (is the disk full?); nothing more is sent")
        self.spending.take_in(line)
