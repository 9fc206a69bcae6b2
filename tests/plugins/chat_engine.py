"""An engine that speaks messages over HTTP: somebody's server, with no tokenizer, no weights and no process of ours."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, ClassVar, Literal, Self

import aiohttp
from pydantic import Field

from refusal_eval.ask.keys import Prompt
from refusal_eval.ask.requests import RequestSettings
from refusal_eval.config.engine_entry import Capability, Engine
from refusal_eval.config.kinds import ENGINES
from refusal_eval.config.shapes import Page, Text
from refusal_eval.engines.engine_base import EngineLoad, Rejected, RunningEngine

SENT = ("max_tokens", "temperature", "top_p", "stop")


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


class ChatClient(RunningEngine):
    """Asks the server of an engine."""

    def __init__(self, engine: ChatEngine) -> None:
        self._engine = engine

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession(self._engine.address)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.close()

    async def complete(self, prompt: Prompt, settings: RequestSettings, seed: int | None) -> dict[str, Any]:
        """Return the response to one request."""
        body = {name: settings.sampling[name] for name in SENT}
        body |= {"model": self._engine.served, "messages": list(prompt), "seed": seed}
        try:
            async with self._http.post("/v1/chat/completions", json=body) as reply:
                if reply.status == 400:
                    raise Rejected(reply.status, await reply.text())
                reply.raise_for_status()
                choice = (await reply.json())["choices"][0]
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ConnectionError(str(error)) from error
        return {
            "text": choice["message"]["content"],
            "token_ids": [],
            "logprobs": None,
            "finish_reason": choice["finish_reason"],
            "stop_reason": None,
        }

    def serving_record(self) -> dict[str, Any]:
        """Return what served."""
        return {"address": self._engine.address}
