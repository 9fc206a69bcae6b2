"""How large an engine is: its parameters and the bytes of its weights, by its entry, its name or its files."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.weights.weights_manifest import WEIGHTS_MANIFEST, read_manifest

BYTES_PER_PARAMETER = {"bfloat16": 2.0, "float16": 2.0, "float32": 4.0}
# What names of repositories call quantized weights, and how many bytes a parameter of these takes, with its scales.
QUANTIZED_NAMES = {r"(?:mx)?fp8|int8|8bit|w8a8": 1.0, r"awq|gptq|int4|4bit|w4a16|(?:nv|mx)?fp4": 0.6}
QUANTIZED_BYTES = 1.0
ASSUMED_BILLIONS = {"cpu": 1.0, "cuda": 8.0}  # per device, if unknown
ASSUMED_SIZE = "assumed"
LEAST_BILLIONS = 0.001


def engine_billions(
    entry: Mapping[str, Any], files: Sequence[str], kind: str = "cuda", devices: int = 1
) -> tuple[tuple[float, float], str]:
    """Return all and the active parameters (billions) of an engine, and what they come from.

    `files` are those of its weights, or the manifest of fetched weights; `devices` are those of one load.
    """
    if isinstance(entry.get("parameters"), int | float):  # elsewhere they are those of requests, by name
        return (entry["parameters"], entry["active_parameters"] or entry["parameters"]), "by its entry"
    if found := billions_in_name(_weights_name(entry)):
        return found, "by its name"
    if size := files_size(files):
        billions = max(size / _bytes_per_parameter(entry) / 1e9, LEAST_BILLIONS)
        return (billions, billions), "by its files"
    assumed = ASSUMED_BILLIONS[kind] * devices
    return (assumed, assumed), ASSUMED_SIZE


def billions_in_name(name: str) -> tuple[float, float] | None:
    """Return total and active parameters (billions) by a model's name: `x-70B`, `x-135M`, `x-30B-A3B`."""
    number = r"(?<![A-Za-z0-9.])(A?)(\d+(?:\.\d+)?)([BM])(?![A-Za-z0-9])"
    sizes: dict[str, float] = {}
    for active, digits, unit in re.findall(number, name, re.IGNORECASE):
        sizes.setdefault(active.upper(), float(digits) / (1 if unit.upper() == "B" else 1000))
    if "" not in sizes:
        return None
    return sizes[""], sizes.get("A", sizes[""])


def weights_bytes(entry: Mapping[str, Any], billions: float) -> float:
    """Return the size of an engine's weights: what its entry says, else by the number of parameters."""
    if entry.get("weights_gb"):
        return float(entry["weights_gb"]) * 1e9
    return billions * 1e9 * _bytes_per_parameter(entry)


def files_size(files: Iterable[str]) -> int:
    """Return the bytes of all safetensors among these files and manifests; 0 if none is there."""
    found = [0]
    for file in map(Path, files):
        if file.name == WEIGHTS_MANIFEST and file.is_file():
            entries = read_manifest(file).files
            found += [entry.size for name, entry in entries.items() if name.endswith(".safetensors")]
        elif file.suffix == ".safetensors" and file.is_file():
            found.append(file.stat().st_size)
    return sum(found)


def _weights_name(entry: Mapping[str, Any]) -> str:
    weights = entry.get("weights") or {}  # none: an engine that computes elsewhere
    return Path(weights.get("repo") or weights.get("file") or weights.get("path") or "").name


def _bytes_per_parameter(entry: Mapping[str, Any]) -> float:
    name = _weights_name(entry).lower()
    if named := [size for words, size in QUANTIZED_NAMES.items() if re.search(f"(?<![a-z])(?:{words})", name)]:
        return named[0]
    return QUANTIZED_BYTES if entry.get("quantization") else BYTES_PER_PARAMETER[entry["dtype"]]
