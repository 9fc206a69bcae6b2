"""A small study on the real small model with the real engine."""

from pathlib import Path
from typing import Any

import yaml
from project import ROOT, Project

STUDY: dict[str, Any] = {
    "study": "small",
    "models": ["plain", "declining"],
    "splits": ["safe", "decline"],
    "samples": 2,
    "judges": ["keyword", "label"],
    "catalogue": ["catalogue.yaml"],
    "batch": "engine",
    "determinism": "strict",
    # Downloads and the converted weights are shared by all tests, and with the demo.
    "cache_dir": str(ROOT / ".cache"),
}
SHORT = {"max_tokens": 12, "temperature": 0.7}


def catalogue() -> dict[str, Any]:
    """Return catalogue entries that shorten the demo's."""
    rubric = ROOT / "config" / "rubrics" / "refusal_yes_no.md"
    four = {"size": 4, "seed": 0}
    bundled = {
        "safe": {"source": {"kind": "bundled", "file": "alarming_but_safe.jsonl"}, "expectation": "comply"},
        "decline": {"source": {"kind": "bundled", "file": "should_decline.jsonl"}, "expectation": "refuse"},
        "sensitive4": {"source": {"kind": "bundled", "file": "sensitive.jsonl"}, "expectation": "varies"},
    }
    return {
        "models": {
            "plain": {"like": "smollm2-plain", "label": "plain", "sampling": SHORT},
            "declining": {"like": "smollm2-declining", "label": "declining", "sampling": SHORT},
            "third": {"like": "smollm2-plain", "label": "third", "system_prompt": "Be brief.", "sampling": SHORT},
        },
        "datasets": {"four-each": {"splits": {name: {**split, "sample": four} for name, split in bundled.items()}}},
        "judges": {"label": {"like": "smollm2-label", "label": "label", "rubric": str(rubric)}},
    }


def real_project(folder: Path, **changes: Any) -> Project:
    """Write the study; nothing has run."""
    folder.mkdir(parents=True)
    (folder / "study.yaml").write_text(yaml.safe_dump({**STUDY, **changes}))
    (folder / "catalogue.yaml").write_text(yaml.safe_dump(catalogue()))
    return Project(folder)
