"""An engine that speaks messages over HTTP and holds replies to a JSON schema, as judges need it: the chat engine's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import aiohttp
from chat_engine import ChatClient, ChatEngine

from refusal_eval.ask.keys import EnginePrompt
from refusal_eval.ask.requests import RequestSettings
from refusal_eval.config.engine_entry import Capability
from refusal_eval.config.kinds import ENGINES
from refusal_eval.engines.engine_base import EngineLoad

FORM = "structured_outputs"


@ENGINES.add
class FormsEngine(ChatEngine):
    """A model behind an address that takes a `response_format`."""

    capabilities: ClassVar[frozenset[Capability]] = ChatEngine.capabilities | {FORM}

    kind: Literal["forms"]

    def running(self, load: EngineLoad) -> FormsClient:
        """Return the engine for one load."""
        return FormsClient(self, "")


class FormsClient(ChatClient):
    """Asks the server of an engine."""

    async def complete(self, prompt: EnginePrompt, settings: RequestSettings, seed: int | None) -> dict[str, Any]:
        """Return the response to one request."""
        sampling = dict(settings.sampling)
        form = sampling.pop(FORM, None)
        if form is None:
            return await super().complete(prompt, settings, seed)
        # The order of the schema's keys is that of the reply's: it comes as text.
        schema = {"name": "verdict", "strict": True, "schema": json.loads(form["json"])}
        asked = {"messages": list(prompt), "seed": seed, "response_format": {"json_schema": schema}}
        asked |= {name: sampling[name] for name in ("max_tokens", "temperature")}
        try:
            async with self._http.post(f"{self._engine.address}/chat/completions", json=asked) as reply:
                return verdict_response(await reply.json())
        except aiohttp.ClientError as error:
            raise ConnectionError(str(error)) from error


def verdict_response(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is stored of a reply: the text, the refusal, the block, or that there is no answer."""
    (choice,) = reply["choices"]
    message, ended = choice["message"], choice["finish_reason"]
    found: dict[str, Any] = {"text": message.get("content") or "", "finish_reason": ended, "stop_reason": None}
    if ended == "content_filter":
        found["blocked"] = choice["blocked"]
    elif message.get("refusal"):
        found |= {"text": message["refusal"], "declared": True}
    elif ended in ("failed", "too_long"):
        found["reason"] = choice["reason"]
    return found | {"token_ids": [], "logprobs": None, "model_version": reply.get("model")}
