"""Disturbing a study that runs on Slurm, and what must hold of it afterwards."""

import os
import re
import signal
from pathlib import Path

from e2e.faults import Run, answers, contents, only_grown
from project import Project
from slurm.cluster import Cluster
from slurm.stand_in_engine import settle, starts
from slurm.study import PATIENCE, Study, the_job

ENOUGH = 6  # records in the store when the fault comes
SLOW = 1.5  # seconds for a request while a fault is on its way


def with_engine_of_its_own(project: Project, cluster: Cluster) -> Study:
    """Return the study of a copied folder; its engine keeps its records there."""
    program = project.folder / "engine" / "python"
    program.write_text(re.sub(r" \S+/engine ", f" {program.parent} ", program.read_text()))
    project.catalogue("engines", "tiny", python=str(program))
    return Study(project, cluster)


def complete(study: Study, undisturbed: Study, run: Run | None = None) -> None:
    """Let a disturbed study run to its end as the user would; assert that nothing is lost, doubled or changed.

    Args:
        study: the study.
        undisturbed: the same study, never disturbed.
        run: a run that goes on by itself; without one, snakemake is started again.
    """
    before, files = study.stored(), contents(study.project.store)
    settle(study.engine)
    if run is None:
        study.succeed()
    else:
        assert run.wait(PATIENCE) == 0, run.said()[-6000:]
    after, keys = study.stored(), undisturbed.stored()
    assert set(after) == set(keys) and all(len(records) == 1 for records in after.values())
    assert {key: after[key] for key in before} == before and only_grown(files, contents(study.project.store))
    nothing_was_doubled(study)
    assert answers(study.project) == answers(undisturbed.project)
    nothing_is_left(study)


def nothing_was_doubled(study: Study) -> None:
    """Assert that no request was answered twice, but those that killed jobs were waiting for."""
    asked = study.asked()
    assert len(asked) - len(set(asked)) <= len(starts(study.engine)) - 1


def nothing_is_left(study: Study) -> None:
    """Assert that the study's records of running jobs are gone."""
    assert list((study.project.results / "running").glob("*.json")) == []


def running_job(study: Study, run: Run) -> str:
    """Return the number of a run's job when it is in the middle of its work."""
    number = the_job(run)
    study.wait_for_records(run, ENOUGH)
    assert study.cluster.jobs()[number] == "RUNNING"
    return number


def cancel(study: Study, number: str) -> None:
    """Cancel a job."""
    study.cluster.run("scancel", number)


def kill_snakemake(study: Study, run: Run) -> None:
    """Kill snakemake, and unlock the folder, which it needs then."""
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    refused = study.run()
    assert refused.process.returncode != 0 and "--unlock" in refused.said()
    assert study.run("--unlock").process.returncode == 0


def restart(study: Study, number: str) -> str | None:
    """Make a job eligible at once that Slurm holds back for two minutes; tell whether it runs again."""
    if study.cluster.jobs()[number] == "PENDING":
        study.cluster.run("scontrol", "update", f"JobId={number}", "StartTime=now", check=False)
    return "again" if len(starts(study.engine)) == 2 else None


def alive(pid: int) -> bool:
    """Tell whether a process lives."""
    return Path(f"/proc/{pid}").exists()
