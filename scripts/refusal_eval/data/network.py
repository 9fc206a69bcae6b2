"""Faults of the network: which may pass, and trying again."""

import logging
import os
import re
from collections.abc import Callable, Iterator
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, wait_exponential

T = TypeVar("T")
TRIES = 3
WAIT_SECONDS = 2.0


class NetworkFault(Exception):
    """A download failed for a reason that may pass; the message is the reason in one line."""


def with_retries(action: Callable[[], T], log: logging.Logger) -> T:
    """Return what `action` returns; after a fault that may pass try again, WAIT_SECONDS later, then twice that.

    Raises:
        Exception: what `action` raised last, or what it raised for a reason that does not pass.
    """

    def warn(state: RetryCallState) -> None:
        assert state.outcome and state.next_action
        fault = first_line(state.outcome.exception() or NetworkFault())
        pause = state.next_action.sleep
        log.warning("%s; attempt %d of %d, the next one in %g s", fault, state.attempt_number, TRIES, pause)

    retrying = Retrying(
        stop=stop_after_attempt(TRIES),
        wait=wait_exponential(multiplier=WAIT_SECONDS),
        retry=retry_if_exception(may_pass),
        before_sleep=warn,
        reraise=True,
    )
    return retrying(action)


def may_pass(error: BaseException) -> bool:
    """Tell whether an error comes from the network or the server, so that another attempt may succeed.

    The hub's client raises errors of httpx or httpx2 by version, neither of which is an OSError: they are
    recognised by name.
    """
    for cause in causes(error):
        names = {kind.__name__ for kind in type(cause).__mro__}
        if "OfflineModeIsEnabled" in names:
            return False
        if "HfHubHTTPError" in names:
            status = getattr(getattr(cause, "response", None), "status_code", None)
            return status in (408, 429) or (isinstance(status, int) and status >= 500)
        if names & {"NetworkFault", "TransportError", "ConnectionError", "TimeoutError"}:
            return True
    return False


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what caused it, outermost first."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def first_line(error: BaseException) -> str:
    """Return an error in one line: its class and the first line of its message, without tokens and passwords."""
    lines = without_secrets(str(error)).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].strip()}" if lines else type(error).__name__


def without_secrets(text: str) -> str:
    """Return a text without the hub's tokens, and without user and password of addresses."""
    token = os.environ.get("HF_TOKEN", "").strip()
    text = text.replace(token, "***") if token else text
    return re.sub(r"\bhf_[A-Za-z0-9]{8,}", "***", re.sub(r"//[^/@\s]*@", "//", text))
