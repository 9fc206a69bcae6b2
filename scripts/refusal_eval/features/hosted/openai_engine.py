"""Engines of kind `openai`: servers that speak chat completions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field

from refusal_eval.ask.keys import Message
from refusal_eval.config.engine_entry import Capability
from refusal_eval.features.hosted.hosted_entry import FORM, Hosted, schema_of
from refusal_eval.features.hosted.readings import (
    Again,
    Answered,
    EndsLoad,
    Reply,
    ReplyReading,
    blocked,
    error_of,
    mapping,
    response_of,
    unusable,
)
from refusal_eval.features.hosted.token_logprobs import packed_logprobs

FINISHED = {"stop": "stop", "eos": "stop", "end_turn": "stop", "stop_sequence": "stop", "length": "length"}
FINISHED |= {"max_tokens": "length", "model_length": "length", "MAX_TOKENS": "length"}
# How an answer ends that somebody stopped, by finish reason: who.
STOPPED = {"content_filter": "filter", "content_filtered": "filter", "refusal": "classifier"}
STOPPED |= {"guardrail_intervened": "guardrail"}
# How Gemini ends an answer that is no refusal, where it is asked through a gateway.
NO_REFUSALS = ("RECITATION", "LANGUAGE", "OTHER", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL")
PARAMETERS = ("max_tokens", "temperature", "top_p", "stop", "presence_penalty", "frequency_penalty", "seed")
QUOTA = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
TOO_LONG = re.compile(r"maximum context length|context[ _](length|window)|(prompt|input) is too long", re.IGNORECASE)
MODERATED = re.compile(r"moderation|(input|prompt|content|request) (was|has been) flagged", re.IGNORECASE)
POLICY = re.compile(r"invalid_prompt|content_policy_violation|(\w+)_policy")  # the last names the category


class _Details(BaseModel):
    cached_tokens: int | None = Field(None, ge=0)


class _ChatUsage(BaseModel):
    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(0, ge=0)
    total_tokens: int = 0
    prompt_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: int | None = Field(None, ge=0)

    def usage(self) -> dict[str, int]:
        """Return `ask.store.TokenUsage`. Some servers count reasoning only in the total."""
        details = self.prompt_tokens_details or _Details()
        cached = min(details.cached_tokens or self.prompt_cache_hit_tokens or 0, self.prompt_tokens)
        output = max(self.completion_tokens, self.total_tokens - self.prompt_tokens)
        return {"input": self.prompt_tokens, "cached": cached, "output": output}


class _ChatMessage(BaseModel):
    content: str | list[dict[str, Any]] | None = None
    refusal: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None

    @property
    def text(self) -> str:
        parts = self.content if isinstance(self.content, list) else [{"text": self.content}]
        return "".join(str(part.get("text") or "") for part in parts)


class _ChatChoice(BaseModel):
    message: _ChatMessage
    finish_reason: str | None = None
    native_finish_reason: str | None = None
    content_filter_results: dict[str, Any] | None = None
    logprobs: Any = None
    error: Any = None


class _ChatCompletion(BaseModel):
    id: str | None = None
    model: str | None = None
    provider: str | None = None
    system_fingerprint: str | None = None
    choices: list[_ChatChoice]
    usage: _ChatUsage | None = None


class OpenAIEngine(Hosted):
    """A server that speaks OpenAI's chat completions: OpenAI's own, those of many providers, vLLM's."""

    spoken: ClassVar[str] = "chat completions"
    capabilities: ClassVar[frozenset[Capability]] = Hosted.capabilities | {"seeds"}
    path: ClassVar[str] = "/chat/completions"
    names: ClassVar[Mapping[str, str]] = {name: name for name in PARAMETERS}

    kind: Literal["openai"]
    logprobs: bool = Field(
        False,
        description="Ask for log-probabilities, which c(x) needs, of a server that gives them. In the request key.",
    )

    def able(self) -> frozenset[Capability]:
        return self.capabilities | ({"log_probabilities"} if self.logprobs else set())

    def identity(self, weights: Mapping[str, Any] | None) -> dict[str, Any]:
        return super().identity(weights) | ({"logprobs": True} if self.logprobs else {})

    def lacks_logprobs(self, response: Mapping[str, Any]) -> bool:
        return self.logprobs and bool(response["text"]) and "text_logprobs" not in response

    def headers(self, key: str | None) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"} if key else {}

    def body(self, messages: Sequence[Message], sampling: Mapping[str, Any], seed: int | None) -> dict[str, Any]:
        said: dict[str, Any] = {"model": self.served, "messages": [dict(message) for message in messages]}
        said |= self.sampled(sampling, seed) | self.extra | ({"logprobs": True} if self.logprobs else {})
        if form := sampling.get(FORM):
            schema = {"name": "verdict", "strict": True, "schema": schema_of(form)}
            said["response_format"] = {"type": "json_schema", "json_schema": schema}
        return said

    def is_error(self, body: Mapping[str, Any]) -> bool:
        return "error" in body and not body.get("choices")

    def answered(self, reply: Reply) -> ReplyReading:
        said = _ChatCompletion.model_validate(reply.body)
        served = {"model": said.model, "fingerprint": said.system_fingerprint, "provider": said.provider}
        served |= {"region": reply.headers.get("x-ms-region"), "request_id": reply.headers.get("x-request-id", said.id)}
        about: dict[str, Any] = {"served_by": served, "model_version": said.model}
        about["usage"] = said.usage and said.usage.usage()
        if not said.choices:
            return Answered(unusable("the reply has no `choices`", **about))
        choice, message = said.choices[0], said.choices[0].message
        other = said.model if self.is_other(said.model) else None
        finish, native = (choice.finish_reason or "").partition(":")[0], choice.native_finish_reason
        if choice.error is not None or finish in ("error", "insufficient_system_resource"):
            reason = f"an error of the server behind the server: {str(choice.error or finish)[:200]}"
            return Again(reason, unusable(reason, **about))
        text = message.text or message.refusal or ""
        if finish in STOPPED or native == "refusal":
            if native in NO_REFUSALS:
                return Answered(unusable(f"the answer was stopped ({native}), which is no refusal", **about), other)
            by = "classifier" if native == "refusal" else STOPPED.get(finish, "classifier")
            category, severity = filtered(choice.content_filter_results)
            more = {"category": category, "severity": severity, "partial": text or None, "code": native or finish}
            return Answered(blocked(by, "answer", **more, **about), other)
        if finish not in FINISHED:
            return Answered(unusable(f"the answer ended by {choice.finish_reason!r}", **about), other)
        unfiltered = "error" in (choice.content_filter_results or {})
        tokens = packed_logprobs(text, mapping(choice.logprobs).get("content")) if self.logprobs else None
        about |= {"reasoning": message.reasoning or message.reasoning_content or None, "text_logprobs": tokens}
        about |= {"marks": ["unfiltered"] if unfiltered else None, "declared": True if message.refusal else None}
        return Answered(response_of(text, FINISHED[finish], **about), other)

    def without_answer(self, reply: Reply) -> ReplyReading | int:
        error = error_of(reply.body)
        code, message = str(error.get("code") or error.get("type") or ""), str(error.get("message") or "")
        # An error with HTTP 200 is of a server behind this one, and may say its own status.
        status = reply.status if reply.status != 200 else int(code) if re.fullmatch(r"[45]\d\d", code) else 502
        if status in (400, 403, 422) and (block := block_of(status, code, message, error)):
            return Answered(block)
        if status == 429 and (code in QUOTA or error.get("type") in QUOTA):
            return EndsLoad("quota", reply.shown)
        if status in (400, 413, 422) and (code == "context_length_exceeded" or TOO_LONG.search(message)):
            return Answered(response_of("", "too_long", reason=message))
        if status in (400, 422) and (found := self.parameter_at_fault(error.get("param"), message, reply)):
            return found
        return status


def block_of(status: int, code: str, message: str, error: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the response of an error by which a prompt was blocked; None for another error."""
    metadata, inner = (mapping(error.get(name)) for name in ("metadata", "innererror"))
    if "refusal" in (metadata.get("error_type"), metadata.get("provider_code")):
        return blocked("classifier", None, code="refusal")
    if "guardrail" in f"{error.get('type')} {code} {message}".lower():
        return blocked("guardrail", "prompt", code=code or None)
    if status == 403:
        if not (metadata.get("reasons") or metadata.get("flagged_input") or MODERATED.search(message)):
            return None
        reasons = metadata.get("reasons")
        category = ", ".join(map(str, reasons)) if isinstance(reasons, list) and reasons else None
        return blocked("gateway", "prompt", category=category, code=code)
    if found := POLICY.fullmatch(code):
        return blocked("policy", "prompt", category=found[1], code=code)
    if code == "content_filter" or "Content Exists Risk" in message:
        category, severity = filtered(inner.get("content_filter_result"))
        return blocked("filter", "prompt", category=category, severity=severity, code=code or None)
    return None


def filtered(results: object) -> tuple[str | None, str | None]:
    """Return the first category that a filter has stopped, with its severity, out of its results."""
    for category, found in mapping(results).items():
        if (said := mapping(found)).get("filtered"):
            return str(category), None if (severity := said.get("severity")) is None else str(severity)
    return None, None
