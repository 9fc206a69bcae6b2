"""The classifier engine: a sequence-classification model behind `classifier_server.py`, in the engine environment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from refusal_eval.engines.engine_base import Capabilities
from refusal_eval.engines.engine_client import ClassificationClient
from refusal_eval.engines.server import ServerEngine
from refusal_eval.engines.server_command import Adapter, as_arguments

PROGRAM = Path(__file__).with_name("classifier_server.py")
MOST_TOGETHER = 32  # texts in one step


class ClassifierEngine(ServerEngine):
    """A classifier's server (see `ServerEngine`). A request is a text; its response holds the logits of the classes."""

    capabilities = Capabilities(
        takes_token_ids=True, returns_log_probabilities=False, label_probabilities=True, deterministic=True
    )

    def _command(self, folder: str, socket: str, adapters: Sequence[Adapter]) -> list[str]:
        options = {
            "model": folder,
            "uds": socket,
            "dtype": self._entry["dtype"],
            "device": self._device,
            "max-model-len": self._entry["max_model_len"],
            # How many texts share a step, and how far the shorter ones are padded, changes rounding.
            "most-together": 1 if self._determinism == "strict" else MOST_TOGETHER,
        }
        if self._entry["trust_remote_code"]:
            options["trust-remote-code"] = True
        return [self._python, "-P", str(PROGRAM), *as_arguments(options)]

    def _connect(self, socket: str) -> ClassificationClient:
        return ClassificationClient(socket, self.exit_code)
