"""vLLM's worker with an intervention: hooks on decoder layers change the residual stream; for the engine environment.

What is done to the stream is in `steered_stream.py`. That environment does not have this library: this folder is the
one that `vllm_server.py` adds to what modules are imported from, and `--worker-cls` names the class. The intervention
comes in `--additional-config`, which vLLM hashes into the name of its compiled code: by an environment variable a
steered model could be given the compiled code of the unsteered one. The hooks are there before the first forward pass,
so that they are compiled and captured in CUDA graphs with the layers.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from steered_stream import MODES, InterventionError, prepare, read_intervention  # type: ignore[import-not-found]
from vllm.platforms import current_platform

if current_platform.is_cpu():
    from vllm.v1.worker.cpu_worker import CPUWorker as PlatformWorker
else:
    from vllm.v1.worker.gpu_worker import Worker as PlatformWorker

RECORD = "intervention.json"  # in the server's private temporary folder: what was installed, and what has fired
COUNTS = "intervention_gate.json"  # next to the record: tokens that passed the gate since the last request for them
COUNTING = "refusal-eval-gate"  # in the id of the request that asks; counts begin again after it
PLAIN = "refusal-eval-plain"  # in the id of a request, alone in the engine, that is answered without the intervention
STRENGTHS = ("steer_add", "steer_remove", "steer_share")  # where these are 0 the stream stays as it is
PASSES = ("prefill", "decode")  # steps that are computed in different ways: on CUDA, decoding is a replayed graph
# Decoder layers, by module and class, whose forward pass was read: they return (x, residual), and the stream is the sum
# of both. Others return the whole stream with a residual that is old, so that a sum would be another stream.
SUMMED = frozenset(
    {
        "deepseek_v2.DeepseekV2DecoderLayer",
        "gemma.GemmaDecoderLayer",
        "gemma2.Gemma2DecoderLayer",
        "gemma3.Gemma3DecoderLayer",
        "glm4.Glm4DecoderLayer",
        "glm4_moe.Glm4MoeDecoderLayer",
        "gpt_oss.TransformerBlock",
        "internlm2.InternLMDecoderLayer",
        "llama.LlamaDecoderLayer",
        "mistral.MistralDecoderLayer",
        "mixtral.MixtralDecoderLayer",
        "qwen2.Qwen2DecoderLayer",
        "qwen2_moe.Qwen2MoeDecoderLayer",
        "qwen3.Qwen3DecoderLayer",
        "qwen3_moe.Qwen3MoeDecoderLayer",
        "qwen3_next.Qwen3NextDecoderLayer",
    }
)


def decoder_layers(model: Any, spec: Mapping[str, Any], config: Any) -> Any:
    """Return the decoder layers of a model, of the text part where it has others.

    Raises:
        InterventionError: if they cannot be identified, or are not those that the direction was fitted on.
    """
    for key, wanted in (("num_hidden_layers", spec["model_layers"]), ("hidden_size", spec["width"])):
        if (has := getattr(config, key, None)) != wanted:
            raise InterventionError(f"the model's {key} is {has}, and the direction is of a model with {wanted}")
    text = model.get_language_model() if hasattr(model, "get_language_model") else model
    lists = {name: part for name, part in text.named_modules() if isinstance(part, torch.nn.ModuleList)}
    long = [name for name, part in lists.items() if len(part) == spec["model_layers"]]
    found = [name for name in long if not any(name.startswith(f"{other}.") for other in long)]
    if len(found) != 1:
        why = ", ".join(found) or "none"
        raise InterventionError(f"the model's {spec['model_layers']} decoder layers cannot be identified: found {why}")
    if any(type(layer).__name__ == "PPMissingLayer" for layer in lists[found[0]]):
        raise InterventionError("with pipeline parallelism not all layers are here; interventions need all of them")
    return lists[found[0]]


def class_of(layer: Any) -> str:
    """Return the module and class of a layer, as `SUMMED` names them."""
    return f"{type(layer).__module__.rpartition('.')[2]}.{type(layer).__name__}"


def hook_of(mode: str, gate: float | None, layer_class: str) -> Callable[[Any, Any, Any], Any]:
    """Return a forward hook that changes the stream after a layer, and counts.

    Most layers of vLLM return (x, residual) and leave the sum to the next layer: the stream is x + residual. Some
    return it as one tensor.

    Args:
        mode: one of `MODES`.
        gate: of `gated` and `constellation`.
        layer_class: the layer's, see `class_of`.
    """
    change, summed = MODES[mode], layer_class in SUMMED
    unread = (
        f"decoder layers of class `{layer_class}` return a residual beside their output, and whether the stream is the "
        "sum of both was never checked"
    )

    def hook(layer: Any, inputs: Any, output: Any) -> Any:
        layer.steer_fired.add_(1)
        if not isinstance(output, tuple):
            h = output.float()
            return (h + change(layer, h, gate)).to(output.dtype)
        if len(output) != 2 or not (output[1] is None or output[1].shape == output[0].shape):
            raise InterventionError("a decoder layer returns neither the residual stream nor (x, residual)")
        x, residual = output
        if residual is not None and not summed:
            raise InterventionError(unread)
        h = x.float() if residual is None else x.float() + residual.float()
        return (x.float() + change(layer, h, gate)).to(x.dtype), residual

    return hook


def install(model: Any, spec: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], config: Any) -> list[Any]:
    """Put hooks and buffers on the asked layers; return these layers.

    Raises:
        InterventionError: if the model is not the one that the direction was fitted on.
    """
    layers, chosen = decoder_layers(model, spec, config), []
    for index in spec["layers"]:
        layer = layers[index]
        prepare(layer, index, tensors)
        layer.register_forward_hook(hook_of(spec["mode"], spec["gate"], class_of(layer)))
        chosen.append(layer)
    return chosen


def pass_of(scheduler_output: Any) -> str | None:
    """Return which of `PASSES` a step is; None if it is neither alone."""
    if scheduler_output.scheduled_new_reqs:
        return "prefill"
    tokens = scheduler_output.num_scheduled_tokens.values()
    return "decode" if tokens and all(number == 1 for number in tokens) else None


def turned_off(layers: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Let hooks change nothing; return the buffers that are now 0, each with a copy of what it held.

    In place, so that it holds in compiled code and in graphs.
    """
    found = [getattr(layer, name, None) for layer in layers for name in STRENGTHS]
    kept = [(buffer, buffer.clone()) for buffer in found if buffer is not None]
    for buffer, _ in kept:
        buffer.zero_()
    return kept


def asks_for_counts(scheduler_output: Any) -> bool:
    """Tell whether a new request of this step asks for the gate's counts."""
    return any(COUNTING in request.req_id for request in scheduler_output.scheduled_new_reqs)


def gate_counts(layers: Sequence[Any], numbers: Sequence[int]) -> dict[str, Any]:
    """Return how many tokens were looked at, and of each layer how many passed; begin to count again.

    Args:
        layers: the steered layers; each has seen the same tokens.
        numbers: their numbers in the model.
    """
    passed = {str(number): int(layer.steer_passed) for number, layer in zip(numbers, layers, strict=True)}
    tokens = int(layers[0].steer_tokens)
    for layer in layers:
        layer.steer_passed.zero_()
        layer.steer_tokens.zero_()
    return {"tokens": tokens, "passed": passed}


def refusal_in(error: BaseException | None, layers: Sequence[Any]) -> str | None:
    """Return what an error, or what caused it, refuses on the steered layers; None for one that refuses nothing."""
    while error is not None:
        if isinstance(error, InterventionError):
            return str(error)
        if InterventionError.__name__ in str(error):  # the compiler says so of a hook that raises while it is traced
            classes = " or ".join(f"`{name}`" for name in sorted({class_of(layer) for layer in layers}))
            return f"what decoder layers of class {classes} return was never checked; the engine's log has more"
        error = error.__cause__ or error.__context__
    return None


class SteeredWorker(PlatformWorker):  # type: ignore[misc]
    """vLLM's worker of this platform, with the intervention that `--additional-config` names."""

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """Load the model and install the hooks.

        Raises:
            InterventionError: if there is no intervention, or not the right one for this model.
        """
        super().load_model(*args, **kwargs)
        self.off: list[tuple[Any, Any]] = []  # see `turned_off`
        asked, config = self.vllm_config.additional_config["intervention"], self.vllm_config.model_config
        self.steered: list[Any] = []
        with self._refusals():
            self.spec, tensors = read_intervention(asked["file"], asked["sha256"])
            self.steered = install(self.get_model(), self.spec, tensors, config.hf_text_config)
        self._forget()

    def determine_available_memory(self) -> int:
        """Run the first forward pass, in which hooks meet what layers return."""
        with self._refusals():
            return super().determine_available_memory()  # type: ignore[no-any-return]

    def compile_or_warm_up_model(self) -> Any:
        """Warm up, and forget what fired: on CUDA, these are steps too, but before graphs are captured."""
        with self._refusals():
            times = super().compile_or_warm_up_model()
        self._forget()
        return times

    def execute_model(self, scheduler_output: Any) -> Any:
        """Compute a step; if a request of it asks, write what passed the gate before it, and do not count it.

        A new request that asks for it is answered without the intervention, until the next one begins.

        Raises:
            InterventionError: see `_checked_step`.
        """
        if new := scheduler_output.scheduled_new_reqs:
            plain = all(PLAIN in request.req_id for request in new)
            if self.off and not plain:
                for buffer, value in self.off:
                    buffer.copy_(value)
                self.off = []
            elif plain and not self.off:
                self.off = turned_off(self.steered)
        if self.spec["gate"] is None or not asks_for_counts(scheduler_output):
            return self._checked_step(scheduler_output)
        counts = gate_counts(self.steered, self.spec["layers"])
        output = self._checked_step(scheduler_output)
        gate_counts(self.steered, self.spec["layers"])
        self._write(COUNTS, counts)
        return output

    def _checked_step(self, scheduler_output: Any) -> Any:
        """Compute a step; the first prefill and the first decode step show whether the hooks are in what is computed.

        Raises:
            InterventionError: if one did not fire. No answer has left the worker then.
        """
        kind = pass_of(scheduler_output)
        with self._refusals():
            if kind is None or kind in self.seen:
                return super().execute_model(scheduler_output)
            before = [int(layer.steer_fired) for layer in self.steered]
            output = super().execute_model(scheduler_output)
            after = [int(layer.steer_fired) for layer in self.steered]
            pairs = zip(self.spec["layers"], before, after, strict=True)
            silent = [at for at, old, new in pairs if new <= old]
            if silent:
                raise InterventionError(f"in a {kind} step the hooks of layers {silent} did not fire")
        self.seen.add(kind)
        self._record_state()
        return output

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """Record refusals raised inside the block; in the log they lie far above the last lines."""
        try:
            yield
        except Exception as error:
            if why := refusal_in(error, self.steered):
                self._record({"refused": why})
            raise

    def _forget(self) -> None:
        self.seen: set[str] = set()
        self._record_state()

    def _record_state(self) -> None:
        """Record what is installed; layers count as fired after both kinds of steps."""
        sha256, layers = self.vllm_config.additional_config["intervention"]["sha256"], self.spec["layers"]
        fired = layers if self.seen.issuperset(PASSES) else []
        self._record({"sha256": sha256, "mode": self.spec["mode"], "layers": layers, "fired": fired})

    def _record(self, record: Mapping[str, Any]) -> None:
        print(f"intervention {json.dumps(record)}", flush=True)
        self._write(RECORD, record)

    def _write(self, name: str, record: Mapping[str, Any]) -> None:
        if self.rank == 0:
            path = Path(tempfile.gettempdir(), name)
            temporary = path.with_suffix(f".{os.getpid()}")  # copies of the model are written about side by side
            temporary.write_text(json.dumps(record), encoding="utf-8")
            os.replace(temporary, path)
