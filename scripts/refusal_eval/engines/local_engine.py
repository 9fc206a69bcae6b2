"""What all engines have that are served here: weights, a device, and a server that is a child of the job."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from refusal_eval.config.engine_entry import Engine
from refusal_eval.config.kinds import ENGINES
from refusal_eval.config.shapes import Number, ProgramPath, Whole
from refusal_eval.config.source_entries import AnyWeights
from refusal_eval.engines.engine_base import EngineLoad
from refusal_eval.study.engine_environment import engine_device, engine_python

if TYPE_CHECKING:
    from refusal_eval.engines.engine_client import EngineClient
    from refusal_eval.engines.server import Server


class LocalEngine(Engine):
    """Weights and how they are served."""

    weights: AnyWeights = Field(description="Where weights, tokenizer and chat template come from.")
    dtype: Literal["bfloat16", "float16", "float32"] = Field(
        "bfloat16", description="Number format. In the request key."
    )
    max_model_len: Whole = Field(
        ge=16,
        description="Longest prompt plus answer, in tokens. Not in the request key, except for models that "
        "vLLM computes differently above a certain length: those with LongRoPE (Phi-3, Phi-4-mini) and Llama 4.",
    )
    memory_share: Number = Field(
        0.9,
        gt=0,
        le=1,
        description="Share of a GPU's memory, or of RAM on a CPU. Only of engines of kind `vllm`.",
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="`auto` takes the device that the engine environment was built for. Not in the request key."
    )
    python: ProgramPath | None = Field(
        None, description="Python of your own engine environment. Default: .venv/engine."
    )
    start_timeout: Whole = Field(1800, ge=1, description="Seconds the server may take until it is healthy.")
    stall_timeout: Whole = Field(
        1800,
        ge=1,
        description="Seconds without a single token, the first included, while the server has requests and reports "
        "that it is healthy, after which the device counts as hanging and the load ends. Of a server that reports no "
        "counters of tokens, seconds without an answer. Responses are kept, and a rerun continues.",
    )
    trust_remote_code: bool = Field(False, description="Run code that the model repository ships. In the request key.")
    weights_gb: Number | None = Field(
        None,
        gt=0,
        description="Size of the weights that are fetched, in GB (10^9 bytes). For the estimates of "
        "`refusal-eval plan` and `refusal-eval check` only.",
    )

    parameters: Number | None = Field(
        None,
        gt=0,
        description="Parameters in billions, if the name of the weights (`x-8B`, `x-80B-A3B`) does not show them. For "
        "estimates only.",
    )
    active_parameters: Number | None = Field(
        None,
        gt=0,
        description="Parameters in billions that one token passes through in a mixture of experts. Default: all. For "
        "estimates only.",
    )

    @model_validator(mode="after")
    def _counts_all_parameters(self) -> LocalEngine:
        if self.active_parameters is not None and self.parameters is None:
            raise ValueError("`active_parameters` needs `parameters`: how many there are in all")
        return self

    def identity(self, weights: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return {"weights", "dtype"}, and where they are not at their neutral value "kind", "trust_remote_code" and
        what the kind adds.

        Changing what this returns for an existing entry makes every stored response of that engine unreachable. Fields
        at their neutral value are left out, so that a field added later leaves today's identities as they are.
        """
        found: dict[str, Any] = {"weights": dict(weights or {}), "dtype": self.dtype}
        if self.kind != ENGINES.default:
            found["kind"] = self.kind
        found |= self.more_identity()
        if self.trust_remote_code:
            found["trust_remote_code"] = True
        return found

    def more_identity(self) -> dict[str, Any]:
        """Return what this kind adds to the key of every request."""
        return {}

    def device_here(self, root: str | Path = ".") -> str | None:
        """Return `cpu` or `cuda`; `auto` follows the build of the engine environment."""
        return engine_device({"device": self.device, "python": self.python}, root)

    def python_here(self, root: str | Path = ".") -> str:
        return engine_python({"python": self.python}, root)

    def gpus(self, device: str | None) -> int:
        return 0 if device == "cpu" else 1

    def running(self, load: EngineLoad) -> Server:
        """Return the server for one load."""
        from refusal_eval.engines.server import Server

        return Server(self, load)

    @abc.abstractmethod
    def command(self, load: EngineLoad, folder: str, socket: str) -> list[str]:
        """Return the command line of the server: Python, what it runs, and from the fourth word on its options.

        Model folder and Unix socket are named as they are given here.
        """

    @abc.abstractmethod
    def client(self, socket: str, exit_code: Callable[[], int | None]) -> EngineClient:
        """Return the client that asks this server."""

    @abc.abstractmethod
    def memory_needed(self, weights: int, total: int) -> tuple[float, str]:
        """Return the memory that a CPU engine takes, in bytes, and what besides its weights makes it so much.

        Given are the bytes of the weights, and those of the machine's memory.
        """

    def server_is_ready(self, load: EngineLoad, pid: int) -> None:
        """Do what is left to do when the server is healthy; `pid` is its first process."""


def as_arguments(options: Mapping[str, Any]) -> list[str]:
    """Return options as vLLM's command line, and ours, takes them.

    A value is one word with its name: as a word of its own it could be read as another option, or as the model, which
    vLLM also takes without a name. Lists are ours alone, and their values are JSON.
    """
    arguments: list[str] = []
    for name, value in options.items():
        if isinstance(value, bool):
            arguments.append(f"--{name}" if value else f"--no-{name}")
        elif isinstance(value, list):
            arguments += [f"--{name}", *map(str, value)]
        else:
            arguments.append(f"--{name}={value}")
    return arguments
