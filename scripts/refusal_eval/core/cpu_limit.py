"""A bound on the processor time of what strangers' text computes, such as a template."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class TookTooLong(Exception):
    """A block took more processor time than it may."""


@contextlib.contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """End a block that computes for longer; where signals cannot be had, which is in other threads, it has no bound.

    A single step of C, such as one power of large numbers, is not ended before it is done.

    Raises:
        TookTooLong: when the time is over.
    """

    def end(number: int, frame: FrameType | None) -> None:
        raise TookTooLong

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGVTALRM, end)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    finally:
        signal.signal(signal.SIGVTALRM, before)
