"""What squeue tells, read by a stand-in for it, and what a run makes of jobs that earlier runs left."""

import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from refusal_eval.core.slurm_jobs import NoAnswer, job_end, job_state, jobs_named, parse_jobs
from refusal_eval.workflow.cluster import Placement, limit_gpus
from refusal_eval.workflow.earlier_runs import comment_of, jobs_of_earlier_runs, record_run, told


@pytest.fixture
def squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Let squeue be a program that prints what it is told to; return how to tell it, and the file of its calls."""
    program = tmp_path / "bin" / "squeue"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")

    def says(text: str, error: str = "") -> Path:
        end = f"echo '{error}' >&2; exit 1" if error else "exit 0"
        program.write_text(f"#!/bin/sh\necho \"$@\" >> {tmp_path}/calls\nprintf '{text}'\n{end}\n")
        program.chmod(0o755)
        return tmp_path / "calls"

    return says


def test_a_job_lives_until_slurm_says_that_it_is_over(squeue) -> None:
    for state in ("PENDING", "RUNNING", "COMPLETING", "SUSPENDED", "REQUEUED", "CONFIGURING"):
        squeue(f"7|{state}|rule_generate\\n")
        assert job_state("7") == state
    for state in ("COMPLETED", "CANCELLED by 0", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"):
        squeue(f"7|{state}|rule_generate\\n")
        assert job_state("7") is None


def test_a_job_that_slurm_has_forgotten_is_over_and_silence_is_no_answer(squeue, monkeypatch) -> None:
    squeue("", error="slurm_load_jobs error: Invalid job id specified")
    assert job_state("7") is None
    squeue("", error="Unable to contact slurm controller")
    with pytest.raises(NoAnswer, match="Unable to contact"):
        job_state("7")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NoAnswer, match="no squeue"):
        job_state("7")


def test_jobs_are_asked_for_by_name_and_those_that_are_over_left_out(squeue) -> None:
    calls = squeue("7|RUNNING|rule_generate_wildcards_a|b\\n8|COMPLETED|x\\n9|PENDING|\\n")
    found = jobs_named(["run-1", "run-2"])
    assert [(job.number, job.state, job.comment) for job in found] == [
        ("7", "RUNNING", "rule_generate_wildcards_a|b"),
        ("9", "PENDING", ""),
    ]
    assert "--me --name run-1,run-2" in calls.read_text()
    assert jobs_named([]) == [] and parse_jobs("") == []


def test_the_end_of_a_job_is_told_by_its_environment_or_else_by_slurm(squeue) -> None:
    squeue("2026-11-22T07:30:00\\n")
    assert job_end({"SLURM_JOB_ID": "7", "SLURM_JOB_END_TIME": "1000"}) == 1000
    assert job_end({"SLURM_JOB_ID": "7"}) == datetime.datetime(2026, 11, 22, 7, 30).timestamp()
    assert job_end({}) is None
    squeue("N/A\\n")
    assert job_end({"SLURM_JOB_ID": "7"}) is None


# ---------------------------------------------------------------- earlier runs


def run_named(name: str) -> SimpleNamespace:
    return SimpleNamespace(scheduler=SimpleNamespace(_executor=SimpleNamespace(run_uuid=name)))


def test_a_run_finds_the_jobs_of_earlier_ones_and_forgets_runs_without_any(squeue, tmp_path: Path) -> None:
    results = str(tmp_path / "results")
    record_run(run_named("run-1"), results, [])
    squeue("7|PENDING|rule_generate_wildcards_model_a_0\\n")
    (job,) = jobs_of_earlier_runs(results)
    text = told([job])
    assert "7  pending  rule_generate_wildcards_model_a_0" in text and "scancel 7" in text
    squeue("7|COMPLETED|rule_generate_wildcards_model_a_0\\n")
    assert jobs_of_earlier_runs(results) == [] and list((tmp_path / "results" / "running" / "runs").iterdir()) == []


def test_a_run_on_this_machine_leaves_no_record_and_silence_of_slurm_stops_nothing(squeue, tmp_path: Path) -> None:
    results = str(tmp_path / "results")
    record_run(SimpleNamespace(scheduler=SimpleNamespace(_executor=object())), results, [])
    assert not (tmp_path / "results").exists()
    record_run(run_named("run-1"), results, [])
    squeue("", error="Unable to contact slurm controller")
    assert jobs_of_earlier_runs(results) == []
    squeue("7|RUNNING|x\\n")
    assert len(jobs_of_earlier_runs(results)) == 1, "the record is still there"


# ---------------------------------------------------------------- placement


class Execution:
    def __init__(self, gpus: int) -> None:
        self._gpus = gpus

    def gpus(self, wildcards: object, input: object) -> int:
        return self._gpus


def workflow(nodes: int | None, main: bool = True, **defaults: str) -> SimpleNamespace:
    resources: dict[str, int] = {}
    return SimpleNamespace(
        nodes=nodes,
        is_main_process=main,
        global_resources=resources,
        register_resource=resources.__setitem__,
        resource_settings=SimpleNamespace(
            default_resources={name: SimpleNamespace(raw=value) for name, value in defaults.items()} or None
        ),
    )


def test_a_job_gets_model_and_partition_as_far_as_it_needs_gpus(tmp_path: Path) -> None:
    profile = workflow(100, slurm_partition="gpu", cpu_partition="cpu", gpu_model="h100")
    with_gpus = Placement(Execution(2), profile, str(tmp_path))
    assert (with_gpus.gpu_model(None, None), with_gpus.partition(None, None)) == ("h100", "gpu")
    without = Placement(Execution(0), profile, str(tmp_path))
    assert (without.gpu_model(None, None), without.partition(None, None)) == (None, "cpu")
    plain = Placement(Execution(0), workflow(100, slurm_partition="gpu"), str(tmp_path))
    assert plain.partition(None, None) == "gpu"
    local = Placement(Execution(2), workflow(None), str(tmp_path))
    assert (local.gpu_model(None, None), local.partition(None, None), local.options([])) == (None, None, None)


def test_a_job_comes_after_the_jobs_of_earlier_runs_for_its_batch(squeue, tmp_path: Path) -> None:
    record_run(run_named("run-1"), str(tmp_path), [])
    running = "rule_generate_wildcards_model_a_0-of-1"
    squeue(f"7|RUNNING|{running}\\n8|PENDING|rule_generate_wildcards_model_b_0-of-1\\n")
    placement = Placement(Execution(1), workflow(100, slurm_extra="--nice=5"), str(tmp_path))
    assert comment_of("generate", ["model/a", "0-of-1"]) == running
    assert placement.options(["model/a", "0-of-1"]) == "--nice=5 --dependency=afterany:7"
    assert placement.options(["model/c", "0-of-1"]) == "--nice=5"


@pytest.mark.parametrize(
    ("batch", "load", "waits"),
    [
        ("model/a", "0-of-2", True),  # another split was added
        ("model/a", "1-of-2", False),  # another part of the requests
        ("model/a", "2-of-3", True),  # other parts, which may hold the same requests
        ("model", "0-of-2", False),  # another batch, whose name begins alike
        ("model/a/b", "0-of-2", False),
    ],
)
def test_a_job_waits_for_a_batch_of_other_cells(squeue, tmp_path: Path, batch: str, load: str, waits: bool) -> None:
    record_run(run_named("run-1"), str(tmp_path), [])
    squeue("7|RUNNING|rule_judge_wildcards_model_a_0-of-2\\n")
    options = Placement(Execution(1), workflow(100), str(tmp_path)).options([batch, load])
    assert options == ("--dependency=afterany:7" if waits else None)


def test_a_job_on_a_node_asks_slurm_nothing(squeue, tmp_path: Path) -> None:
    record_run(run_named("run-1"), str(tmp_path), [])
    calls = squeue("7|RUNNING|rule_generate_wildcards_model_a_0\\n")
    assert Placement(Execution(1), workflow(1, main=False), str(tmp_path)).options(["model/a", "0"]) is None
    assert not calls.exists()


def test_one_gpu_at_a_time_on_this_machine_only_where_nobody_said_how_many() -> None:
    local, told_eight, cluster, on_node = workflow(None), workflow(None), workflow(100), workflow(1, main=False)
    told_eight.global_resources["gpu"] = 8
    for each in (local, told_eight, cluster, on_node):
        limit_gpus(each)
    assert local.global_resources == {"gpu": 1} and told_eight.global_resources == {"gpu": 8}
    assert cluster.global_resources == on_node.global_resources == {}
