"""Threads of engine loads: those on GPUs leave cores for loads on the other GPUs of this machine."""

import re
from types import SimpleNamespace

import pytest
from config_project import WHOLE_STUDY

from refusal_eval.features import FEATURES
from refusal_eval.study.study import Study
from refusal_eval.workflow import execution_stage
from refusal_eval.workflow.cluster import gpu_limit, submitted_rules


@pytest.fixture
def threads(project):
    """Return a function that tells the threads of a load on so many GPUs, with these cores and this limit of GPUs."""
    config = project.load(WHOLE_STUDY)

    def of(gpus, cores, limit, device="cuda", submits=False):
        config["engine_entries"]["hub-engine"] |= {"device": device, "tensor_parallel": gpus}
        return execution_stage.threads(Study(config), "hub-engine", project.folder, cores, limit, submits)

    return of


@pytest.mark.parametrize(
    ("gpus", "cores", "limit", "expected"),
    [
        (1, 8, 8, 1),
        (2, 8, 8, 2),
        (4, 8, 8, 4),
        (1, 10, 8, 1),
        (1, 128, 8, 8),
        (8, 128, 8, 8),
        (1, 64, 8, 7),
        (1, 2, 8, 1),
        (1, 8, 1, 7),
        (1, 5, 1, 4),
        (1, 4, 1, 4),
        (1, 2, 1, 2),
    ],
)
def test_loads_on_all_gpus_fit_into_the_cores(threads, gpus, cores, limit, expected):
    assert threads(gpus, cores, limit) == expected
    side_by_side = limit // gpus
    assert expected * side_by_side <= max(cores, side_by_side)


def test_jobs_on_a_cluster_get_eight_or_one_for_each_gpu_and_those_of_cpu_engines_four(threads):
    assert threads(1, None, None, submits=True) == threads(1, 8, None, submits=True) == 8
    assert threads(4, 8, None, submits=True) == 8 and threads(8, None, None, submits=True) == 11
    assert threads(1, None, None, device="cpu", submits=True) == 4
    assert threads(1, 32, 8, device="cpu") == 32, "a load on this machine takes all cores"


def test_without_a_limit_of_gpus_loads_on_this_machine_run_one_by_one(threads):
    assert threads(1, 8, None) == 8 and threads(2, 64, None) == 64


def workflow(nodes, main=True, **resources):
    given = {name: SimpleNamespace(value=value) for name, value in resources.items()}
    return SimpleNamespace(is_main_process=main, nodes=nodes, global_resources=given)


def test_the_limit_of_gpus_is_that_of_this_machines_jobs():
    assert gpu_limit(workflow(None, gpu=8)) == 8
    assert gpu_limit(workflow(None)) is None, "where nobody said how many"
    assert gpu_limit(workflow(100, gpu=16)) is None
    assert gpu_limit(workflow(None, main=False, gpu=8)) is None


def test_only_jobs_of_engines_and_captures_go_to_a_cluster(repository):
    """A rule that is made by `use rule` does not inherit `localrule`."""
    submitted = set()
    for file in (repository / "workflow" / "rules").glob("*.smk"):
        for block in re.split(r"^(?=(?:use )?rule )", file.read_text(), flags=re.MULTILINE)[1:]:
            if "    localrule: True" not in block:
                submitted.add(re.match(r"(?:use rule \w+ as|rule) (\w+)", block)[1])
    of_features = {"search_prompts"} if "controlled" in FEATURES else set()
    of_features |= {"gradients"} if "attributions" in FEATURES else set()
    assert submitted == {"generate", "judge", "activations"} | of_features
    assert submitted == {*submitted_rules(by_load=True), *submitted_rules(by_load=False)}
