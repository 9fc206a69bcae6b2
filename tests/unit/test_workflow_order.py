"""Priorities of jobs: what GPUs wait for comes first, then the longest engine loads."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from config_project import WHOLE_STUDY, Project
from workflow_cases import of

from refusal_eval.study.study import Study
from refusal_eval.workflow.order import PREPARING, longest_first

SCRIPTS = Path(__file__).parents[2] / "scripts"
ENGINES = {"small": ("owner/small-1B", 1), "large": ("owner/large-70B", 4)}


@pytest.fixture
def order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    project = Project(tmp_path)
    weights = {"kind": "hub", "revision": "0" * 40}
    engines = {
        name: {"weights": weights | {"repo": repo}, "max_model_len": 4096, "device": "cuda", "tensor_parallel": gpus}
        for name, (repo, gpus) in ENGINES.items()
    }
    models = {name: {"engine": name, "sampling": {"max_tokens": 500}} for name in engines}
    project.write("own.yaml", {"engines": engines, "models": models})
    study = WHOLE_STUDY | {"models": ["small", "large"], "catalogue": ["own.yaml"], "prompts_per_split": None}

    def made(batch="model"):
        return longest_first(Study(project.load(study | {"batch": batch})))

    return made


def test_the_longest_load_has_the_highest_priority(order):
    priority = order()
    large, small = (priority(of(batch=f"model/{name}/{name}")) for name in ("large", "small"))
    assert 0 < small < large == PREPARING - 1


def test_what_an_engine_waits_for_comes_before_all_loads_that_of_the_longest_first(order):
    priority = order()
    large, small = (priority(of(model=name, split="hub-rows")) for name in ("large", "small"))
    assert large > small > PREPARING > priority(of(batch="model/large/large"))
    assert priority(of(model="gold", split="people", judge="reader")) > PREPARING


def test_priorities_need_nothing_heavy(tmp_path):
    heavy = ["numpy", "pandas", "pyarrow", "httpx", "aiohttp", "transformers", "tokenizers", "tqdm"]
    code = f"import sys, json, refusal_eval.workflow.order; print(json.dumps([m for m in {heavy} if m in sys.modules]))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": str(SCRIPTS)})
    assert json.loads(run.stdout) == []
