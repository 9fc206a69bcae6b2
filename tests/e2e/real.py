"""A small study on the real small model with the real engine."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml
from project import ROOT, Project

from refusal_eval.core.files import read_json
from refusal_eval.study.engine_environment import ENGINE_FOLDER

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


# As `safetensors` and `transformers` have it; the engine environment has neither this library nor its tests.
CUT = """
import sys, torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32, num_hidden_layers=int(sys.argv[3]))
model.save_pretrained(sys.argv[2])
"""


def first_layers(project: Project, folder: Path, layers: int) -> Path:
    """Write the demo's model without its later layers, which answers faster; return its folder.

    Args:
        project: a study with that model; its weights are fetched.
        folder: what to write.
        layers: how many layers it keeps.
    """
    project.snakemake("results/small/engines/smollm2-135m.json")
    whole = ROOT / read_json(project.results / "engines" / "smollm2-135m.json")["folder"]
    python = str(ROOT / ENGINE_FOLDER / "bin" / "python")
    subprocess.run([python, "-c", CUT, str(whole), str(folder), str(layers)], check=True, capture_output=True)
    for file in whole.iterdir():
        if not (folder / file.name).exists() and file.suffix != ".safetensors":
            shutil.copy(file, folder)
    return folder
