"""Folders of weights: configurations, adapters, manifests, and the memory of fingerprints."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from fuzz.mutations import as_json
from fuzz.targets import file_of, target
from safetensors.numpy import save_file

from refusal_eval.ask.render import stop_token_ids
from refusal_eval.features.lora.adapter import checked_rank, read_tensors
from refusal_eval.weights.fingerprint import folder_sha256
from refusal_eval.weights.weights_manifest import manifest_folder, write_manifest

ADAPTER = {
    "peft_type": "LORA",
    "r": 4,
    "lora_alpha": 8,
    "target_modules": ["q_proj"],
    "rank_pattern": {"q_proj": 4},
    "bias": "none",
    "init_lora_weights": True,
    "modules_to_save": None,
}
BASE = "base_model.model.model.layers.0.self_attn.q_proj"


def _tensors(folder: Path) -> bytes:
    path = folder / "adapter_model.safetensors"
    shapes = {f"{BASE}.lora_A.weight": (4, 8), f"{BASE}.lora_B.weight": (8, 4)}
    save_file({name: np.ones(shape, dtype=np.float32) for name, shape in shapes.items()}, str(path))
    return path.read_bytes()


@target("adapter: configuration", [ADAPTER], as_json)
def adapter(data: bytes, folder: Path) -> None:
    _tensors(folder)
    file_of(folder, "adapter_config.json", data)
    assert type(rank := checked_rank(folder)) is int and 1 <= rank <= 512


@target("adapter: tensors", lambda folder: [_tensors(folder)])
def tensors(data: bytes, folder: Path) -> None:
    file_of(folder, "adapter_config.json", as_json(ADAPTER))
    path = file_of(folder, "adapter_model.safetensors", data)
    read_tensors(path)
    checked_rank(folder)


def _folder(folder: Path) -> Path:
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        file_of(folder, f"model/{name}", name.encode())
    return folder / "model"


def _manifest(folder: Path) -> list[Any]:
    write_manifest(folder / "weights.json", _folder(folder), ["config.json", "model.safetensors"], {"kind": "hub"})
    return [json.loads((folder / "weights.json").read_text())]


@target("weights manifest", _manifest, as_json)
def manifest(data: bytes, folder: Path) -> None:
    _folder(folder)
    manifest_folder(file_of(folder, "weights.json", data))


@target("generation config", [{"eos_token_id": [1, 2], "top_k": 5}, {"eos_token_id": 7}], as_json)
def generation_config(data: bytes, folder: Path) -> None:
    file_of(folder, "generation_config.json", data)
    ids = stop_token_ids(folder, 3)
    assert all(type(one) is int and 0 <= one < 2**31 for one in ids) and ids == sorted(set(ids))


def _memory(folder: Path) -> list[Any]:
    folder_sha256(_folder(folder), folder / "cache")
    return [json.loads(next((folder / "cache" / "fingerprints").glob("*.json")).read_text())]


@target("memory of fingerprints", _memory, as_json)
def fingerprints(data: bytes, folder: Path) -> None:
    model = _folder(folder)
    folder_sha256(model, folder / "cache")
    memory = next((folder / "cache" / "fingerprints").glob("*.json"))
    memory.write_bytes(data)
    found = folder_sha256(model, folder / "cache")
    memory.unlink(missing_ok=True)
    assert found == folder_sha256(model, folder / "cache"), "a damaged memory gives another fingerprint"
