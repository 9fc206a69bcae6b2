"""Executing requests: all that the store lacks, all in flight together, each response stored at once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refusal_eval.ask.answers import UNUSABLE
from refusal_eval.ask.pending import Pending
from refusal_eval.ask.requests import Request
from refusal_eval.ask.store import StoreError, StoreReader, StoreWriter, checked_response, writer_is_gone
from refusal_eval.ask.store_index import KeyNumbers, key_numbers, matches
from refusal_eval.ask.turns import Response
from refusal_eval.core.errors import UserError
from refusal_eval.core.time_limit import TimeLimit, within
from refusal_eval.engines.engine_base import EngineDied, Rejected, RunningEngine
from refusal_eval.engines.progress import Progress
from refusal_eval.engines.suspects import Suspects

LOG = logging.getLogger(__name__)
SECONDS_BETWEEN_CHECKS = 1.0
CHECKS_BETWEEN_HEALTH = 5
CHECKS_BETWEEN_COUNTERS = 10
CHECKS_BETWEEN_REFRESHES = 10
RECENT_SECONDS = 300.0  # a store file that was written to so lately may have a run that goes on
COUNTERS_SECONDS = 5.0
HEALTH_SECONDS = 6.0  # more than the engine itself takes to call a server silent


@dataclass
class Outcome:
    """What became of the requests of one engine load."""

    executed: int = 0  # requests that the engine answered
    elsewhere: int = 0  # requests that another run answered meanwhile
    left: int = 0  # requests that were not begun, or given up, for lack of time
    # requests that the engine refuses for their own sake: key, status, message
    rejected: list[dict[str, Any]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)  # keys of requests that failed for a reason that may pass
    unusable: int = 0  # of those executed, responses that are no answer and would come again


class OutOfTime(Exception):
    """The time limit is reached with requests in flight."""


@dataclass
class Execution:
    """The work of one engine load."""

    engine: RunningEngine  # it is running
    writer: StoreWriter  # takes each response as it comes
    store: StoreReader  # tells what other runs have answered meanwhile, and knows later turns
    serving_id: str  # what the responses are served by
    in_flight: int  # the most requests at one time
    seeded: bool = True  # whether seeds are sent
    most_failures: int | None = None  # failed and rejected requests beyond this number end the work
    limit: TimeLimit | None = None  # when to stop
    look: Callable[[str, Request, Response], None] | None = None  # at each new response; what it raises ends the work
    suspects: Suspects | None = None  # what was in flight when an earlier engine died
    keys: Iterable[str] = ()  # of all requests of this load, also those that the store had; runs alike have them too

    def __post_init__(self) -> None:
        self._outcome = Outcome()
        self._dropped = 0
        self._queue: deque[Pending] = deque()
        self._backwards = self._over = False
        self._waiting: set[str] = set()
        self._arrived: set[str] = set()
        self._shared: dict[str, asyncio.Future[Response | None]] = {}
        self._asking: dict[str, Pending] = {}

    async def run(self, pending: Sequence[Pending]) -> Outcome:
        """Execute requests, in their order but for suspects, and store each response as it comes; return the counts.

        Raises:
            EngineDied: at once when the engine is gone; what came before is in the store.
            UserError: beyond the limit of failures, where the rest is not worth its GPU time.
            OSError: when the store cannot be written.
        """
        self._waiting = {item.request.key for item in pending if item.request.key is not None}
        self._keys = sorted({*self._waiting, *self.keys})
        self._numbers = key_numbers(self._keys)
        self._progress = Progress(item.cell for item in pending for _ in range(item.turns_left))
        total = sum(item.turns_left for item in pending)
        parts = [(self.in_flight, list(pending))]
        if self.suspects is not None:
            parts = self.suspects.in_turn(pending, self.in_flight)
        try:
            self._take_in()  # starting the engine took a while
            async with asyncio.TaskGroup() as group:
                watch = group.create_task(self._part(self._watch))
                try:
                    for at_once, part in parts:
                        self._queue = deque(part)
                        number = 0 if self._over else min(at_once, len(part))
                        if workers := [group.create_task(self._part(self._work)) for _ in range(number)]:
                            await asyncio.wait(workers)
                finally:
                    self._over = True
                    watch.cancel()
        except BaseExceptionGroup as group_of_errors:
            # Many workers fail of one cause: the death of the engine explains the rest.
            cause = (group_of_errors.subgroup(EngineDied) or group_of_errors).exceptions[0]
            if isinstance(cause, EngineDied) and self.suspects is not None:
                raise EngineDied(self.suspects.died(list(self._asking.values())) + str(cause)) from None
            if not isinstance(cause, OutOfTime):
                raise cause from None
        finally:
            self._progress.note(self.engine.note())
            self._progress.close()
        outcome = self._outcome
        done = outcome.executed + outcome.elsewhere + len(outcome.rejected) + len(outcome.failed)
        outcome.left = total - self._dropped - done if self.limit is not None else 0
        outcome.rejected.sort(key=lambda row: str(row["key"]))
        outcome.failed.sort()
        if self.suspects is not None and not outcome.left:
            self.suspects.clear()
        return outcome

    async def _part(self, part: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a worker or the watch. When it fails all is over, before the others are cancelled.

        They look for that, too: a library that they wait in may keep a cancellation to itself.
        """
        try:
            await part()
        except BaseException:
            self._over = True
            raise

    async def _work(self) -> None:
        while self._queue:
            item: Pending | None = self._queue.pop() if self._backwards else self._queue.popleft()
            while item is not None:
                if self._over or (self.limit is not None and self.limit.take_is_over()):
                    return
                item = await self._step(item)

    async def _step(self, item: Pending) -> Pending | None:
        """Execute one request; return the turn that follows it, or None."""
        response = await self._once(item)
        while response is not None and (following := item.after(response)) is not None:
            if item.turns_left == 1:
                self._drop(item.cell, -1)  # it was thought to be the last
            item = following
            record = self.store.lookup([str(item.request.key)]).get(str(item.request.key))
            if record is None:
                return item
            response = record["response"]  # another prompt came to ask the same, or another run did
            self._count_elsewhere(item)
        self._drop(item.cell, item.turns_left - 1)
        return None

    def _count_elsewhere(self, item: Pending) -> None:
        self._outcome.elsewhere += 1
        self._progress.done(item.cell)

    def _drop(self, cell: str, count: int) -> None:
        self._dropped += count
        self._progress.drop(cell, count)

    async def _once(self, item: Pending) -> Response | None:
        """Return the response to a request; two prompts that come to ask the same at one time share it."""
        key = item.request.key
        assert key is not None
        self._waiting.discard(key)
        if key in self._arrived:
            self._count_elsewhere(item)
            return self.store.lookup([key])[key]["response"] if item.turns is not None else None
        if item.turns is None:
            return await self._ask(item, key)
        if (shared := self._shared.get(key)) is not None:
            response = await shared
            self._count_elsewhere(item)
            return response
        self._shared[key] = asyncio.get_running_loop().create_future()
        response = None
        try:
            response = await self._ask(item, key)
        finally:
            shared = self._shared[key]
            if not shared.done():  # another worker that waited for it was cancelled, and it with that
                shared.set_result(response)
        return response

    async def _ask(self, item: Pending, key: str) -> Response | None:
        request, outcome = item.request, self._outcome
        response = None
        self._asking[key] = item
        try:
            seed = request.seed if self.seeded else None
            response = checked_response(
                await self.engine.complete(request.prompt, item.settings.at(request.positions), seed)
            )
        except Rejected as error:
            outcome.rejected.append({"key": key, "status": error.status, "message": error.message})
            LOG.warning("a request of %s was rejected (HTTP %d): %s", item.cell, error.status, error.message[:200])
            self._check_failures(error.message)
        except (ConnectionError, ValueError) as error:
            outcome.failed.append(key)
            LOG.warning("a request of %s failed: %s", item.cell, error)
            self._check_failures(str(error))
        else:
            self.writer.append(key, response, self.serving_id)
            outcome.executed += 1
            if response["finish_reason"] == UNUSABLE:
                outcome.unusable += 1
                LOG.warning("a response of %s is no answer: %s", item.cell, response.get("reason", "")[:200])
                self._check_failures(response.get("reason", ""))
            if self.look is not None:
                self.look(item.cell, request, response)
        self._asking.pop(key, None)  # it is left there by what ends the work
        self._progress.done(item.cell, len(response["token_ids"]) if response else 0)
        return response

    def _check_failures(self, last: str) -> None:
        failures = len(self._outcome.rejected) + len(self._outcome.failed) + self._outcome.unusable
        if self.most_failures is not None and failures > self.most_failures:
            raise UserError(
                f"{failures} requests failed, more than the study's `failure_limit` allows; the last: {last[:300]}. "
                f"{self._outcome.executed} responses are in the store, and a rerun executes only the rest."
            )

    async def _watch(self) -> None:
        """Notice what no request would tell: a dead engine, the time limit, responses of other runs."""
        checks = 0
        while True:
            await asyncio.sleep(SECONDS_BETWEEN_CHECKS)
            if self._over:
                return
            checks += 1
            self.engine.check()
            if self.limit is not None and self.limit.stop_is_over():
                raise OutOfTime
            # A server that does not tell must not keep the time limit from being seen.
            if checks % CHECKS_BETWEEN_HEALTH == 0:
                with contextlib.suppress(TimeoutError):
                    await within(HEALTH_SECONDS, self.engine.check_health())
            if checks % CHECKS_BETWEEN_COUNTERS == 0:
                with contextlib.suppress(ConnectionError, TimeoutError):
                    self._progress.engine_counters(await within(COUNTERS_SECONDS, self.engine.metrics()))
            self._progress.note(self.engine.note())
            self._progress.log_if_due()
            if checks % CHECKS_BETWEEN_REFRESHES == 0:
                try:
                    self._take_in()
                except StoreError as error:  # of another run's file: it costs time to ask the same, and no response
                    LOG.warning("%s", error)

    def _take_in(self) -> None:
        """Drop requests that other runs have answered, and approach a run with the same requests from the other end.

        In the same order both would send the same ones to the end; from the two ends they share the work.
        """
        changed = self.store.refresh() - {self.writer.path}
        indexes = [self.store.files[path].entries for path in changed if path in self.store.files]
        answered = {self._keys[place] for entries in indexes for place in matches(self._numbers, entries)[0].tolist()}
        asked = self._waiting & answered
        found = asked.difference(self.store.missing(asked))
        self._arrived |= found
        self._waiting -= found
        backwards = earlier_runs(self.writer.path, self.store, self._numbers) % 2 == 1
        if backwards and not self._backwards:
            LOG.info("another run executes some of the same requests: this one takes them from the other end")
        self._backwards = backwards


def earlier_runs(own: Path, store: StoreReader, numbers: KeyNumbers) -> int:
    """Return how many runs began before this one, go on, and answer requests of this load, such as another study's.

    Names of store files begin with a time: all runs see the same order. One that has just ended may still count.

    Args:
        own: the store file of this run.
        numbers: of the keys of this load, sorted (see `store_index.key_numbers`).
    """
    count = 0
    for path, index in store.files.items():
        if path.name < own.name and not index.closed and not writer_is_gone(path):
            with contextlib.suppress(OSError):  # removed, as by a writer without responses
                # Both times are of the file system's clock.
                recent = path.stat().st_mtime >= own.stat().st_mtime - RECENT_SECONDS
                count += recent and bool(len(matches(numbers, index.entries)[0]))
    return count
