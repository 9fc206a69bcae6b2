"""What squeue tells, read by a stand-in for it, and what a run makes of jobs that earlier runs left."""

import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from refusal_eval.core.slurm_jobs import NoAnswer, SlurmJob, job_end, job_state, own_jobs, parse_jobs
from refusal_eval.workflow.cluster import (
    about_cpu_build,
    about_jobs,
    comment_of,
    gpu_model,
    jobs_of_earlier_runs,
    options,
    partition,
)


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
        squeue(f"7|{state}|/w|rule_generate\\n")
        assert job_state("7") == state
    for state in ("COMPLETED", "CANCELLED by 0", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"):
        squeue(f"7|{state}|/w|rule_generate\\n")
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


def test_jobs_that_are_over_are_left_out(squeue) -> None:
    calls = squeue("7|RUNNING|/w|rule_generate_wildcards_a|b\\n8|COMPLETED|/w|x\\n9|PENDING|/w|\\n")
    assert [(job.number, job.state, job.comment) for job in own_jobs()] == [
        ("7", "RUNNING", "rule_generate_wildcards_a|b"),
        ("9", "PENDING", ""),
    ]
    assert "--me" in calls.read_text() and parse_jobs("") == []


def test_the_end_of_a_job_is_reported_by_its_environment_or_else_by_slurm(squeue) -> None:
    squeue("2026-11-22T07:30:00\\n")
    assert job_end({"SLURM_JOB_ID": "7", "SLURM_JOB_END_TIME": "1000"}) == 1000
    assert job_end({"SLURM_JOB_ID": "7"}) == datetime.datetime(2026, 11, 22, 7, 30).timestamp()
    assert job_end({}) is None
    assert job_end({"SLURM_JOB_END_TIME": "Unknown"}) is None
    squeue("N/A\\n")
    assert job_end({"SLURM_JOB_ID": "7"}) is None


# ---------------------------------------------------------------- earlier runs


LOAD = "rule_generate_wildcards_model_a_0-of-1"


@pytest.fixture
def submitted(squeue, tmp_path: Path):
    """Let Slurm have one job of this user, from this folder, with this option in its script."""

    def says(state: str = "PENDING", comment: str = LOAD, option: str = "--configfiles study.yaml") -> list[str]:
        squeue(f"7|{state}|{tmp_path}|{comment}\\n")
        program = tmp_path / "bin" / "scontrol"
        program.write_text(
            f"#!/bin/sh\necho \"python -m snakemake --snakefile '{tmp_path}/Snakefile' {option} --force\"\n"
        )
        program.chmod(0o755)
        return [job.number for job in jobs_of_earlier_runs(str(tmp_path / "study.yaml"))]

    return says


def test_a_run_finds_the_loads_of_earlier_runs_of_its_study(submitted, tmp_path: Path) -> None:
    assert submitted() == submitted("RUNNING", LOAD.replace("generate", "judge")) == ["7"]
    assert submitted(option=f"--configfiles '{tmp_path}/study.yaml'") == ["7"]
    assert submitted("COMPLETED") == [], "it is over"
    assert submitted(option="--configfiles other.yaml") == [], "another study in the same folder"
    assert submitted(comment="rule_score_wildcards_a") == submitted(comment="of somebody's own") == []
    submitted(option="")
    assert jobs_of_earlier_runs(str(tmp_path / "config" / "config.yaml")), "the clone's own study"
    text = about_jobs(jobs_of_earlier_runs(str(tmp_path / "config" / "config.yaml")))
    assert f"7  pending  {LOAD}" in text and "scancel 7" in text


def test_silence_of_slurm_stops_nothing(squeue, tmp_path: Path) -> None:
    squeue("", error="Unable to contact slurm controller")
    assert jobs_of_earlier_runs(str(tmp_path / "study.yaml")) == []
    squeue(f"7|RUNNING|/w|{LOAD}\\n")
    (tmp_path / "bin" / "scontrol").unlink(missing_ok=True)
    assert jobs_of_earlier_runs(str(tmp_path / "study.yaml")) == []


# ---------------------------------------------------------------- placement


def profile(**defaults: str) -> SimpleNamespace:
    resources = {name: SimpleNamespace(raw=value) for name, value in defaults.items()} or None
    return SimpleNamespace(resource_settings=SimpleNamespace(default_resources=resources))


def test_a_job_gets_model_and_partition_as_far_as_it_needs_gpus() -> None:
    cluster = profile(slurm_partition="gpu", cpu_partition="cpu", gpu_model="h100")
    assert (gpu_model(cluster, 2), partition(cluster, 2)) == ("h100", "gpu")
    assert (gpu_model(cluster, 0), partition(cluster, 0)) == (None, "cpu")
    assert partition(profile(slurm_partition="gpu"), 0) == "gpu"
    assert (gpu_model(profile(), 2), partition(profile(), 2), options(profile(), [], [])) == (None, None, None)


def test_quotes_of_a_profile_are_not_part_of_the_value() -> None:
    cluster = profile(slurm_partition="'gpu'", gpu_model='"h100"', slurm_extra="'--qos=high --nice=5'")
    assert (gpu_model(cluster, 2), partition(cluster, 2)) == ("h100", "gpu")
    assert options(cluster, [], []) == "--qos=high --nice=5"
    plain = profile(slurm_partition="gpu,long", slurm_extra="--qos='a b'", gpu_model="100")
    assert (partition(plain, 1), options(plain, [], []), gpu_model(plain, 1)) == ("gpu,long", "--qos='a b'", "100")


def test_a_cpu_build_is_reported_where_engines_may_be_meant_for_gpus(tmp_path: Path) -> None:
    engines = {"big": {"device": "cuda", "python": None}, "small": {"device": "auto", "python": None}, "far": {}}
    engines |= {"own": {"device": "cuda", "python": "my/python"}, "slow": {"device": "cpu", "python": None}}
    assert about_cpu_build(engines, tmp_path, True) is None, "no environment, or that of a CUDA build"
    kind = tmp_path / ".venv" / "engine" / "engine-kind"
    kind.parent.mkdir(parents=True)
    kind.write_text("cpu\n")
    here, submitted = (about_cpu_build(engines, tmp_path, submits) or "" for submits in (False, True))
    assert "`make setup ENGINE=cuda`" in here and "big: will not start" in here and "small" not in here
    assert "big: will not start" in submitted and "small: its jobs request no GPU" in submitted
    assert not [name for name in ("own", "slow", "far") if name in submitted]
    kind.write_text("cuda\n")
    assert about_cpu_build(engines, tmp_path, True) is None


def test_a_job_comes_after_the_jobs_of_earlier_runs_for_its_batch() -> None:
    earlier = [SlurmJob("7", "RUNNING", "/w", LOAD), SlurmJob("8", "PENDING", "/w", LOAD.replace("_a_", "_b_"))]
    assert comment_of("generate", ["model/a", "0-of-1"]) == LOAD
    assert (
        options(profile(slurm_extra="--nice=5"), ["model/a", "0-of-1"], earlier) == "--nice=5 --dependency=afterany:7"
    )
    assert options(profile(slurm_extra="--nice=5"), ["model/c", "0-of-1"], earlier) == "--nice=5"


def test_a_capture_of_an_earlier_run_is_found_and_waited_for(submitted) -> None:
    captured = "rule_activations_wildcards_last_prompt_token_a_s"
    assert submitted(comment=captured) == ["7"]
    earlier = [SlurmJob("7", "RUNNING", "/w", captured)]
    assert options(profile(), ["last_prompt_token", "a", "s"], earlier) == "--dependency=afterany:7"
    for other in (["last_prompt_token", "a", "s-2"], ["answer_mean", "a", "s"], ["model/a", "0-of-1"]):
        assert options(profile(), other, earlier) is None


@pytest.mark.feature("controlled")
def test_a_search_of_an_earlier_run_is_found_and_waited_for(submitted) -> None:
    searched = "rule_search_prompts_wildcards_made_1-of-2"
    assert submitted(comment=searched) == ["7"]
    earlier = [SlurmJob("7", "RUNNING", "/w", searched)]
    for names, waits in ((["made", "1-of-2"], True), (["made", "0-of-1"], True), (["made", "0-of-2"], False)):
        assert options(profile(), names, earlier) == ("--dependency=afterany:7" if waits else None)
    assert options(profile(), ["other", "1-of-2"], earlier) is None


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
def test_a_job_waits_for_a_batch_of_other_cells(batch: str, load: str, waits: bool) -> None:
    earlier = [SlurmJob("7", "RUNNING", "/w", "rule_judge_wildcards_model_a_0-of-2")]
    assert options(profile(), [batch, load], earlier) == ("--dependency=afterany:7" if waits else None)
