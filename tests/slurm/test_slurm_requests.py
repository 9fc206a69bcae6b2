"""What arrives at Slurm: one job per engine load, exactly its GPUs, none where nothing is to be executed."""

import shutil
from pathlib import Path

import psutil
import pytest
from e2e.faults import answers, contents, receipts
from project import copy_of
from slurm.cluster import Cluster
from slurm.stand_in_engine import starts
from slurm.study import ENGINE, Study, make_study, submitted

pytestmark = [pytest.mark.full, pytest.mark.timeout(3600)]
LINES = ("slurm_partition=main", "cpu_partition=other", "gpu_model=test")


@pytest.fixture(scope="module")
def finished(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, list[str]]:
    """Return a study that has run on the cluster, with judging by an engine, and the jobs that it took."""
    study = make_study(tmp_path_factory.mktemp("slurm") / "project", cluster, profile=LINES)
    study.project.study(models=["plain"], judges=["words", "label"])
    run = study.succeed("all")
    return study, submitted(run)


def test_two_engine_loads_are_two_jobs_and_nothing_else_is_submitted(finished: tuple[Study, list[str]]) -> None:
    study, numbers = finished
    assert len(numbers) == 2
    comments = sorted(study.cluster.job(number)["Comment"] for number in numbers)
    for comment, rule in zip(comments, ("generate", "judge"), strict=True):
        assert comment.startswith(f"rule_{rule}_wildcards_engine_{ENGINE}_0"), "shard 0 of the engine's batch"


def test_a_job_gets_exactly_its_gpus_of_the_model_on_one_node_as_one_task(finished: tuple[Study, list[str]]) -> None:
    study, numbers = finished
    for number in numbers:
        job = study.cluster.job(number)
        assert job["TresPerJob"] == "gres:gpu:test:2"
        assert (job["NumTasks"], job["NumNodes"], job["Partition"]) == ("1", "1", "main")
        assert job["TimeLimit"] == "12:00:00" and "mem=62.50G" in job["TRES"]
        assert job["JobName"].startswith("refusal-eval_") and job["Requeue"] == "1"


def test_the_engine_sees_its_two_gpus_and_a_folder_on_the_nodes_disk(finished: tuple[Study, list[str]]) -> None:
    study, numbers = finished
    servers = starts(study.engine)
    assert [server["environment"]["SLURM_JOB_ID"] for server in servers] == numbers
    for server in servers:
        seen = server["environment"]
        assert len(seen["CUDA_VISIBLE_DEVICES"].split(",")) == 2 == int(seen["SLURM_GPUS_ON_NODE"])
        assert seen["SLURM_NTASKS"] == "1" and seen["TMPDIR"].startswith("/tmp/")
        assert "--tensor-parallel-size=2" in server["arguments"]


def test_jobs_that_have_nothing_to_execute_ask_for_no_gpu(finished: tuple[Study, list[str]], tmp_path: Path) -> None:
    study, _ = finished
    copy = Study(copy_of(study.project, tmp_path / "project"), study.cluster, study.profile)
    for made in ("receipts", "answers/plain", "verdicts", "scores", "tables"):
        shutil.rmtree(copy.project.results / made)
    engines = len(starts(copy.engine))
    numbers = submitted(copy.succeed("all"))
    jobs = [copy.cluster.job(number) for number in numbers]
    assert sorted(job["Comment"].partition("_wildcards_")[0] for job in jobs) == ["rule_generate", "rule_judge"]
    for job in jobs:
        assert "TresPerJob" not in job and "gres" not in job["TRES"]
        assert job["Partition"] == "other"
    assert len(starts(copy.engine)) == engines
    made_anew = receipts(copy.project)
    assert len(made_anew) == 2 and {receipt["executed"] for receipt in made_anew.values()} == {0}
    assert answers(copy.project) == answers(study.project)


def test_from_one_store_the_same_bytes_come_out_here_and_on_the_cluster(
    finished: tuple[Study, list[str]], tmp_path: Path
) -> None:
    study, _ = finished
    local = copy_of(study.project, tmp_path / "project")
    kept = {"engines", "prompts", "study.json"}
    for path in local.results.iterdir():
        if path.name not in kept:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    engines = len(starts(local.folder / "engine"))
    local.snakemake("--resources", f"gpu={2}")
    assert len(starts(local.folder / "engine")) == engines, "everything was in the store"
    for kind, pattern in (("answers", "*.jsonl"), ("verdicts", "*.jsonl"), ("scores", "*"), ("tables", "*")):
        folder = study.project.results / kind
        expected = {
            name: data for name, data in contents(folder, f"{pattern}.*" if pattern == "*" else pattern).items()
        }
        assert expected and contents(local.results / kind, f"{pattern}.*" if pattern == "*" else pattern) == expected


def test_profiles_default_beside_it_neither_cuts_gpus_nor_holds_jobs_back(
    usable: Cluster, finished: tuple[Study, list[str]]
) -> None:
    study, _ = finished
    said = (study.project.folder / "run1.txt").read_text()
    assert "profiles/default" in said, "both profiles are loaded"
    assert "Provided resources: gpu" not in said


def test_the_cluster_listens_on_loopback_only(cluster: Cluster) -> None:
    daemons = cluster.running()
    assert set(daemons) == {"munged", "slurmctld", "slurmd"}
    listening = {
        connection.laddr.ip
        for pid in daemons.values()
        for connection in psutil.Process(pid).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}
