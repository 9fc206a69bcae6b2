"""The interface of an engine, and what it can do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from refusal_eval.core.errors import UserError


@dataclass(frozen=True)
class Capabilities:
    """What an engine can do; a study that needs more is refused before anything runs."""

    takes_token_ids: bool
    returns_log_probabilities: bool
    label_probabilities: bool
    deterministic: bool


@dataclass(frozen=True)
class Rejected(Exception):
    """The engine refused one request for its own sake (it would refuse it again); others are not concerned."""

    status: int
    message: str


class EngineDied(UserError):
    """The engine is gone; the message holds the last lines of its log."""


class Engine(Protocol):
    """A running engine. Entering it starts it and waits until it is healthy; leaving it stops all its processes."""

    capabilities: Capabilities

    async def complete(
        self, token_ids: Sequence[int], sampling: Mapping[str, Any], seed: int | None, adapter: str | None = None
    ) -> dict[str, Any]:
        """Return the response to one request (see `refusal_eval.engines.engine_client.response_of`).

        Args:
            token_ids: the prompt.
            sampling: every sampling parameter.
            seed: the sample's seed; None where none is sent.
            adapter: the name of the LoRA adapter that answers; None for the model without one.

        Raises:
            Rejected: if this request can never be answered.
            EngineDied: if the engine is gone.
        """
        ...

    def check(self) -> None:
        """Raise `EngineDied` if the engine is gone."""
        ...

    async def look_alive(self) -> None:
        """Raise `EngineDied` if the engine, whose processes live, has not answered for too long; ask it for that."""
        ...

    async def metrics(self) -> dict[str, float]:
        """Return the engine's own counters: requests finished, prompt tokens, generated tokens, cache hits.

        Raises:
            ConnectionError: if the engine does not tell.
        """
        ...

    def serving_record(self) -> dict[str, Any]:
        """Return what served: versions, device, parallelism, flags. Recorded with responses, not part of any key."""
        ...
