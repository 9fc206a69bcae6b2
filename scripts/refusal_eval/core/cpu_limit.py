"""A limit on the processor time of untrusted text, such as a template."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class TookTooLong(Exception):
    """A block took more processor time than it may."""


@contextlib.contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Stop a block that computes longer than this; outside the main thread, which has no signals, nothing stops it.

    A single operation in C, such as a power of large numbers, is not interrupted.

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
