"""Engines of kind `google`: Gemini, asked in Google's own form, over the client that all hosted engines share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import AliasPath, BaseModel, Field

from refusal_eval.ask.keys import Message
from refusal_eval.config.engine_entry import Capability
from refusal_eval.config.kinds import ENGINES
from refusal_eval.features.hosted.hosted_entry import FORM, Hosted
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

ROLES = {"user": "user", "assistant": "model"}
FINISHED = {"STOP": "stop", "MAX_TOKENS": "length"}
STOPPED = ("SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII")  # RECITATION, LANGUAGE and others are no refusals
SETTINGS = "generationConfig"
SEEDS = 2**31  # their seeds have 32 bits, with a sign


class _Part(BaseModel):
    text: str = ""
    thought: bool = False


class _Candidate(BaseModel):
    parts: list[_Part] = Field([], validation_alias=AliasPath("content", "parts"))
    finish: str | None = Field(None, alias="finishReason")


class _UsageOf(BaseModel):
    prompt: int = Field(0, ge=0, alias="promptTokenCount")
    cached: int = Field(0, ge=0, alias="cachedContentTokenCount")
    answer: int = Field(0, ge=0, alias="candidatesTokenCount")
    thoughts: int = Field(0, ge=0, alias="thoughtsTokenCount")

    def usage(self) -> dict[str, int]:
        return {"input": self.prompt, "cached": self.cached, "output": self.answer + self.thoughts}


class _Generated(BaseModel):
    candidates: list[_Candidate] = []
    block_reason: str | None = Field(None, validation_alias=AliasPath("promptFeedback", "blockReason"))
    usage: _UsageOf | None = Field(None, alias="usageMetadata")
    model: str | None = Field(None, alias="modelVersion")


@ENGINES.add
class GeminiEngine(Hosted):
    """A server that speaks Google's generateContent; `safetySettings` go into `extra`."""

    capabilities: ClassVar[frozenset[Capability]] = Hosted.capabilities | {"seeds"}
    spoken: ClassVar[str] = "generateContent"
    path: ClassVar[str] = "/models/{served}:generateContent"
    messages_key: ClassVar[str] = "contents"
    names: ClassVar[Mapping[str, str]] = {
        **{"max_tokens": "maxOutputTokens", "temperature": "temperature", "top_p": "topP", "top_k": "topK"},
        **{"stop": "stopSequences", "seed": "seed"},
    }

    kind: Literal["google"]

    def headers(self, key: str | None) -> dict[str, str]:
        return {"x-goog-api-key": key} if key else {}

    def body(self, messages: Sequence[Message], sampling: Mapping[str, Any], seed: int | None) -> dict[str, Any]:
        turns = [message for message in messages if message["role"] != "system"]
        said: dict[str, Any] = {"contents": [{"role": ROLES[one["role"]], **_parts(one)} for one in turns]}
        if system := [message for message in messages if message["role"] == "system"]:
            said["systemInstruction"] = _parts(*system)
        settings = self.sampled(sampling, None if seed is None else seed % SEEDS)
        if form := sampling.get(FORM):
            settings |= {"responseMimeType": "application/json", "responseJsonSchema": form["json"]}
        return said | self.extra | {SETTINGS: settings | self.extra.get(SETTINGS, {})}

    def is_error(self, body: Mapping[str, Any]) -> bool:
        return "error" in body

    def answered(self, reply: Reply) -> ReplyReading:
        said = _Generated.model_validate(reply.body)
        about: dict[str, Any] = {"usage": said.usage and said.usage.usage(), "model_version": said.model}
        about["served_by"] = dict.fromkeys(("fingerprint", "provider", "region", "request_id")) | {"model": said.model}
        other = said.model if self.is_other(said.model) else None
        if reason := said.block_reason:
            by = "guardrail" if reason == "MODEL_ARMOR" else "filter"
            return Answered(blocked(by, "prompt", category=reason.lower(), code=reason, **about), other)
        if not said.candidates:
            return Answered(unusable("the reply has no `candidates`", **about), other)
        parts, finish = said.candidates[0].parts, said.candidates[0].finish
        text, thoughts = ("".join(part.text for part in parts if part.thought is which) for which in (False, True))
        if finish in STOPPED:
            more = {"category": finish.lower(), "code": finish, "partial": text or None}
            return Answered(blocked("filter", "answer", **more, **about), other)
        if finish not in FINISHED:
            return Answered(unusable(f"the answer ended by {finish!r}, which is no refusal", **about), other)
        return Answered(response_of(text, FINISHED[finish], reasoning=thoughts or None, **about), other)

    def without_answer(self, reply: Reply) -> ReplyReading | int:
        message = str(error_of(reply.body).get("message") or "")
        if reply.status == 400 and "API key" in message:
            return EndsLoad("key", reply.shown)
        found = self.parameter_at_fault(None, message, reply) if reply.status == 400 else None
        return found or (reply.status if reply.status != 200 else 502)


def _parts(*messages: Message) -> dict[str, Any]:
    return {"parts": [{"text": message["content"]} for message in messages]}
