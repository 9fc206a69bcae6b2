"""The real engine on Slurm: generation and judging of a small study, and the same bytes here from its store."""

import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from e2e.faults import contents, receipts, stored, wait_for
from e2e.real import SHORT, real_project
from project import Project, copy_of
from slurm.cluster import Cluster
from slurm.study import PATIENCE, Study, the_job

pytestmark = [pytest.mark.full, pytest.mark.timeout(3600)]
# Not scores' and tables' logs, not receipts: those tell of their own run.
SAME = {"requests": "*.jsonl", "answers": "*.jsonl", "judge_requests": "*.jsonl", "verdicts": "*.jsonl"}
SAME |= {"scores": "*.*", "tables": "*.*"}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the folder of a study of eight answers, whose requests are made."""
    project = real_project(
        tmp_path_factory.mktemp("slurm-demo") / "project",
        models=["plain"],
        samples=1,
        judges=["keyword", "label"],
    )
    project.catalogue("models", "plain", sampling={**SHORT, "max_tokens": 24})
    project.snakemake("--until", "requests")
    yield project.folder


@pytest.fixture(scope="module")
def finished(prepared: Path, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Return the study after a run on the cluster."""
    study = Study(copy_of(Project(prepared), tmp_path_factory.mktemp("slurm-real") / "project"), cluster)
    study.succeed("all")
    return study


def test_the_demo_runs_on_slurm(finished: Study) -> None:
    numbers = submitted_numbers(finished)
    assert len(numbers) == 2, "one job to generate, one to judge"
    for number in numbers:
        job = finished.cluster.job(number)
        assert "TresPerJob" not in job and "gres" not in job["TRES"], "an engine on the CPU asks for no GPU"
    loads = receipts(finished.project)
    assert {load["engine"]["serving"]["device"] for load in loads.values()} == {"cpu"}
    assert sorted(load["executed"] for load in loads.values()) == [8, 8]
    assert (finished.project.results / "tables" / "refusal.csv").exists()


def test_from_its_store_the_same_bytes_come_out_here(finished: Study, prepared: Path, tmp_path: Path) -> None:
    local = copy_of(Project(prepared), tmp_path / "project")
    shutil.copytree(finished.project.store, local.store, dirs_exist_ok=True)
    local.snakemake()
    assert all("engine" not in receipt for receipt in receipts(local).values()), "no engine started"
    for kind, pattern in SAME.items():
        expected = contents(finished.project.results / kind, pattern)
        assert expected and contents(local.results / kind, pattern) == expected, kind


def test_scancel_of_the_real_engine(prepared: Path, finished: Study, usable: Cluster, tmp_path: Path) -> None:
    """Nothing of the engine lives on, and the answers of a cancelled and a plain run are the same."""
    study = Study(copy_of(Project(prepared), tmp_path / "project"), usable)
    run = study.start()
    number = the_job(run)
    study.wait_for_records(run, 2)
    usable.run("scancel", number)
    assert run.wait(PATIENCE) != 0
    before = stored(study.project.store)
    wait_for("end of job and engine", lambda: not processes_in(study.project.folder), 60)
    study.succeed()
    after = stored(study.project.store)
    assert len(after) == 8 and {key: after[key] for key in before} == before
    (receipt,) = receipts(study.project).values()
    assert receipt["executed"] == 8 - len(before)
    assert contents(study.project.results / "answers") == contents(finished.project.results / "answers")


def submitted_numbers(study: Study) -> list[str]:
    """Return the Slurm jobs of a study's first run."""
    return re.findall(r"submitted with SLURM jobid (\d+)", (study.project.folder / "run1.txt").read_text())


def processes_in(folder: Path) -> list[psutil.Process]:
    """Return the processes whose working folder is a study's, but for Snakemake's own.

    Its handler of SIGTERM takes a lock which its scheduler may hold at that moment (seen with 9.27.1), so that the
    Snakemake of a cancelled job sometimes waits forever. Slurm kills it with the job's cgroup; this cluster has none.
    """
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            ours = Path(process.cwd()).is_relative_to(folder)
            if ours and "snakemake" not in process.cmdline():
                found.append(process)
    return found
