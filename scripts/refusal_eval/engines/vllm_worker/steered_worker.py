"""vLLM's worker with an intervention: hooks on decoder layers change the residual stream; for the engine environment.

A module of its own: that environment does not have this library. Its folder is the one that `vllm_server.py` adds to
what modules are imported from, and `--worker-cls` names the class. The intervention comes in `--additional-config`,
which vLLM hashes into the name of its compiled code: by an environment variable a steered model could be given the
compiled code of the unsteered one. The hooks are there before the first forward pass, so that they are compiled and
captured in CUDA graphs with the layers.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from vllm.platforms import current_platform

if current_platform.is_cpu():
    from vllm.v1.worker.cpu_worker import CPUWorker as PlatformWorker
else:
    from vllm.v1.worker.gpu_worker import Worker as PlatformWorker

VERSION = 1  # of the compiled file and of what the modes mean
HASHED = ("gate", "layers", "mode", "version")
RECORD = "intervention.json"  # in the server's private temporary folder: what was installed, and what has fired


class InterventionError(Exception):
    """The intervention cannot be made as it was asked for; the server stops, and no answer comes of it."""


def read_intervention(path: str, sha256: str) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Return what a compiled file says of itself, and its tensors.

    Raises:
        InterventionError: if its content is not what was asked for.
    """
    with safe_open(path, "pt") as file:
        spec = json.loads(file.metadata()["refusal_eval"])
        tensors = {name: file.get_tensor(name) for name in sorted(file.keys())}
    text = json.dumps({key: spec[key] for key in HASHED}, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode())
    for tensor in tensors.values():
        digest.update(tensor.contiguous().numpy().tobytes())
    if digest.hexdigest() != sha256:
        raise InterventionError(f"{path} holds intervention {digest.hexdigest()}, and {sha256} was asked for")
    if spec["version"] != VERSION:
        raise InterventionError(f"{path} is of version {spec['version']}, and this worker knows version {VERSION}")
    return spec, tensors


def decoder_layers(model: Any, spec: Mapping[str, Any], config: Any) -> Any:
    """Return the decoder layers of a model, of the text part where it has others.

    Raises:
        InterventionError: if they cannot be told, or are not those that the direction was fitted on.
    """
    for key, wanted in (("num_hidden_layers", spec["model_layers"]), ("hidden_size", spec["width"])):
        if (has := getattr(config, key, None)) != wanted:
            raise InterventionError(f"the model's {key} is {has}, and the direction is of a model with {wanted}")
    text = model.get_language_model() if hasattr(model, "get_language_model") else model
    lists = {name: part for name, part in text.named_modules() if isinstance(part, torch.nn.ModuleList)}
    long = [name for name, part in lists.items() if len(part) == spec["model_layers"]]
    found = [name for name in long if not any(name.startswith(f"{other}.") for other in long)]
    if len(found) != 1:
        told = ", ".join(found) or "none"
        raise InterventionError(f"the model's {spec['model_layers']} decoder layers cannot be told: found {told}")
    if any(type(layer).__name__ == "PPMissingLayer" for layer in lists[found[0]]):
        raise InterventionError("with pipeline parallelism not all layers are here; interventions need all of them")
    return lists[found[0]]


# ---------------------------------------------------------------- modes: what is added to the stream h, float32


def add(layer: Any, h: torch.Tensor, gate: float | None) -> torch.Tensor:
    """h + s v."""
    return layer.steer_add.expand_as(h)


def ablate(layer: Any, h: torch.Tensor, gate: float | None) -> torch.Tensor:
    """h - s <h - o, u> u."""
    return -((h @ layer.steer_unit - layer.steer_offset)[..., None] * layer.steer_remove)


def gated(layer: Any, h: torch.Tensor, gate: float | None) -> torch.Tensor:
    """h + s v where cos(h, v) > gate, for each token."""
    cosine = h @ layer.steer_unit / h.norm(dim=-1).clamp_min(1e-12)
    return torch.where((cosine > gate)[..., None], layer.steer_add, 0.0)


def pull(layer: Any, h: torch.Tensor, gate: float | None) -> torch.Tensor:
    """h + s (mu - h)."""
    return layer.steer_share * (layer.steer_target - h)


MODES: dict[str, Callable[[Any, torch.Tensor, float | None], torch.Tensor]] = {
    "add": add,
    "ablate": ablate,
    "gated": gated,
    "pull": pull,
}


def hook_of(mode: str, gate: float | None) -> Callable[[Any, Any, Any], Any]:
    """Return a forward hook that changes the stream after a layer, and counts.

    vLLM's layers return (x, residual) and leave the sum to the next layer: the stream is x + residual. Some return it
    as one tensor.
    """
    change = MODES[mode]

    def hook(layer: Any, inputs: Any, output: Any) -> Any:
        layer.steer_fired.add_(1)
        if not isinstance(output, tuple):
            h = output.float()
            return (h + change(layer, h, gate)).to(output.dtype)
        if len(output) != 2 or not (output[1] is None or output[1].shape == output[0].shape):
            raise InterventionError("a decoder layer returns neither the residual stream nor (x, residual)")
        x, residual = output
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
        device = next(layer.parameters()).device
        for name, tensor in tensors.items():
            number, _, part = name.partition(".")
            if int(number) == index:
                layer.register_buffer(f"steer_{part}", tensor.to(device, torch.float32), persistent=False)
        layer.register_buffer("steer_fired", torch.zeros(1, dtype=torch.int64, device=device), persistent=False)
        layer.register_forward_hook(hook_of(spec["mode"], spec["gate"]))
        chosen.append(layer)
    return chosen


class SteeredWorker(PlatformWorker):  # type: ignore[misc]
    """vLLM's worker of this platform, with the intervention that `--additional-config` names."""

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """Load the model and install the hooks.

        Raises:
            InterventionError: if there is no intervention, or not the right one for this model.
        """
        super().load_model(*args, **kwargs)
        asked, config = self.vllm_config.additional_config["intervention"], self.vllm_config.model_config
        try:
            self.spec, tensors = read_intervention(asked["file"], asked["sha256"])
            self.steered = install(self.get_model(), self.spec, tensors, config.hf_text_config)
        except InterventionError as error:
            self._record({"refused": str(error)})  # what the log says of it stands far above its last lines
            raise
        self.fired: list[int] = []
        self._record_state()

    def execute_model(self, scheduler_output: Any) -> Any:
        """Compute a step; the first one shows whether the hooks are in what is really computed.

        Raises:
            InterventionError: if one did not fire. No answer has left the worker then.
        """
        if self.fired or not scheduler_output.total_num_scheduled_tokens:
            return super().execute_model(scheduler_output)
        before = [int(layer.steer_fired) for layer in self.steered]
        output = super().execute_model(scheduler_output)
        after = [int(layer.steer_fired) for layer in self.steered]
        self.fired = [at for at, old, new in zip(self.spec["layers"], before, after, strict=True) if new > old]
        if self.fired != self.spec["layers"]:
            silent = sorted(set(self.spec["layers"]) - set(self.fired))
            error = InterventionError(f"the hooks of layers {silent} did not fire: answers would not be steered")
            self._record({"refused": str(error)})
            raise error
        self._record_state()
        return output

    def _record_state(self) -> None:
        sha256 = self.vllm_config.additional_config["intervention"]["sha256"]
        state = {"sha256": sha256, "mode": self.spec["mode"], "layers": self.spec["layers"], "fired": self.fired}
        self._record(state)

    def _record(self, record: Mapping[str, Any]) -> None:
        print(f"intervention {json.dumps(record)}", flush=True)
        if self.rank == 0:
            path = Path(tempfile.gettempdir(), RECORD)
            temporary = path.with_suffix(f".{os.getpid()}")  # copies of the model are written about side by side
            temporary.write_text(json.dumps(record), encoding="utf-8")
            os.replace(temporary, path)
