"""Where the engine's Python is, and which device it was built for."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ENGINE_FOLDER = Path(".venv", "engine")
FEW_CORES = 4


def engine_python(entry: Mapping[str, Any], root: str | Path = ".") -> str:
    """Return the Python of an engine: its own (`python:`), else that of .venv/engine."""
    # Absolute, without following links: a virtual environment's Python is a link, and its place decides what it finds.
    return os.path.abspath(entry.get("python") or Path(root, ENGINE_FOLDER, "bin", "python"))


def engine_device(entry: Mapping[str, Any], root: str | Path = ".") -> str:
    """Return `cpu` or `cuda`: the entry's device, or for `auto` what .venv/engine was built for (cuda when unknown)."""
    if entry.get("device", "auto") != "auto":
        return str(entry["device"])
    kind = Path(root, ENGINE_FOLDER, "engine-kind")
    return kind.read_text(encoding="utf-8").strip() if kind.is_file() and not entry.get("python") else "cuda"


def usable_cores() -> int:
    """Return how many cores this process may use, which on a shared machine are fewer than it has."""
    return len(os.sched_getaffinity(0))


def shares_few_cores(device: str | None) -> bool:
    """Tell whether an engine computes on cores that the other processes of its server need too."""
    return device == "cpu" and usable_cores() <= FEW_CORES
