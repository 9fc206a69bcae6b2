"""Snakemake ends while its jobs run, and is started again: nothing is lost or doubled, old jobs are reported."""

import os

import pytest
from e2e.faults import interrupt, wait_for
from slurm.disturbed import SLOW, cancel, complete, kill_snakemake, running_job
from slurm.stand_in_engine import settle, starts
from slurm.study import PATIENCE, Study, submitted, the_job

pytestmark = [pytest.mark.full, pytest.mark.timeout(3600)]


def test_ctrl_c_cancels_the_jobs(study: Study, undisturbed: Study) -> None:
    run = study.start()
    number = running_job(study, run)
    interrupt(run)
    assert run.wait(PATIENCE) != 0
    assert "Terminating processes on user request" in run.said()
    wait_for("cancelled job", lambda: study.cluster.jobs()[number] == "CANCELLED", PATIENCE)
    complete(study, undisturbed)


def test_killed_snakemake_and_a_rerun_while_its_job_runs(study: Study, undisturbed: Study) -> None:
    run = study.start()
    old = running_job(study, run)
    settle(study.engine, request=SLOW)
    kill_snakemake(study, run)
    assert study.cluster.jobs()[old] == "RUNNING"
    again = study.start()
    new = the_job(again)
    assert study.cluster.job(new)["Dependency"].startswith(f"afterany:{old}")
    said = "Slurm jobs of an earlier run of this study are still there"
    assert said in again.said() and f"{old}  running" in again.said() and f"scancel {old}" in again.said()
    complete(study, undisturbed, again)
    assert len(starts(study.engine)) == 1, "the old job completed it"
    assert study.cluster.jobs()[old] == "COMPLETED"


def test_killed_snakemake_and_a_rerun_while_its_job_is_queued(study: Study, undisturbed: Study) -> None:
    study.cluster.run("scontrol", "update", "NodeName=localhost", "State=DRAIN", "Reason=test")
    run = study.start()
    old = the_job(run)
    kill_snakemake(study, run)
    again = study.start()
    the_job(again)
    assert f"{old}  pending" in again.said()
    study.cluster.run("scontrol", "update", "NodeName=localhost", "State=RESUME")
    complete(study, undisturbed, again)
    assert len(starts(study.engine)) == 1


def test_a_rerun_with_other_batches_while_the_old_job_runs(study: Study, undisturbed: Study) -> None:
    """The new jobs have other names, so they do not wait in the queue; they see the old one when they start."""
    run = study.start()
    old = running_job(study, run)
    settle(study.engine, request=SLOW + 3)
    kill_snakemake(study, run)
    study.project.study(batch="model")
    again = study.run()
    assert again.process.returncode != 0 and len(submitted(again)) == 2
    assert f"Slurm job {old} (process" in again.said() and f"scancel {old}" in again.said()
    assert len(starts(study.engine)) == 1, "no second engine started"
    cancel(study, old)
    wait_for("cancelled job", lambda: study.cluster.jobs()[old] == "CANCELLED", PATIENCE)
    complete(study, undisturbed)


def test_a_local_run_while_a_job_of_the_cluster_runs(study: Study, undisturbed: Study) -> None:
    run = study.start()
    old = running_job(study, run)
    settle(study.engine, request=SLOW + 3)
    kill_snakemake(study, run)
    os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"
    try:
        local = study.project.snakemake("--resources", "gpu=2", "--until", "answers", check=False)
    finally:
        del os.environ["CUDA_VISIBLE_DEVICES"]
    assert local.returncode != 0 and f"Slurm job {old} (process" in local.stderr
    assert len(starts(study.engine)) == 1
    cancel(study, old)
    wait_for("cancelled job", lambda: study.cluster.jobs()[old] == "CANCELLED", PATIENCE)
    complete(study, undisturbed)
