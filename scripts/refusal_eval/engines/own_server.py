"""What the engines have in common whose server is a program of ours, in the engine environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from pydantic import model_validator

from refusal_eval.engines.engine_base import EngineLoad
from refusal_eval.engines.local_engine import LocalEngine, as_arguments

# Keys of vLLM engines, with what they are when they are left out: they say nothing here.
OF_VLLM: dict[str, Any] = {
    "quantization": None,
    "tensor_parallel": 1,
    "pipeline_parallel": 1,
    "data_parallel": 1,
    "nodes": 1,
    "args": {},
}


class OwnServerEngine(LocalEngine):
    """An engine behind a program of ours, which takes a model folder and a Unix socket.

    Attributes:
        program: the file.
        most_together: how many requests share a step.
        times_weights: how many times the memory of its weights it takes on a CPU.
    """

    program: ClassVar[Path]
    most_together: ClassVar[int]
    times_weights: ClassVar[float] = 2.5

    @model_validator(mode="before")
    @classmethod
    def _nothing_of_vllm(cls, entry: Any) -> Any:
        if not isinstance(entry, dict):
            return entry
        for name, neutral in OF_VLLM.items():
            if name in entry and entry[name] != neutral:
                raise ValueError(f"`{name}` is for engines of kind `vllm`; leave it out")
        return {name: value for name, value in entry.items() if name not in OF_VLLM}

    def memory_needed(self, weights: int, total: int) -> tuple[float, str]:
        return weights * self.times_weights, ""

    def command(self, load: EngineLoad, folder: str, socket: str) -> list[str]:
        """Return the command line of the server."""
        options: dict[str, Any] = {
            "model": folder,
            "uds": socket,
            "dtype": self.dtype,
            "device": load.device,
            "max-model-len": self.max_model_len,
            # How many requests share a step, and how far the shorter ones are padded, changes rounding.
            "most-together": 1 if load.determinism == "strict" else self.most_together,
        }
        if self.trust_remote_code:
            options["trust-remote-code"] = True
        return [load.python, "-P", str(self.program), *as_arguments(options)]
