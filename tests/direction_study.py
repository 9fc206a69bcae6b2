"""A small study with directions, on a tiny random Llama that the engine environment makes once."""

import subprocess
from pathlib import Path
from typing import Any

from project import ROOT, Project, change_yaml, make_project

ENGINE_PYTHON = ROOT / ".venv" / "engine" / "bin" / "python"
SIDES: dict[str, Any] = {"model": "plain", "positive": {"split": "two"}, "negative": {"split": "extra"}}
DIRECTIONS = {"refusal": SIDES, "chance": {**SIDES, "method": "random"}}


def direction_study(folder: Path, with_weights: bool = True, **changes: Any) -> Project:
    """Write a study of one split whose two directions are made from other splits; nothing has run."""
    project = make_project(folder)
    if with_weights:
        script = str(Path(__file__).with_name("tiny_llama.py"))
        subprocess.run([str(ENGINE_PYTHON), script, str(folder / "model")], check=True, capture_output=True)
    change_yaml(folder / "catalogue.yaml", lambda data: data | {"directions": DIRECTIONS})
    project.catalogue("engines", "tiny", dtype="float32")
    project.study(**{"models": ["plain"], "splits": ["one"], "judges": ["words"], "gold": []} | changes)
    project.study(directions=changes.get("directions", list(DIRECTIONS)))
    return project
