"""A running engine: the inputs of one load, and the requests it takes."""

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from refusal_eval.ask.keys import EnginePrompt
from refusal_eval.ask.requests import RequestSettings
from refusal_eval.core.errors import UserError
from refusal_eval.engines.loaded_change import LoadedChange

SERVED_NAME = "model"


@dataclass(frozen=True)
class EngineLoad:
    """The inputs of one load of an engine."""

    log: Path  # file for the server's output
    determinism: str  # strict, seeded or free
    folder: str = ""  # model folder (config, tokenizer, safetensors); empty for an engine without weights
    python: str = ""  # Python of the engine environment; empty for an engine that runs elsewhere
    device: str | None = None  # cpu or cuda; None for an engine that runs elsewhere
    gpus: int = 0  # how many it takes, on all its nodes together; those of this machine are leased
    # the most that the start may take; None leaves it to the entry's `start_timeout`
    start_seconds: float | None = None
    changes: Sequence[LoadedChange] = ()  # what it serves of its models' changes
    seed: int | None = 0  # what it draws the samples of requests without a seed from; None leaves it out of a record
    in_flight: int = 1  # the most requests that it will have at one time
    study: Mapping[str, Any] = field(
        default_factory=dict
    )  # what the study says that it reads (`Engine.reads_of_study`)


@dataclass(eq=False)  # not frozen: context managers set the traceback of what passes through them
class Rejected(Exception):
    """The engine refused one request for its own sake (it would refuse it again); others are not concerned."""

    status: int
    message: str


class EngineDied(UserError):
    """The engine is gone; the message holds the last lines of its log."""


class RunningEngine(abc.ABC):
    """A running engine. Entering it starts it and waits until it is healthy; leaving it stops all its processes.

    This base class has no process of ours that may die, and no counters.
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    @abc.abstractmethod
    async def complete(self, prompt: EnginePrompt, settings: RequestSettings, seed: int | None) -> dict[str, Any]:
        """Return the response to one request (see `refusal_eval.ask.store.checked_response`).

        Without token ids or log-probabilities `token_ids` is empty and `logprobs` None.

        Args:
            prompt: token ids or messages, as the kind of engine takes them.
            settings: shared by the requests of its file: sampling, and the changes of the model.
            seed: the sample's seed; None if none is sent.

        Raises:
            Rejected: if this request can never be answered.
            EngineDied: if the engine is gone.
            ConnectionError: if it fails for a reason that may pass.
            ValueError: if the reply does not match the request.
        """

    @abc.abstractmethod
    def serving_record(self) -> dict[str, Any]:
        """Return what served: versions, device, parallelism, flags. Recorded with responses, not part of any key."""

    def check(self) -> None:  # noqa: B027 - nothing to do is right for most
        """Raise `EngineDied` if the engine is gone."""

    async def check_health(self) -> None:  # noqa: B027
        """Raise `EngineDied` if the engine, whose processes live, has not answered for too long; ask it for that."""

    def note(self) -> str:
        """Return what people should know of it now and then, such as what it has spent; or nothing."""
        return ""

    async def metrics(self) -> dict[str, float]:
        """Return the engine's own counters: requests finished, prompt tokens, generated tokens, cache hits; or nothing.

        Raises:
            ConnectionError: if an engine that counts does not tell.
        """
        return {}

    async def report(self, change: LoadedChange) -> dict[str, Any]:
        """Return what the engine counted of a change of its models; nothing where it counts nothing.

        Raises:
            ConnectionError: if the engine does not say.
        """
        return {}
