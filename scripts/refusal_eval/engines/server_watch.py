"""Whether a server whose processes live still works: what it says of itself, and whether its counters move."""

from __future__ import annotations

import math
from collections.abc import Mapping

from refusal_eval.engines.engine_client import Health

UNWELL_SECONDS = 10.0  # a server that says so, or takes no connections, does not get well again
SILENT_SECONDS = 900.0  # one that does not answer may be busy
LIMITS = {Health.WELL: math.inf, Health.SILENT: SILENT_SECONDS, Health.UNWELL: UNWELL_SECONDS}
# Looks further apart than this: the job itself stood still (Slurm suspends jobs), and the server with it.
MOST_BETWEEN_LOOKS = 60.0


class ServerWatch:
    """What was seen of a server, look by look.

    Args:
        stall_seconds: how long nothing may come of the requests of a server that says it is well. A device that hangs
            leaves vLLM's front end as it was: it goes on to answer everything but completions.
    """

    def __init__(self, stall_seconds: float) -> None:
        self._stall_seconds = stall_seconds
        self._last_look: float | None = None
        self._time = 0.0  # seconds between looks, added up
        self._health, self._health_since = Health.WELL, 0.0
        self._counters: Mapping[str, float] = {}
        self._moved = 0.0

    def counted(self, counters: Mapping[str, float]) -> None:
        """Take in the server's counters, of requests and of tokens."""
        if dict(counters) != self._counters:
            self._counters, self._moved = dict(counters), self._time

    def look(self, health: Health, in_flight: int, now: float) -> str | None:
        """Return what is wrong with a server that will not get well again; None for any other.

        Args:
            health: what it says of itself.
            in_flight: how many requests it has.
            now: seconds of a clock that never goes back.
        """
        if self._last_look is not None:
            self._time += min(now - self._last_look, MOST_BETWEEN_LOOKS)
        self._last_look = now
        if health is not self._health:  # after silence one refusal is no long illness
            self._health, self._health_since = health, self._time
        if (ill := self._time - self._health_since) > LIMITS[health]:
            return f"its processes live, but it has not been well for {ill:.0f} s"
        if in_flight == 0 or not any(self._counters.values()):  # idle, or not known to count at all
            self._moved = self._time
        if (still := self._time - self._moved) > self._stall_seconds:
            return (
                f"its processes live, but nothing has come of its {in_flight} requests for {still:.0f} s, and its "
                f"`stall_timeout` is {self._stall_seconds:.0f} s"
            )
        return None
