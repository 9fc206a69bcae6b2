"""How long one engine load may take, and when it stops taking work so that nothing is cut off."""

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")
MOST_RESERVED_SECONDS = 30.0  # to stop the engine and write the receipt
RESERVED_SHARE = 0.1  # of a short limit
MOST_DRAINING_SECONDS = 120.0  # for what is in flight when no more is taken


@dataclass(frozen=True)
class TimeLimit:
    """Points in time (`time.monotonic`): after `take` no request is begun, at `stop` those in flight are given up."""

    take: float
    stop: float

    def take_is_over(self) -> bool:
        """Tell whether no further request may start."""
        return time.monotonic() >= self.take

    def stop_is_over(self) -> bool:
        """Tell whether the engine must stop now."""
        return time.monotonic() >= self.stop

    def seconds_left(self) -> float:
        """Return the seconds until the engine must stop, 0 when that time has passed."""
        return max(0.0, self.stop - time.monotonic())


def time_limit(
    minutes: float | None, runtime: object, job_end: float | None, started: float, now: float | None = None
) -> TimeLimit | None:
    """Return the limit of this job: the least of the three, or None without any.

    Args:
        minutes: the study's `time_limit`.
        runtime: the job's Snakemake resource `runtime`, in minutes (anything that is no number is no limit).
        job_end: when Slurm ends the job (seconds since 1970, see `slurm_jobs.job_end`).
        started: when the job started (`time.monotonic`).
        now: the time of day in seconds since 1970 that belongs to the present moment.
    """
    ends = [started + 60 * minutes] if minutes is not None else []
    if isinstance(runtime, int | float) and runtime > 0:
        ends.append(started + 60 * runtime)
    if job_end is not None:
        ends.append(time.monotonic() + job_end - (time.time() if now is None else now))
    if not ends:
        return None
    length = max(0.0, min(ends) - started)
    stop = min(ends) - min(MOST_RESERVED_SECONDS, RESERVED_SHARE * length)
    return TimeLimit(take=stop - min(MOST_DRAINING_SECONDS, RESERVED_SHARE * length), stop=stop)


async def within(seconds: float, question: Coroutine[Any, Any, T]) -> T:
    """Return what a question to the engine returns.

    A cancellation of the caller is never lost, and nobody waits for a question that was given up: a library may keep
    its cancellation to itself. `asyncio.wait_for` waits for it; and on Python 3.11, when a result and a cancellation
    come in the same turn of the event loop, it returns the result and forgets the cancellation.

    Raises:
        TimeoutError: after `seconds`.
    """
    task = asyncio.get_running_loop().create_task(question)
    task.add_done_callback(lambda task: task.cancelled() or task.exception())  # an abandoned one has no other reader
    try:
        await asyncio.wait({task}, timeout=seconds)
        if not task.done():
            raise TimeoutError(f"no answer after {seconds:g} s")
        return task.result()
    finally:
        task.cancel()
