"""The command line of a vLLM server: pure functions of an engine's entry."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refusal_eval.engines.engine_client import SERVED_NAME
from refusal_eval.weights.identity import one_spelling

# Forms are enforced without white space between their parts: a small model could write blanks without end.
# Also from the first token of a model that reasons: its form holds the marks of the reasoning.
FORMS = {"backend": "xgrammar", "disable_any_whitespace": True, "enable_in_reasoning": True}
# Without its own folder among those that modules are imported from.
SERVER = ("-P", str(Path(__file__).with_name("vllm_server.py")))
# The model computes in the process of the engine core. By default a CPU engine starts one more process for it, in order
# to bind its threads to cores; that takes 7 s, and the engine core then asks for its reply all the time, on a core that
# the threads need. Where there are many cores, binding is worth more.
IN_THE_CORE = "vllm.v1.executor.uniproc_executor.UniProcExecutor"
PARALLEL_SIZES = ("tensor_parallel", "pipeline_parallel", "data_parallel")
# Of vLLM 0.32; ranks between them are served with the next larger one.
MAX_LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
# Adapters in one step of the engine; each takes memory of its largest rank in every layer. Further ones wait in RAM.
MOST_ADAPTERS_AT_ONCE = 8


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter that an engine serves: the name that requests give, its folder, its largest rank."""

    name: str
    folder: str
    rank: int


def server_command(
    python: str,
    folder: str,
    entry: Mapping[str, Any],
    device: str,
    determinism: str,
    socket: str,
    adapters: Sequence[Adapter] = (),
    load_format: str = "safetensors",
    few_cores: bool = False,
) -> list[str]:
    """Return the command line of the server.

    Everything that could change an answer behind our back is switched off: the model's generation_config.json gives no
    sampling defaults, and log-probabilities are those of the model, before temperature, penalties, top-k and top-p.
    Only the mask of a form (`structured_outputs`) comes before them.

    Args:
        python: Python of the engine environment.
        folder: model folder.
        entry: the engine's catalogue entry.
        device: cpu or cuda.
        determinism: strict, seeded or free.
        socket: path of the Unix socket.
        adapters: the LoRA adapters that are asked; without any, LoRA is not switched on.
        load_format: how the weights are read (see `load_format_of`); `load-format` of the entry's `args` wins.
        few_cores: the engine computes on few cores (see `shares_few_cores`).
    """
    options: dict[str, Any] = {
        "model": folder,
        "served-model-name": SERVED_NAME,
        "uds": socket,
        "generation-config": "vllm",
        "logprobs-mode": "raw_logprobs",
        "structured-outputs-config": json.dumps(FORMS),
        "dtype": entry["dtype"],
        "load-format": load_format,
        "max-model-len": entry["max_model_len"],
        "tensor-parallel-size": entry["tensor_parallel"],
        "pipeline-parallel-size": entry["pipeline_parallel"],
        "data-parallel-size": entry["data_parallel"],
        "gpu-memory-utilization": entry["memory_share"],
        "disable-uvicorn-access-log": True,
        "enable-log-requests": False,
        "seed": 0,
    }
    if entry["quantization"]:
        options["quantization"] = entry["quantization"]
    if entry["trust_remote_code"]:
        options["trust-remote-code"] = True
    if device == "cpu":
        # With chunked prefill, per-request seeds crash the CPU engine; whole prompts then have to fit a step.
        options |= {"enable-chunked-prefill": False, "max-num-batched-tokens": max(entry["max_model_len"], 4096)}
        # Prefixes are cached in whole blocks: with the CPU engine's own 128 tokens short prompts would never be found.
        options["block-size"] = 32
    if few_cores and all(entry[size] == 1 for size in PARALLEL_SIZES):
        options["distributed-executor-backend"] = IN_THE_CORE
    options |= adapter_options(adapters)
    if device == "cpu":
        # It starts in half the time, and answers as fast. On a GPU compiled code and CUDA graphs are the point of it.
        options["enforce-eager"] = True
    options |= dict(one_spelling(name, value) for name, value in entry["args"].items())
    if determinism == "strict" and device == "cpu":
        # What is computed together changes rounding: other requests of the batch, and on some processors also whether
        # the first part of a prompt comes from the cache, which depends on what was asked before.
        options |= {"max-num-seqs": 1, "enable-prefix-caching": False}
    return [python, *SERVER, *as_arguments(options)]


def adapter_options(adapters: Sequence[Adapter]) -> dict[str, Any]:
    """Return the options that make a server load these LoRA adapters; none for none."""
    if not adapters:
        return {}
    ordered = sorted(adapters, key=lambda adapter: adapter.name)
    # As JSON and not as name=path, which a path with `=` would break.
    modules = [json.dumps({"name": adapter.name, "path": adapter.folder}) for adapter in ordered]
    return {
        "enable-lora": True,
        "max-lora-rank": max_lora_rank(max(adapter.rank for adapter in adapters)),
        "max-loras": min(len(adapters), MOST_ADAPTERS_AT_ONCE),
        "max-cpu-loras": len(adapters),
        "lora-modules": modules,
    }


def max_lora_rank(rank: int) -> int:
    """Return the least value that vLLM allows for `--max-lora-rank` and that holds this rank.

    Raises:
        ValueError: for a rank above all of them.
    """
    for allowed in MAX_LORA_RANKS:
        if rank <= allowed:
            return allowed
    raise ValueError(f"no LoRA adapter of rank {rank} can be served; the most is {MAX_LORA_RANKS[-1]}")


def load_format_of(folder: str | Path) -> str:
    """Return vLLM's name of the format of a folder's weights: as its `auto` finds it, but never a pickle."""
    return "mistral" if any(Path(folder).glob("consolidated*.safetensors")) else "safetensors"


def as_arguments(options: Mapping[str, Any]) -> list[str]:
    """Return options as vLLM's command line takes them.

    A value is one word with its name: as a word of its own it could be read as another option, or as the model, which
    vLLM also takes without a name. Lists are ours alone (see `adapter_options`), and their values are JSON.
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
