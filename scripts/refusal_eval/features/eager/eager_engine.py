"""The engine behind `eager_server.py`, in the engine environment: language models of transformers, eager attention."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from refusal_eval.config.engine_entry import Capability
from refusal_eval.engines.engine_base import EngineLoad
from refusal_eval.engines.local_engine import as_arguments
from refusal_eval.engines.own_server import OwnServerEngine

if TYPE_CHECKING:
    from refusal_eval.engines.engine_client import CompletionClient


class EagerEngine(OwnServerEngine):
    """A language model on transformers with eager attention. Slower than vLLM, and its attention can be changed."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {
            *("writes_text", "takes_token_ids", "log_probabilities", "label_probabilities", "seeds", "strict"),
            *("prompt_log_probabilities", "steers_attention"),
        }
    )
    program: ClassVar[Path] = Path(__file__).with_name("eager_server.py")
    most_together: ClassVar[int] = 32
    times_weights: ClassVar[float] = 1.5

    kind: Literal["eager"]

    def most_at_once(self, device: str | None) -> int:
        """Return twice what shares a batch: as many again wait, so that the next one is full."""
        return 2 * self.most_together

    def command(self, load: EngineLoad, folder: str, socket: str) -> list[str]:
        options: dict[str, Any] = {} if load.seed is None else {"seed": load.seed}
        return [*super().command(load, folder, socket), *as_arguments(options)]

    def client(self, socket: str, exit_code: Callable[[], int | None]) -> CompletionClient:
        """Return the client that asks this server."""
        from refusal_eval.engines.engine_client import CompletionClient

        return CompletionClient(socket, exit_code)
