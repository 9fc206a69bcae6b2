"""Requests that were in flight when an engine died: one of them may have killed it, and would kill every next one.

They are kept next to the load's log, each with the number that may be in flight together when they are sent again.
After the first death that number is unchanged, since most engines die of something else. It shrinks with each further
death, until the killer is sent alone. Requests without a suspicion go first.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from pydantic import NonNegativeInt, TypeAdapter

from refusal_eval.ask.pending import Pending
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, write_json

LOG = logging.getLogger(__name__)
FEWER = 16  # how many times fewer after a death of suspects: of 1024 the one that kills is known after four more
FILE = TypeAdapter(dict[str, NonNegativeInt])


class Suspects:
    """The suspects of one load, in a file that may not be there. Those that were asked alone have the number 0."""

    def __init__(self, path: Path) -> None:
        self._path, self._at_once = path, dict[str, int]()
        try:
            self._at_once = FILE.validate_python(read_json(path)) if path.is_file() else {}
        except (OSError, ValueError, UserError) as error:  # it only decides on an order
            LOG.warning("%s cannot be read, and no request is kept for the end: %s", path, error)

    def in_turn(self, pending: Sequence[Pending], in_flight: int) -> list[tuple[int, list[Pending]]]:
        """Return the requests in parts, to be asked one part after the other, each with the most at one time."""

        def at_once(item: Pending) -> float:
            return self._at_once.get(str(item.request.key), math.inf)

        ordered = sorted(pending, key=at_once, reverse=True)
        parts = [(int(max(1, min(most, in_flight))), list(part)) for most, part in groupby(ordered, at_once)]
        for most, part in parts if self._at_once else ():
            LOG.info("%d requests are asked, at most %d at a time", len(part), most)
        return parts

    def died(self, in_flight: Sequence[Pending]) -> str:
        """Record what was in flight when the engine died; return a message, empty if there is none."""
        if not in_flight:
            return ""
        keys = [str(item.request.key) for item in in_flight]
        again = not self._at_once.keys().isdisjoint(keys)
        at_once = 0 if len(keys) == 1 else -(-len(keys) // FEWER) if again else len(keys)
        self._at_once |= dict.fromkeys(keys, at_once)
        try:
            write_json(self._path, self._at_once)
        except OSError as error:  # what killed the engine is to be said
            LOG.warning("the requests in flight could not be kept: %s", error)
        first = in_flight[0]
        if not at_once:
            return f"asked for {first.request.prompt_id} of {first.cell} alone (key {str(first.request.key)[:16]}), "
        fewer = f" and at most {at_once} at a time" if again else ""
        return f"with {len(in_flight)} requests in flight, which a rerun asks last{fewer}, "

    def clear(self) -> None:
        """Forget them: all were answered."""
        with contextlib.suppress(OSError):  # what is asked last once more costs little
            self._path.unlink()
