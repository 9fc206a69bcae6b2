"""Threads of engine loads: those on GPUs leave cores for loads on the other GPUs of this machine."""

from types import SimpleNamespace

import pytest
from config_project import WHOLE_STUDY, Project

from refusal_eval.study.study import Study
from refusal_eval.workflow.cluster import gpu_limit, limit_gpus
from refusal_eval.workflow.execution_stage import Execution


@pytest.fixture
def threads(tmp_path, monkeypatch):
    """Return a function that tells the threads of a load on so many GPUs, with these cores and this limit of GPUs."""
    monkeypatch.chdir(tmp_path)
    config = Project(tmp_path).load(WHOLE_STUDY)
    load = SimpleNamespace(batch="engine/hub-engine")

    def of(gpus, cores, limit, device="cuda"):
        config["engine_entries"]["hub-engine"] |= {"device": device, "tensor_parallel": gpus}
        return Execution(Study(config), tmp_path, cores, limit).threads(load)

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


def test_jobs_on_a_cluster_get_eight_and_those_of_cpu_engines_four(threads):
    assert threads(1, None, None) == threads(1, 8, None) == 8
    assert threads(1, None, None, device="cpu") == 4


def workflow(nodes, main=True, **resources):
    made = SimpleNamespace(is_main_process=main, nodes=nodes, global_resources={})
    made.register_resource = lambda name, value: made.global_resources.update({name: SimpleNamespace(value=value)})
    for name, value in resources.items():
        made.register_resource(name, value)
    limit_gpus(made)
    return made


def test_the_limit_of_gpus_is_that_of_this_machines_jobs():
    assert gpu_limit(workflow(None, gpu=8)) == 8
    assert gpu_limit(workflow(None)) == 1, "where nobody said how many"
    assert gpu_limit(workflow(100, gpu=16)) is None
    assert gpu_limit(workflow(None, main=False)) is None
