"""Engines of kind `anthropic`: servers that speak the messages API."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field

from refusal_eval.ask.keys import Message
from refusal_eval.features.hosted.hosted_entry import FORM, Hosted, schema_of
from refusal_eval.features.hosted.readings import (
    Answered,
    EndsLoad,
    Reply,
    ReplyReading,
    blocked,
    error_of,
    response_of,
    unusable,
)

VERSION = "2023-06-01"  # of the API
VERDICT = "verdict"  # the tool whose input is a reply that is held to a form
FINISHED = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "stop", "max_tokens": "length"}
FINISHED |= {"model_context_window_exceeded": "length"}
TOO_LONG = re.compile(r"prompt is too long|exceeds? the (context|maximum)|context (window|limit)", re.IGNORECASE)
# Documented with the refusals of streamed answers, to test how they are handled. In parts: an assistant that read it
# whole, as part of this file, would be refused as well.
REFUSAL_TEST = "_".join(
    [
        "ANTHROPIC_MAGIC_STRING_TRIGGER_REFUSAL",
        "1FAEFB6177B4672DEE07F9D3AFC62588CCD2631EDCF22E8CCC1FB35B501C9C86",
    ]
)
MONEY = re.compile(r"credit balance|billing|spend(ing)? limit|usage limits?", re.IGNORECASE)


class _AnthropicUsage(BaseModel):
    input_tokens: int = Field(ge=0)
    output_tokens: int = Field(0, ge=0)
    cache_read_input_tokens: int | None = Field(None, ge=0)
    cache_creation_input_tokens: int | None = Field(None, ge=0)
    iterations: Any = None

    def usage(self) -> dict[str, int]:
        """Return `ask.store.TokenUsage`; here tokens of the cache are not among those of the input."""
        cached = self.cache_read_input_tokens or 0
        whole = self.input_tokens + cached + (self.cache_creation_input_tokens or 0)
        return {"input": whole, "cached": cached, "output": self.output_tokens}


class _Block(BaseModel):
    type: str
    text: str | None = None
    thinking: str | None = None
    input: Any = None


class _StopDetails(BaseModel):
    category: str | None = None


class _AnthropicMessage(BaseModel):
    id: str | None = None
    model: str | None = None
    content: list[_Block]
    stop_reason: str | None = None
    stop_details: _StopDetails | None = None
    usage: _AnthropicUsage | None = None

    @property
    def text(self) -> str:
        forms = [json.dumps(block.input, ensure_ascii=False) for block in self.content if block.type == "tool_use"]
        return "".join(forms or [block.text or "" for block in self.content if block.type == "text"])

    @property
    def fell_back(self) -> bool:
        """Whether a model of the server's choice answered in the place of the one that was asked."""
        models = {str(one["model"]) for one in self._iterations() if "model" in one}
        return len(models) > 1 or any(block.type == "fallback" for block in self.content)

    def _iterations(self) -> list[Mapping[str, Any]]:
        said = self.usage.iterations if self.usage else None
        return [one for one in said if isinstance(one, Mapping)] if isinstance(said, list) else []


class AnthropicEngine(Hosted):
    """A server that speaks Anthropic's messages API."""

    spoken: ClassVar[str] = "messages API"
    path: ClassVar[str] = "/messages"
    names: ClassVar[Mapping[str, str]] = {
        **{name: name for name in ("max_tokens", "temperature", "top_p", "top_k")},
        "stop": "stop_sequences",
    }
    required: ClassVar[frozenset[str]] = frozenset({"max_tokens"})
    refusal_test: ClassVar[str | None] = REFUSAL_TEST

    kind: Literal["anthropic"]

    def headers(self, key: str | None) -> dict[str, str]:
        return {"anthropic-version": VERSION, **({"x-api-key": key} if key else {})}

    def body(self, messages: Sequence[Message], sampling: Mapping[str, Any], seed: int | None) -> dict[str, Any]:
        turns = [dict(message) for message in messages if message["role"] != "system"]
        system = "\n\n".join(message["content"] for message in messages if message["role"] == "system")
        said: dict[str, Any] = {"model": self.served, "messages": turns, **({"system": system} if system else {})}
        said |= self.sampled(sampling, seed) | self.extra
        if form := sampling.get(FORM):
            said["tools"] = [{"name": VERDICT, "description": "Give the verdict.", "input_schema": schema_of(form)}]
            said["tool_choice"] = {"type": "tool", "name": VERDICT}
        return said

    def is_error(self, body: Mapping[str, Any]) -> bool:
        return body.get("type") == "error"

    def answered(self, reply: Reply) -> ReplyReading:
        said = _AnthropicMessage.model_validate(reply.body)
        served = {"model": said.model, "fingerprint": None, "provider": None, "region": None}
        served["request_id"] = reply.headers.get("request-id", said.id)
        about: dict[str, Any] = {"served_by": served, "model_version": said.model}
        about["usage"] = said.usage and said.usage.usage()
        other = said.model if self.is_other(said.model) else None
        if said.fell_back:
            reason = f"`{said.model}` answered in the place of the model that was asked, which had declined"
            return Answered(unusable(reason, **about))
        if said.stop_reason == "refusal":
            category = said.stop_details and said.stop_details.category
            more = {"category": category, "partial": said.text or None, "code": "refusal"}
            return Answered(blocked("classifier", "answer" if said.text else "prompt", **more, **about), other)
        if said.stop_reason not in FINISHED:
            return Answered(unusable(f"the answer ended by {said.stop_reason!r}", **about), other)
        thought = "\n\n".join(block.thinking for block in said.content if block.thinking)
        about["reasoning"] = thought or None
        return Answered(response_of(said.text, FINISHED[said.stop_reason], **about), other)

    def without_answer(self, reply: Reply) -> ReplyReading | int:
        error = error_of(reply.body)
        kind, message = str(error.get("type") or ""), str(error.get("message") or "")
        status = 529 if reply.status == 200 else reply.status
        if status in (400, 403) and "content filter" in message.lower():
            stage = "answer" if message.lower().startswith("output") else "prompt"
            return Answered(blocked("filter", stage, code=kind or None))
        if status in (400, 429) and MONEY.search(message):
            return EndsLoad("credits", reply.shown)
        if status in (400, 413) and TOO_LONG.search(message):
            return Answered(response_of("", "too_long", reason=message))
        if status == 400 and (found := self.parameter_at_fault(None, message, reply)):
            return found
        return status
