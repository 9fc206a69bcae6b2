"""An engine that speaks messages over HTTP: somebody's server, with no tokenizer, no weights and no process of ours."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any, ClassVar, Literal, Self

import aiohttp
from pydantic import Field
from tenacity import RetryCallState, retry, retry_if_exception_type, stop_after_attempt, wait_exponential

from refusal_eval.ask.keys import EnginePrompt, is_neutral
from refusal_eval.ask.requests import RequestSettings
from refusal_eval.config.engine_entry import Capability, Engine
from refusal_eval.config.kinds import ENGINES
from refusal_eval.config.shapes import Page, Text
from refusal_eval.core.errors import UserError
from refusal_eval.engines.engine_base import EngineLoad, Rejected, RunningEngine

SENT = ("max_tokens", "temperature", "top_p", "stop")
TRIES = 8  # which take two minutes: many limits are by the minute
LONGEST_SECONDS = 3600.0  # a model may think for long, and a lost connection tells nobody


@ENGINES.add
class ChatEngine(Engine):
    """A model behind an address."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"writes_text", "takes_messages", "seeds"})

    kind: Literal["chat"]
    address: Page = Field(description="Where it is served, e.g. `https://host/v1`. Not in the request key.")
    served: Text = Field(description="The model's name there. In the request key.")
    key_variable: Text | None = Field(None, description="Environment variable that holds the key of its API.")

    def identity(self, weights: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return what is in the key of every request."""
        return {"kind": self.kind, "served": self.served}

    def running(self, load: EngineLoad) -> ChatClient:
        """Return the engine for one load."""
        key = os.environ.get(self.key_variable) if self.key_variable else ""
        if key is None:
            raise UserError(f"{self.key_variable} is not set: it holds the key for {self.address}")
        return ChatClient(self, key)


class Busy(ConnectionError):
    """The server takes no request now."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


def seconds_to_wait(state: RetryCallState) -> float:
    """Return what the server asks for, but at least 1, 2, 4, ... seconds."""
    error = state.outcome.exception() if state.outcome else None
    return max(error.seconds if isinstance(error, Busy) else 0.0, wait_exponential()(state))


class ChatClient(RunningEngine):
    """Asks the server of an engine."""

    def __init__(self, engine: ChatEngine, key: str) -> None:
        self._engine, self._headers = engine, {"Authorization": f"Bearer {key}"} if key else {}

    async def __aenter__(self) -> Self:
        limits = aiohttp.ClientTimeout(total=LONGEST_SECONDS, sock_connect=30)
        # `trust_env`: through the proxy that HTTPS_PROXY names, if it does.
        self._http = aiohttp.ClientSession(timeout=limits, headers=self._headers, trust_env=True)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.close()

    async def complete(self, prompt: EnginePrompt, settings: RequestSettings, seed: int | None) -> dict[str, Any]:
        """Return the response to one request."""
        # Many servers refuse parameters that they do not know, and an empty `stop`, whatever they say.
        body = {name: value for name, value in settings.sampling.items() if not is_neutral(name, value)}
        if unsent := body.keys() - SENT:
            raise UserError(f"engines of kind chat do not send {', '.join(sorted(unsent))}: leave it out of `sampling`")
        body |= {"model": self._engine.served, "messages": list(prompt)} | ({} if seed is None else {"seed": seed})
        try:
            return response_of(await self._reply(body))
        except TimeoutError as error:
            raise ConnectionError(f"no answer within {LONGEST_SECONDS:.0f} s") from error

    @retry(retry=retry_if_exception_type(Busy), stop=stop_after_attempt(TRIES), wait=seconds_to_wait, reraise=True)
    async def _reply(self, body: Mapping[str, Any]) -> Any:
        try:
            async with self._http.post(f"{self._engine.address.rstrip('/')}/chat/completions", json=body) as reply:
                said = await reply.text()
                message = f"HTTP {reply.status}: {said[:500]}"
                if reply.status in (408, 429) or reply.status >= 500:
                    asked = reply.headers.get("Retry-After", "")
                    raise Busy(message, float(asked) if asked.isdecimal() else 0.0)
                if reply.status in (401, 404):  # the key, the address or the model's name: all requests would fail
                    raise UserError(f"{self._engine.address}: {message}")
                if reply.status >= 400:
                    if '"content_filter"' in said:  # some providers answer this to a prompt that they block
                        return {"choices": [{"message": {}, "finish_reason": "content_filter"}]}
                    raise Rejected(reply.status, message)
                return await reply.json()
        except aiohttp.ClientError as error:
            raise Busy(f"{type(error).__name__}: {error}", 0.0) from error

    def serving_record(self) -> dict[str, Any]:
        """Return what served."""
        return {"address": self._engine.address}


def response_of(reply: Any) -> dict[str, Any]:
    """Return what is stored of a reply."""
    try:
        choice = reply["choices"][0]
        message, finish_reason = choice["message"], choice["finish_reason"]
        text = message.get("content") or message.get("refusal") or ""
        version = reply.get("model")  # the version behind a name such as `big-latest`
    except (LookupError, TypeError, AttributeError) as error:  # an error may come with HTTP 200
        raise ValueError(f"the server's reply has no answer: {str(reply)[:300]}") from error
    return {
        "text": text,
        "token_ids": [],
        "logprobs": None,
        "finish_reason": finish_reason,
        "stop_reason": None,
        "model_version": version,
    }
