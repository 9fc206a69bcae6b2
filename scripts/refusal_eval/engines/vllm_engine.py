"""The vLLM engine: language models, asked for completions of token ids."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from refusal_eval.config.engine_entry import Capability
from refusal_eval.config.shapes import Whole
from refusal_eval.engines.engine_base import SERVED_NAME, EngineLoad
from refusal_eval.engines.local_engine import LocalEngine, as_arguments
from refusal_eval.engines.vllm_arguments import (
    ArgumentValue,
    FreeArgument,
    identity_args,
    no_argument,
    one_spelling,
    only_serving,
    refuse_unusable,
)
from refusal_eval.study.engine_environment import shares_few_cores, usable_cores

if TYPE_CHECKING:
    from refusal_eval.engines.engine_client import CompletionClient

LOWEST_PRIORITY = 19
# Of config.json: the length before LongRoPE. And the length above which vLLM tunes the attention of Llama 4.
ORIGINAL_LENGTH, LLAMA_4_TUNED_ABOVE = "original_max_position_embeddings", 32768
# `max-num-seqs`: what vLLM takes by itself for a server, on the largest cards, and on a CPU.
SEQUENCES = {"cuda": 1024, "cpu": 128}
LEAST_IN_FLIGHT = 1024
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
# With an intervention: caches that outlive a load know nothing of it, and what drafts tokens has layers of its own.
UNTRIED_ARGS = (
    *("speculative-config", "spec-method", "spec-model", "spec-tokens"),
    *("kv-transfer-config", "kv-offloading-backend", "quantization-config", "model-impl"),
)


class VllmEngine(LocalEngine):
    """A language model served by vLLM."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {
            *("writes_text", "takes_token_ids", "log_probabilities", "label_probabilities"),
            *("prompt_log_probabilities", "structured_outputs", "model_changes", "seeds", "strict"),
        }
    )

    kind: Literal["vllm"] = Field(
        "vllm",
        description="What serves the weights: `vllm` language models, `transformers` classifiers (sequence "
        "classification), for judges of kind `classifier`, `encoder` text encoders, for judges of kind `trained`. "
        "More kinds are below.",
    )
    quantization: Annotated[str, AfterValidator(no_argument)] | None = Field(
        None, description="vLLM quantization method. In the request key."
    )
    tensor_parallel: Whole = Field(1, ge=1, description="GPUs that share each layer. Not in the request key.")
    pipeline_parallel: Whole = Field(1, ge=1, description="GPUs that share the layers in turn. Not in the request key.")
    data_parallel: Whole = Field(
        1,
        ge=1,
        description="Copies of the model behind one server. Not in the request key. Prefer the study's `shards`: each "
        "shard has its own server, while one server for all copies is the slowest part. With more than one copy, "
        "vLLM's processes listen on all addresses of the machine: use it only behind a firewall.",
    )
    nodes: Whole = Field(
        1,
        ge=1,
        le=64,
        description="Machines that share one engine, each with an equal part of its GPUs (tensor x pipeline x data "
        "parallel, in all): one Slurm job on that many nodes, with the server on the first and vLLM's processes "
        "(`--nnodes`, `--headless`) on the others. They communicate over the nodes' network addresses, and anyone who "
        "reaches the nodes reaches their ports: use it only behind a firewall. Written from vLLM 0.32's source and not "
        "yet tested on such hardware, nor is what Slurm's plugin submits for it (`sbatch --gpus=16 --nodes=2`). Not in "
        "the request key.",
    )
    args: dict[FreeArgument, ArgumentValue] = Field(
        {},
        description="Further vLLM arguments by long name, without leading dashes; `false` becomes `--no-...`. "
        "Those that only concern serving stay out of the request key, `max-num-seqs` and `max-num-batched-tokens` "
        "among them. `enforce-eager` is `true` by default on a CPU engine.",
    )

    @field_validator("args")
    @classmethod
    def _args_can_be_used(cls, args: dict[str, Any]) -> dict[str, Any]:
        refuse_unusable(args)
        return args

    @model_validator(mode="after")
    def _nodes_share_the_gpus(self) -> VllmEngine:
        if (gpus := self.gpus("cuda")) % self.nodes:
            raise ValueError(
                f"{gpus} GPUs (tensor x pipeline x data parallel) cannot be shared equally by {self.nodes} `nodes`"
            )
        if self.nodes > 1 and self.device == "cpu":
            raise ValueError("`nodes` is for GPU engines; leave it out with `device: cpu`")
        return self

    def more_identity(self) -> dict[str, Any]:
        """Return quantization and the arguments that do not only concern serving, where they are set.

        Raises:
            UserError: if one argument is given twice under two spellings.
        """
        found: dict[str, Any] = {} if self.quantization is None else {"quantization": self.quantization}
        args = identity_args(self.args)
        return found | ({"args": args} if args else {})

    def identity_by_length(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return what vLLM 0.32 computes otherwise in every request because of `max_model_len`."""
        found: dict[str, Any] = {}
        if any(self.max_model_len > length for length in _long_rope_above(config)):
            found["long_rope"] = True
        architectures = [str(name) for name in config.get("architectures") or ()]
        if self.max_model_len > LLAMA_4_TUNED_ABOVE and any(name.startswith("Llama4") for name in architectures):
            found["attn_temperature_tuning"] = True
        return found

    def gpus(self, device: str | None) -> int:
        return 0 if device == "cpu" else self.tensor_parallel * self.pipeline_parallel * self.data_parallel

    def nodes_used(self) -> int:
        return self.nodes

    def untried_with_interventions(self) -> Iterator[str]:
        """Yield quantized weights, float16, several machines, and what changes where and how layers compute."""
        untried = "interventions were never tried"
        if self.quantization is not None:
            yield f"its engine quantizes (`quantization: {self.quantization}`), and {untried} on quantized weights"
        if (self.pipeline_parallel or 1) > 1:
            yield f"its engine has `pipeline_parallel: {self.pipeline_parallel}`, and {untried} on layers in parts"
        if self.nodes > 1:
            yield f"its engine has `nodes: {self.nodes}`, and {untried} on several machines"
        if self.dtype == "float16":
            yield "its engine has `dtype: float16`, in which a steered stream can overflow unnoticed; take `bfloat16`"
        for name, value in (one_spelling(*arg) for arg in (self.args or {}).items()):
            if name.split(".")[0] in UNTRIED_ARGS or (name == "load-format" and not only_serving(name, value)):
                yield f"its engine has `{name}` in `args`, and {untried} with that"

    def strict_by_kernels(self) -> bool:
        return self.device != "cpu"

    def most_at_once(self, device: str | None) -> int:
        """Return twice what the engine batches, and at least 1024.

        As many again wait at the engine while it works, so that none of its places is empty while an answer travels.
        """
        given = dict(one_spelling(name, value) for name, value in self.args.items())
        batched = int(given.get("max-num-seqs", SEQUENCES[device or "cuda"])) * self.data_parallel
        return max(LEAST_IN_FLIGHT, 2 * batched)

    def memory_needed(self, weights: int, total: int) -> tuple[float, str]:
        """Return its share of the memory, which it takes at once, or a little more than its weights."""
        why = f"memory_share {self.memory_share} of {total / 2**30:.1f} GiB; "
        return max(self.memory_share * total, weights * 1.2), why

    def command(self, load: EngineLoad, folder: str, socket: str) -> list[str]:
        """Return the command line of the server.

        Everything that could change an answer behind our back is switched off: the model's generation_config.json gives
        no sampling defaults, and log-probabilities are those of the model, before temperature, penalties, top-k and
        top-p. Only the mask of a form (`structured_outputs`) comes before them.
        """
        options: dict[str, Any] = {
            "model": folder,
            "served-model-name": SERVED_NAME,
            "uds": socket,
            "generation-config": "vllm",
            "logprobs-mode": "raw_logprobs",
            "structured-outputs-config": json.dumps(FORMS),
            "dtype": self.dtype,
            "load-format": load_format_of(load.folder),
            "max-model-len": self.max_model_len,
            "tensor-parallel-size": self.tensor_parallel,
            "pipeline-parallel-size": self.pipeline_parallel,
            "data-parallel-size": self.data_parallel,
            "gpu-memory-utilization": self.memory_share,
            "disable-uvicorn-access-log": True,
            "enable-log-requests": False,
        }
        if load.seed is not None:
            options["seed"] = load.seed
        if self.quantization:
            options["quantization"] = self.quantization
        if self.trust_remote_code:
            options["trust-remote-code"] = True
        if load.device == "cpu":
            # With chunked prefill, per-request seeds crash the CPU engine; whole prompts then have to fit a step.
            options |= {"enable-chunked-prefill": False, "max-num-batched-tokens": max(self.max_model_len, 4096)}
            # Prefixes are cached in whole blocks: in the CPU engine's own of 128 tokens no short prompt would be found.
            options["block-size"] = 32
        if shares_few_cores(load.device) and all(getattr(self, size) == 1 for size in PARALLEL_SIZES):
            options["distributed-executor-backend"] = IN_THE_CORE
        for change in load.changes:
            options |= change.options()
        if load.device == "cpu":
            # It starts in half the time, and answers as fast. On a GPU, compiled code and CUDA graphs are its point.
            options["enforce-eager"] = True
        own = dict(one_spelling(name, value) for name, value in self.args.items())
        options |= own
        for change in load.changes:
            options |= change.last_options(load.device, own)
        if load.determinism == "strict" and load.device == "cpu":
            # What is computed together changes rounding: other requests of the batch, and on some processors also
            # whether the first part of a prompt comes from the cache, which depends on what was asked before.
            options |= {"max-num-seqs": 1, "enable-prefix-caching": False}
        return [load.python, *SERVER, *as_arguments(options)]

    def client(self, socket: str, exit_code: Callable[[], int | None]) -> CompletionClient:
        """Return the client that asks this server."""
        from refusal_eval.engines.engine_client import CompletionClient

        return CompletionClient(socket, exit_code)

    def server_is_ready(self, load: EngineLoad, pid: int) -> None:
        """Give the API server the lowest priority where it shares few cores with the engine core.

        A thread that computes waits for the slowest, so that what the API server takes of one core is lost on all. With
        the lowest priority it runs while the engine core samples; and when it has fallen behind, the engine runs out of
        requests and leaves it the cores. On a single core nothing waits for a thread, and nothing would be left to it:
        its answers would lie unread, and be lost with the load, until the engine core has no more requests.
        """
        if shares_few_cores(load.device) and usable_cores() > 1:
            os.setpriority(os.PRIO_PROCESS, pid, LOWEST_PRIORITY)


def _long_rope_above(config: Mapping[str, Any]) -> Iterator[int]:
    """Yield the `max_model_len` above which vLLM takes LongRoPE's factors of long texts, for short ones too."""
    for part in (config, config.get("text_config") or {}):
        for rope in (part.get("rope_parameters"), part.get("rope_scaling")):
            if not isinstance(rope, Mapping):
                continue
            original = part.get(ORIGINAL_LENGTH, rope.get(ORIGINAL_LENGTH))
            if rope.get("rope_type", rope.get("type")) in ("longrope", "su") and isinstance(original, int):
                yield original


def load_format_of(folder: str | Path) -> str:
    """Return vLLM's name for the format of a folder's weights: what `auto` would find, but never a pickle."""
    return "mistral" if any(Path(folder).glob("consolidated*.safetensors")) else "safetensors"
