"""What becomes of a provider's reply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SHOWN_CHARACTERS = 300  # of a reply, in messages
BUSY = (429, 503, 529)
PASSING = (408, 409, 425, 429)
GATEWAY = (408, 502, 504, *range(520, 525))  # where the server behind it may work on, and bill
# What is to be mended where all requests would get the same status.
MEND = {401: "key", 402: "credits", 403: "permission", 404: "served", 405: "address"}


@dataclass(frozen=True)
class Reply:
    """A reply of HTTP. The names of headers are in lower case; `body` is None where the text is no JSON."""

    status: int
    headers: Mapping[str, str]
    body: Any
    text: str = ""

    @property
    def is_page(self) -> bool:
        """Whether it is a page for people, such as one to sign in at."""
        return self.body is None and self.text.lstrip().startswith("<")

    @property
    def shown(self) -> str:
        return f"HTTP {self.status}: {' '.join(self.text.split())[:SHOWN_CHARACTERS]}"


@dataclass(frozen=True)
class Answered:
    """A response to be stored. `other_model` names the model that answered, where it is not the one that was asked."""

    response: dict[str, Any]
    other_model: str | None = None

    @property
    def of_prompt_alone(self) -> bool:
        """Whether nothing can have been written: the prompt was blocked, or is too long."""
        block = self.response.get("blocked") or {}
        return block.get("stage") == "prompt" or self.response["finish_reason"] == "too_long"


@dataclass(frozen=True)
class Again:
    """A failure that may pass. `response` is stored where it does not; without one the request stays unanswered."""

    reason: str
    response: dict[str, Any] | None = None
    busy: bool = False  # whether the server has too much to do
    unknown_bill: bool = False  # whether it may have been billed without saying so


@dataclass(frozen=True)
class Refused:
    """A request that the server does not take and would not take again; others are not concerned."""

    reason: str


@dataclass(frozen=True)
class EndsLoad:
    """A reply that all requests would get: `mend` names what is to be mended."""

    mend: str
    reason: str


ReplyReading = Answered | Again | Refused | EndsLoad


def response_of(text: str, finish_reason: str, **more: Any) -> dict[str, Any]:
    """Return a response without token ids; further fields that are None are left out."""
    given = {name: value for name, value in more.items() if value is not None}
    plain: dict[str, Any] = {"token_ids": [], "logprobs": None, "stop_reason": None}
    return {"text": text, "finish_reason": finish_reason, **plain, **given}


def blocked(by: str | None, stage: str | None, **more: Any) -> dict[str, Any]:
    """Return the response of a block; of `more` the keys of `ask.store.Block` go into it."""
    block = {"by": by, "stage": stage}
    block |= {name: more.pop(name, None) for name in ("category", "severity", "partial", "code")}
    return response_of("", "content_filter", blocked=block, **more)


def unusable(reason: str, **more: Any) -> dict[str, Any]:
    """Return the response of what is no answer and would come again."""
    return response_of("", "failed", reason=reason, **more)


def by_status(reply: Reply, status: int) -> ReplyReading:
    """Return what becomes of an error of which only its status says something.

    Args:
        status: that of the reply, or of the error that came with HTTP 200.
    """
    if status in PASSING or status >= 500:
        return Again(reply.shown, busy=status in BUSY, unknown_bill=status in GATEWAY or reply.status == 200)
    if status in MEND or 300 <= status < 400:
        return EndsLoad(MEND.get(status, "address"), reply.shown)
    return Refused(reply.shown)


def error_of(body: object) -> Mapping[str, Any]:
    """Return the error of a reply, in whichever form servers write it."""
    said = mapping(body)
    if isinstance(detail := said.get("detail"), list) and detail and isinstance(detail[0], Mapping):
        return {"param": str((detail[0].get("loc") or [""])[-1]), "message": str(detail[0].get("msg"))}
    error = said.get("error", said)
    return error if isinstance(error, Mapping) else {"message": str(error)}


def mapping(value: object) -> Mapping[str, Any]:
    """Return a value if it is a mapping, else an empty one: what servers send may have any type."""
    return value if isinstance(value, Mapping) else {}
