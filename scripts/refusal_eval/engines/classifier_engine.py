"""The engines behind `classifier_server.py`, in the engine environment: classifiers, and text encoders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from refusal_eval.config.engine_entry import Capability
from refusal_eval.engines.engine_base import EngineLoad
from refusal_eval.engines.local_engine import as_arguments
from refusal_eval.engines.own_server import OwnServerEngine

if TYPE_CHECKING:
    from refusal_eval.engines.engine_client import ClassificationClient, EmbeddingClient

IN_FLIGHT = 1024


class _OneStepEngine(OwnServerEngine):
    """What the engines have in common that write no text: a request is one step of the model."""

    program: ClassVar[Path] = Path(__file__).with_name("classifier_server.py")
    most_together: ClassVar[int] = 32

    def most_at_once(self, device: str | None) -> int:
        return IN_FLIGHT


class ClassifierEngine(_OneStepEngine):
    """A classifier (sequence classification). A request is a text; its response holds the logits of the classes."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"classifies", "takes_token_ids", "strict"})

    kind: Literal["transformers"]

    def client(self, socket: str, exit_code: Callable[[], int | None]) -> ClassificationClient:
        """Return the client that asks this server."""
        from refusal_eval.engines.engine_client import ClassificationClient

        return ClassificationClient(socket, exit_code)


class EncoderEngine(_OneStepEngine):
    """A text encoder. A request is one or several texts; its response holds a vector of length 1 for each of them."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"embeds", "takes_token_ids", "strict"})

    kind: Literal["encoder"]
    pooling: Literal["mean", "cls"] = Field(
        "mean",
        description="How the states of a text's tokens become one vector: their mean, or the state of the first. Use "
        "what the model was trained with (`1_Pooling/config.json` of its repository). In the request key.",
    )

    def more_identity(self) -> dict[str, Any]:
        return super().more_identity() | {"pooling": self.pooling}

    def command(self, load: EngineLoad, folder: str, socket: str) -> list[str]:
        return [*super().command(load, folder, socket), *as_arguments({"pooling": self.pooling})]

    def client(self, socket: str, exit_code: Callable[[], int | None]) -> EmbeddingClient:
        """Return the client that asks this server."""
        from refusal_eval.engines.engine_client import EmbeddingClient

        return EmbeddingClient(socket, exit_code)
