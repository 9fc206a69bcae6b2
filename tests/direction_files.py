"""Small random directions, written as the rule `direction` writes them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

SMOLLM2 = {"model_layers": 30, "width": 576, "architecture": "LlamaForCausalLM"}


def random_direction(
    path: Path,
    layers: Sequence[int] = tuple(range(30)),
    seed: int = 0,
    size: float = 1.0,
    neutral: bool = False,
    **card: Any,
) -> dict[str, np.ndarray]:
    """Write a direction with random means; return its tensors.

    Args:
        path: the file.
        layers: the captured layers.
        seed: of its numbers.
        size: of the numbers of both means.
        neutral: whether it has neutral prompts: their mean, a ranking by correlation, and steps at each layer.
        card: what its metadata says, in place of what is true of SmolLM2-135M.
    """
    reported = {
        "version": 1,
        "direction": path.stem,
        "method": "md",
        "layers": list(layers),
        **SMOLLM2,
        "model": "smollm2-plain",
        "positions": "last_prompt_token",
        "dtype": "float32",
        "ranking": sorted(layers, key=lambda layer: (layer * 7) % 31),
        "prompts": [],
        **card,
    }
    random = np.random.default_rng(seed)
    means = random.normal(0, size, (2, len(layers), reported["width"])).astype(np.float32)
    tensors = {"mean_positive": means[0], "mean_negative": means[1], "direction": means[0] - means[1]}
    if neutral:
        tensors["mean_neutral"] = random.normal(0, size, means[0].shape).astype(np.float32)
        steps = random.uniform(0.5, 2, (len(layers), 2)).tolist()
        reported = {"correlation_ranking": sorted(layers, reverse=True), "scales": steps} | reported
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(
        tensors, str(path), metadata={"refusal_eval": json.dumps(reported, sort_keys=True, separators=(",", ":"))}
    )
    return tensors


def control_of(path: Path, control: Path) -> Path:
    """Write the control of a direction: other vectors of the same lengths, and those that it controls; return it."""
    with safe_open(str(path), "numpy") as file:
        reported = json.loads(file.metadata()["refusal_eval"]) | {"method": "random", "direction": control.stem}
    tensors = load_file(path)
    turned = np.ascontiguousarray(np.roll(tensors["direction"], 1, axis=1))
    tensors |= {"direction": turned, "controlled": tensors["direction"]}
    save_file(tensors, str(control), metadata={"refusal_eval": json.dumps(reported)})
    return control
