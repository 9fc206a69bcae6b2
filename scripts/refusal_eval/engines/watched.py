"""Questions to an engine that come before its requests: whoever asks notices an engine that hangs or dies."""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

from refusal_eval.core.errors import UserError
from refusal_eval.core.time_limit import TimeLimit, within
from refusal_eval.engines.engine_base import RunningEngine
from refusal_eval.engines.execution import COUNTERS_SECONDS, HEALTH_SECONDS

T = TypeVar("T")
SECONDS_BETWEEN_LOOKS = 5.0


async def watched(engine: RunningEngine, limit: TimeLimit | None, question: Coroutine[Any, Any, T]) -> T:
    """Await a question to the engine while watching the engine and the time limit; return its result.

    Raises:
        EngineDied: if the engine is gone, or has made no progress for too long.
        UserError: when the time limit is reached.
    """
    task = asyncio.create_task(question)
    task.add_done_callback(lambda task: task.cancelled() or task.exception())  # an abandoned one has no other reader
    try:
        while not (await asyncio.wait({task}, timeout=SECONDS_BETWEEN_LOOKS))[0]:
            if limit is not None and limit.stop_is_over():
                raise UserError("the time limit is reached before the first request was asked; nothing was stored")
            engine.check()
            with contextlib.suppress(TimeoutError):
                await within(HEALTH_SECONDS, engine.check_health())
            with contextlib.suppress(ConnectionError, TimeoutError):
                await within(COUNTERS_SECONDS, engine.metrics())
        return task.result()
    finally:
        task.cancel()
