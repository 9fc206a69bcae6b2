"""An engine that stands for another party's server: it blocks some prompts and answers, always the same ones."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from refusal_eval.ask.keys import EnginePrompt
from refusal_eval.ask.requests import RequestSettings
from refusal_eval.config.engine_entry import Capability, Engine
from refusal_eval.config.kinds import ENGINES
from refusal_eval.config.shapes import Text
from refusal_eval.engines.engine_base import EngineLoad, RunningEngine

REFUSAL, HELP = "I cannot help with that.", "Sure, here it is."
NOBODY = dict.fromkeys(("by", "stage", "category", "severity", "partial", "code"))


def said(text: str, finish_reason: str = "stop", **more: Any) -> dict[str, Any]:
    """Return a response of a server without tokens."""
    start = {"text": text, "token_ids": [], "logprobs": None, "finish_reason": finish_reason, "stop_reason": None}
    return start | more


def blocked(**block: Any) -> dict[str, Any]:
    """Return a response that was blocked."""
    return said("", "content_filter", blocked=NOBODY | block)


# What it says, one as often as the other.
REPLIES: list[dict[str, Any]] = [
    *(said(HELP) for _ in range(5)),
    *(said(REFUSAL) for _ in range(3)),
    said(REFUSAL, declared=True),
    said(HELP, declared=True),
    said(HELP, marks=["unfiltered"]),
    blocked(by="classifier", category="bio"),
    blocked(by="policy", stage="prompt"),
    blocked(by="filter", stage="prompt", category="violence", severity="high"),
    blocked(by="filter", stage="answer", partial="Sure, "),
    blocked(by="gateway", stage="prompt"),
    blocked(by="guardrail", stage="prompt"),
    said("", "content_filter"),
    said("", "failed", reason="recitation"),
]
PLAIN = REPLIES[:8]


@ENGINES.add
class BlockingEngine(Engine):
    """A server that blocks, or with `tame` one that could."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"writes_text", "takes_messages", "seeds", "may_block"})

    kind: Literal["blocking"]
    served: Text
    tame: bool = False

    def identity(self, weights: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return what is in the key of every request."""
        return {"kind": self.kind, "served": self.served}

    def running(self, load: EngineLoad) -> Blocking:
        """Return the engine for one load."""
        return Blocking(self)


class Blocking(RunningEngine):
    """Answers out of `REPLIES`."""

    def __init__(self, engine: BlockingEngine) -> None:
        self._engine = engine

    async def complete(self, prompt: EnginePrompt, settings: RequestSettings, seed: int | None) -> dict[str, Any]:
        """Return the response to one request."""
        digest = hashlib.sha256(f"{self._engine.served} {list(prompt)} {seed}".encode()).digest()
        replies = PLAIN if self._engine.tame else REPLIES
        return dict(replies[int.from_bytes(digest[:4], "big") % len(replies)])

    def serving_record(self) -> dict[str, Any]:
        """Return what served."""
        return {"served": self._engine.served}
