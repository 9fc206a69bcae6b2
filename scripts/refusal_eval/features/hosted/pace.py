"""How many requests are in flight at a server that says when it is busy."""

from __future__ import annotations

import asyncio
import time
from typing import Self


class RequestPace:
    """Lets requests through: at most so many in flight, which halves when the server is busy and then grows slowly.

    It is entered by `async with` for each time that a request is sent.

    Args:
        most: at most so many, ever.
    """

    def __init__(self, most: int) -> None:
        self._most, self._limit, self.in_flight = most, most, 0
        self._quiet_since = time.monotonic()
        self._resume = 0.0
        self._changed = asyncio.Condition()

    async def __aenter__(self) -> Self:
        while (seconds := self._resume - time.monotonic()) > 0:
            await asyncio.sleep(seconds)
        async with self._changed:
            while self.in_flight >= self.limit:
                # It grows as time goes by, and nobody says so.
                try:
                    await asyncio.wait_for(self._changed.wait(), 1.0)
                except TimeoutError:
                    continue
            self.in_flight += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        async with self._changed:
            self.in_flight -= 1
            self._changed.notify_all()

    @property
    def limit(self) -> int:
        """How many may be in flight now: one more for each second since the server was busy."""
        grown = max(0, int(time.monotonic() - self._quiet_since))
        return min(self._most, self._limit + grown)

    def slow_down(self, seconds: float) -> None:
        """Take in that the server is busy, and for how long it wants to be left alone; many at once count as once."""
        now = time.monotonic()
        self._resume = max(self._resume, now + seconds)
        if now - self._quiet_since >= 1.0 or self._limit == self._most:
            self._limit = max(1, self.limit // 2)
        self._quiet_since = max(now, self._resume)
