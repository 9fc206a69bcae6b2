"""The folder envs/, its locks and its scripts."""

import importlib.util
import sys
from collections import namedtuple
from pathlib import Path
from types import ModuleType

REPOSITORY = Path(__file__).resolve().parents[2]
ENVS = REPOSITORY / "envs"
LOCKS = ("workflow", "dev", "engine-cpu", "engine-cuda", "docs")
PYTHONS = ("3.11", "3.12", "3.13")
MACHINES = {"engine-cuda": ("x86_64",)}
PYTORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
DiskUsage = namedtuple("DiskUsage", "total used free")


def load(path: Path) -> ModuleType:
    """Import a script from its file."""
    spec = importlib.util.spec_from_file_location(f"envs_{path.stem}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
