"""What a model folder says of the model: how many layers it has, how wide they are, what it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json
from refusal_eval.core.text_config import LAYERS_KEY, of_text
from refusal_eval.weights.engine_file import quantization_of


def model_facts(folder: str | Path) -> dict[str, Any]:
    """Return {"model_layers", "width", "architecture"} of a model folder.

    Raises:
        UserError: if its config.json does not say them, or if the weights are quantized.
    """
    path = Path(folder) / "config.json"
    config = read_json(path)
    text = of_text(config)
    facts = {"model_layers": text.get(LAYERS_KEY), "width": text.get("hidden_size")}
    facts["architecture"] = next(iter(config.get("architectures") or ()), None)
    for name, value in facts.items():
        if value is None:
            raise UserError(f"{path} does not say the {name.replace('_', ' ')}, so activations cannot be captured")
    if quantization_of(folder):
        raise UserError(
            f"{path}: the weights are quantized, and capturing activations of quantized weights has never been tried"
        )
    return facts


def captured_facts(engine: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of the model whose activations are captured; `engine` is the identity file of its engine.

    Raises:
        UserError: see `model_facts`; and where vLLM takes LongRoPE's long factors for texts of every length, since
            transformers takes them for long texts only.
    """
    if engine["identity"].get("long_rope"):
        raise UserError(
            f"engine {engine['engine']}: above the model's original length, vLLM computes every request with the "
            "LongRoPE factors of long texts, and capture does not; so its activations would be another model's. Lower "
            f"`max_model_len` to `original_max_position_embeddings` of {engine['folder']}/config.json"
        )
    return model_facts(engine["folder"])


def checked_layers(layers: Sequence[int] | None, depth: int, model: str) -> list[int]:
    """Return the layers that are asked for in ascending order; all for None.

    Raises:
        UserError: for a layer that the model does not have.
    """
    beyond = sorted(layer for layer in layers or () if layer >= depth)
    if beyond:
        raise UserError(f"model {model} has {depth} layers, 0 to {depth - 1}: there is no layer {beyond[0]}")
    return list(range(depth)) if layers is None else sorted(layers)
