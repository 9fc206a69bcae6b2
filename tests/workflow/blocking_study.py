"""A study of two models behind an engine that blocks, on two splits and one of dialogues."""

import json
from pathlib import Path
from typing import Any

from project import Project, change_yaml, make_project

PLUGIN = Path(__file__).parents[1] / "plugins" / "blocking_engine.py"
MODELS = {"strict": {}, "tame": {"tame": True}}
TALKS = {
    "source": {"kind": "file", "path": "talks.jsonl"},
    "columns": {"turns": ["first", "second", "third"]},
    "dialogue": {"mode": "cumulative"},
    "expectation": "refuse",
}


def hosted(folder: Path, plugin: Path = PLUGIN) -> Project:
    """Write a study of two models behind an engine of a plug-in, on two splits and one of dialogues."""
    project = make_project(folder)
    added: dict[str, Any] = {
        "engines": {name: {"kind": "blocking", "served": name, **fields} for name, fields in MODELS.items()},
        "models": {name: {"engine": name, "sampling": {"max_tokens": 300}} for name in MODELS},
    }
    change_yaml(folder / "catalogue.yaml", lambda data: data | {key: data[key] | added[key] for key in added})
    categories = {"columns": {"prompt": "prompt", "category": "topic"}}
    project.catalogue("datasets", "own")
    change_yaml(folder / "catalogue.yaml", lambda data: _with_splits(data, categories))
    for split in ("one", "two"):
        rows = [{"prompt": f"{split}: question {i}?", "topic": "ab"[i % 2]} for i in range(20)]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    talks = [{name: f"{name} {i}" for name in ("first", "second", "third")} for i in range(12)]
    (folder / "talks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in talks))
    splits = ["one", "two", "talks"]
    project.study(models=list(MODELS), splits=splits, judges=["words"], gold=[], plugins=[str(plugin)])
    return project


def _with_splits(data: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    splits = data["datasets"]["own"]["splits"]
    splits |= {"one": splits["one"] | more, "two": splits["two"] | more, "talks": TALKS}
    return data
