"""What an intervention does to the residual stream after a layer; for the engine environment, without vLLM.

The worker of vLLM (`steered_worker.py`) and the capture of activations (`capture_program.py`) both take it from here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import torch
from safetensors import safe_open

VERSION = 1  # of the compiled file and of what the modes mean
HASHED = ("gate", "layers", "mode", "version")


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


def prepare(layer: Any, index: int, tensors: Mapping[str, torch.Tensor]) -> None:
    """Give a decoder layer, by its number in the model, the buffers that the modes read and count in."""
    device = next(layer.parameters()).device
    for name, tensor in tensors.items():
        number, _, part = name.partition(".")
        if int(number) == index:
            layer.register_buffer(f"steer_{part}", tensor.to(device, torch.float32), persistent=False)
    for name in ("fired", "passed", "tokens"):
        count = torch.zeros(1, dtype=torch.int64, device=device)
        layer.register_buffer(f"steer_{name}", count, persistent=False)


# ---------------------------------------------------------------- modes: what is added to the stream h, float32


def add(layer: Any, h: torch.Tensor, gate: float | None) -> torch.Tensor:
    """Return h's change to h + s v."""
    return layer.steer_add.expand_as(h)


def ablate(layer: Any, h: torch.Tensor, gate: float | None) -> torch.Tensor:
    """Return h's change to h - s <h - o, u> u."""
    return -((h @ layer.steer_unit - layer.steer_offset)[..., None] * layer.steer_remove)


def reposition(layer: Any, h: torch.Tensor, gate: float | None) -> torch.Tensor:
    """Return h's change to h - <h - o, u> u + s v: v is along u, so it is `ablate` to a point that holds o and s v."""
    return ablate(layer, h, gate)


def add_behind_gate(layer: Any, h: torch.Tensor, gate: float | None) -> torch.Tensor:
    """h + s v where cos(h, v) > gate, for each token."""
    cosine = h @ layer.steer_unit / h.norm(dim=-1).clamp_min(1e-12)
    passed = count_passed(layer, (cosine > gate)[..., None])
    return torch.where(passed, layer.steer_add, 0.0)


def pull(layer: Any, h: torch.Tensor, gate: float | None) -> torch.Tensor:
    """Return h's change to h + s (mu - h)."""
    return layer.steer_share * (layer.steer_target - h)


def constellation(layer: Any, h: torch.Tensor, gate: float | None) -> torch.Tensor:
    """h + s (mu - h) where cos(h, mu) > gate, for each token, with mu the most similar of the tasks' means."""
    cosines = h @ layer.steer_units.T / h.norm(dim=-1, keepdim=True).clamp_min(1e-12)
    best = cosines.argmax(dim=-1, keepdim=True)
    target = layer.steer_targets[best.squeeze(-1)]
    passed = count_passed(layer, cosines.gather(-1, best) > gate)
    return torch.where(passed, layer.steer_share * (target - h), 0.0)


def count_passed(layer: Any, passed: torch.Tensor) -> torch.Tensor:
    """Count on the device which tokens passed a gate, and which there were; return the same tensor.

    In place on buffers, as hooks are counted, so that it is in compiled code and in graphs.
    """
    layer.steer_passed.add_(passed.sum())
    layer.steer_tokens.add_(torch.ones_like(passed, dtype=torch.int64).sum())
    return passed


MODES: dict[str, Callable[[Any, torch.Tensor, float | None], torch.Tensor]] = {
    "add": add,
    "ablate": ablate,
    "gated": add_behind_gate,
    "reposition": reposition,
    "pull": pull,
    "constellation": constellation,
}
