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
    return "cuda" if entry.get("python") else built_for(root) or "cuda"


def built_for(root: str | Path = ".") -> str | None:
    """Return what .venv/engine was built for, `cpu` or `cuda`; None without such an environment."""
    kind = Path(root, ENGINE_FOLDER, "engine-kind")
    return kind.read_text(encoding="utf-8").strip() if kind.is_file() else None


def lacks_cuda(entry: Mapping[str, Any], root: str | Path = ".") -> bool:
    """Tell whether an entry with `device: cuda` would be started from .venv/engine, and that is the CPU build."""
    return entry.get("device") == "cuda" and not entry.get("python") and built_for(root) == "cpu"


def usable_cores() -> int:
    """Return how many cores this process may use, which on a shared machine are fewer than it has."""
    return len(os.sched_getaffinity(0))


def shares_few_cores(device: str | None) -> bool:
    """Tell whether an engine computes on cores that the other processes of its server need too."""
    return device == "cpu" and usable_cores() <= FEW_CORES
