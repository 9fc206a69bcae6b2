"""How a job of an engine stops at SIGTERM: what was answered is kept, and its engine ends with it."""

import asyncio
import contextlib
import ctypes
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
PR_SET_PDEATHSIG = 1
STOPPED = "stopped by SIGTERM"


def end_with_parent() -> None:
    """Ask the kernel (Linux) to send this process SIGTERM when its parent dies; on SIGTERM it raises `SystemExit`."""
    signal.signal(signal.SIGTERM, _stop)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def run_stoppable(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` as `asyncio.run` does. SIGTERM cancels it; it cleans up in full, whatever signals follow.

    An exception out of a signal handler would end whichever task or part of the event loop runs at that moment, and
    leave the others where they are.

    Raises:
        SystemExit: after SIGTERM.
    """

    async def watched() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task
        stopped = False

        def stop(*_: object) -> None:
            nonlocal stopped
            if stopped:
                return
            stopped = True
            if asyncio.current_task(loop) is task:  # it may block the loop for hours, as where it waits for a GPU
                raise SystemExit(STOPPED)
            task.cancel()
            loop.call_soon_threadsafe(lambda: None)  # the loop sleeps until something happens

        before = signal.signal(signal.SIGTERM, stop)
        try:
            return await work
        except BaseException as error:
            if stopped and not isinstance(error, SystemExit):
                raise SystemExit(STOPPED) from error
            raise
        finally:
            signal.signal(signal.SIGTERM, before)

    return asyncio.run(watched())


def _stop(*_: object) -> None:
    raise SystemExit(STOPPED)
