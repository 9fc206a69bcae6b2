"""An engine that speaks messages over HTTP: somebody's server, with no tokenizer, no weights and no process of ours."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, ClassVar, Literal, Self

import aiohttp
from pydantic import Field
from tenacity import RetryCallState, retry, retry_if_exception_type, stop_after_attempt, wait_exponential

from refusal_eval.ask.keys import Prompt, is_neutral
from refusal_eval.ask.requests import RequestSettings
from refusal_eval.config.engine_entry import Capability, Engine
from refusal_eval.config.kinds import ENGINES
from refusal_eval.config.shapes import Page, Text
from refusal_eval.core.errors import UserError
from refusal_eval.engines.engine_base import EngineLoad, Rejected, RunningEngine

SENT = ("max_tokens", "temperature", "top_p", "stop")
TRIES = 6


@ENGINES.add
class ChatEngine(Engine):
    """A model behind an address."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"writes_text", "takes_messages", "seeds"})

    kind: Literal["chat"]
    address: Page = Field(description="Where it is served. Not in the request key.")
    served: Text = Field(description="The model's name there. In the request key.")

    def identity(self, weights: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return what is in the key of every request."""
        return {"kind": self.kind, "served": self.served}

    def running(self, load: EngineLoad) -> ChatClient:
        """Return the engine for one load."""
        return ChatClient(self)


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

    def __init__(self, engine: ChatEngine) -> None:
        self._engine = engine

    async def __aenter__(self) -> Self:
        # No limit on an answer: a model may think for long, and what it wrote is paid for.
        limits = aiohttp.ClientTimeout(total=None, sock_connect=30)
        self._http = aiohttp.ClientSession(self._engine.address, timeout=limits)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.close()

    async def complete(self, prompt: Prompt, settings: RequestSettings, seed: int | None) -> dict[str, Any]:
        """Return the response to one request."""
        unsent = [name for name, value in settings.sampling.items() if name not in SENT and not is_neutral(name, value)]
        if unsent:
            raise UserError(f"engines of kind chat do not send {', '.join(unsent)}: leave it out of `sampling`")
        body = {name: settings.sampling[name] for name in SENT}
        body |= {"model": self._engine.served, "messages": list(prompt), "seed": seed}
        try:
            return response_of(await self._reply(body))
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ConnectionError(f"{type(error).__name__}: {error}") from error

    @retry(retry=retry_if_exception_type(Busy), stop=stop_after_attempt(TRIES), wait=seconds_to_wait, reraise=True)
    async def _reply(self, body: Mapping[str, Any]) -> Any:
        async with self._http.post("/v1/chat/completions", json=body) as reply:
            if reply.status == 429 or reply.status >= 500:
                asked = reply.headers.get("Retry-After", "")
                raise Busy(f"HTTP {reply.status}", float(asked) if asked.isdecimal() else 0.0)
            if reply.status == 400:
                message = await reply.text()
                if '"content_filter"' in message:  # some providers answer this to a prompt that they block
                    return {"choices": [{"message": {}, "finish_reason": "content_filter"}]}
                raise Rejected(reply.status, message)
            reply.raise_for_status()
            return await reply.json()

    def serving_record(self) -> dict[str, Any]:
        """Return what served."""
        return {"address": self._engine.address}


def response_of(reply: Any) -> dict[str, Any]:
    """Return what is stored of a reply."""
    try:
        choice = reply["choices"][0]
        message, finish_reason = choice["message"], choice["finish_reason"]
        text = message.get("content") or message.get("refusal") or ""
    except (LookupError, TypeError, AttributeError) as error:  # an error may come with HTTP 200
        raise ValueError(f"the server's reply has no answer: {str(reply)[:300]}") from error
    return {
        "text": text,
        "token_ids": [],
        "logprobs": None,
        "finish_reason": finish_reason,
        "stop_reason": None,
    }
