"""Priorities of jobs: what GPUs wait for comes first, then the longest engine loads."""

import pytest
from config_project import WHOLE_STUDY
from workflow_cases import of

from refusal_eval.study.study import Study
from refusal_eval.workflow.order import PREPARING, longest_first

ENGINES = {"small": ("owner/small-1B", 1), "large": ("owner/large-70B", 4)}


@pytest.fixture
def order(project):
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
