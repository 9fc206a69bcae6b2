"""The engines behind `classifier_server.py`, in the engine environment: classifiers, and text encoders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from refusal_eval.config.engine_entry import Capability
from refusal_eval.engines.engine_base import EngineLoad
from refusal_eval.engines.local_engine import LocalEngine, as_arguments

if TYPE_CHECKING:
    from refusal_eval.engines.engine_client import ClassificationClient, EmbeddingClient

PROGRAM = Path(__file__).with_name("classifier_server.py")
MOST_TOGETHER = 32  # texts in one step
IN_FLIGHT = 1024
# Keys of vLLM engines, with what they are when they are left out: they say nothing here.
OF_VLLM: dict[str, Any] = {
    "quantization": None,
    "tensor_parallel": 1,
    "pipeline_parallel": 1,
    "data_parallel": 1,
    "nodes": 1,
    "args": {},
}


class _OneStepEngine(LocalEngine):
    """What the engines have in common that write no text: a request is one step of the model."""

    @model_validator(mode="before")
    @classmethod
    def _nothing_of_vllm(cls, entry: Any) -> Any:
        if not isinstance(entry, dict):
            return entry
        for name, neutral in OF_VLLM.items():
            if name in entry and entry[name] != neutral:
                raise ValueError(f"`{name}` is for engines of kind `vllm`; leave it out")
        return {name: value for name, value in entry.items() if name not in OF_VLLM}

    def most_at_once(self, device: str | None) -> int:
        return IN_FLIGHT

    def memory_needed(self, weights: int, total: int) -> tuple[float, str]:
        return weights * 2.5, ""

    def command(self, load: EngineLoad, folder: str, socket: str) -> list[str]:
        """Return the command line of the server."""
        options: dict[str, Any] = {
            "model": folder,
            "uds": socket,
            "dtype": self.dtype,
            "device": load.device,
            "max-model-len": self.max_model_len,
            # How many texts share a step, and how far the shorter ones are padded, changes rounding.
            "most-together": 1 if load.determinism == "strict" else MOST_TOGETHER,
        }
        if self.trust_remote_code:
            options["trust-remote-code"] = True
        return [load.python, "-P", str(PROGRAM), *as_arguments(options)]


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
