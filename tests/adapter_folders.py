"""Small random LoRA adapters in PEFT's format, made on the spot."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

SMOLLM2 = {"layers": 30, "width": 576, "q_proj": 576, "v_proj": 192}
CONFIG = {
    "peft_type": "LORA",
    "task_type": "CAUSAL_LM",
    "lora_alpha": 16,
    "target_modules": ["q_proj", "v_proj"],
    "bias": "none",
}


def random_adapter(
    folder: Path, seed: int = 0, rank: int = 8, shape: Mapping[str, int] = SMOLLM2, scale: float = 0.05, **config: Any
) -> Path:
    """Write an adapter of the attention's queries and values; return its folder.

    Args:
        folder: where it goes.
        seed: of its numbers.
        rank: of its matrices.
        shape: `layers`, `width`, and the output of each projection of the base model.
        scale: of its numbers.
        config: further keys of adapter_config.json.
    """
    random, tensors = np.random.default_rng(seed), {}
    for layer in range(shape["layers"]):
        for name in ("q_proj", "v_proj"):
            module = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            tensors[f"{module}.lora_A.weight"] = random.normal(0, scale, (rank, shape["width"])).astype(np.float32)
            tensors[f"{module}.lora_B.weight"] = random.normal(0, scale, (shape[name], rank)).astype(np.float32)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, str(folder / "adapter_model.safetensors"))
    (folder / "adapter_config.json").write_text(json.dumps({**CONFIG, "r": rank, **config}))
    return folder
