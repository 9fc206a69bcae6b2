"""Jobs on Slurm are disturbed in every way that clusters know; a plain rerun completes the study.

Nothing lost: what was in the store stays, byte by byte, and the rerun executes only the rest. Nothing doubled: no two
jobs work on the same requests, so no request is answered twice but the one that a job was killed over.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from e2e.faults import Run, answers, interrupt, only_grown, wait_for
from e2e.faults import contents as contents_of
from project import Project, copy_of
from slurm.cluster import Cluster
from slurm.stand_in_engine import settle, starts
from slurm.study import PATIENCE, Seen, Study, make_study, submitted, the_job

pytestmark = [pytest.mark.full, pytest.mark.timeout(3600)]
ENOUGH = 6  # records in the store when the fault comes
SLOW = 1.5  # seconds for a request while a fault is on its way


@pytest.fixture(scope="module")
def prepared(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Return a study whose requests are made."""
    return make_study(tmp_path_factory.mktemp("slurm-faults") / "project", cluster, request=SLOW)


@pytest.fixture(scope="module")
def undisturbed(prepared: Study, tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Return the study after a run on this machine, without Slurm."""
    project = copy_of(prepared.project, tmp_path_factory.mktemp("undisturbed") / "project")
    study = with_engine_of_its_own(project, prepared.cluster)
    settle(study.engine, start=0, request=0)
    # The stand-in does not look at its GPUs; the lease wants some.
    os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"
    try:
        project.snakemake("--resources", "gpu=2", "--until", "answers")
    finally:
        del os.environ["CUDA_VISIBLE_DEVICES"]
    return study


@pytest.fixture
def study(prepared: Study, usable: Cluster, tmp_path: Path) -> Iterator[Study]:
    """Return a copy of the prepared study with an engine of its own; what still runs at the end is ended."""
    found = with_engine_of_its_own(copy_of(prepared.project, tmp_path / "project"), usable)
    yield found
    settle(found.engine)


def with_engine_of_its_own(project: Project, cluster: Cluster) -> Study:
    """Return the study of a copied folder; its engine keeps its records there."""
    program = project.folder / "engine" / "python"
    program.write_text(re.sub(r" \S+/engine ", f" {program.parent} ", program.read_text()))
    project.catalogue("engines", "tiny", python=str(program))
    return Study(project, cluster)


def complete(study: Study, undisturbed: Study, what: str, said: str, run: Run | None = None) -> Seen:
    """Let a disturbed study run to its end as the user would; return what was seen.

    Args:
        study: the study.
        undisturbed: the same study, never disturbed.
        what: the fault.
        said: what was said of it.
        run: a run that goes on by itself; without one, snakemake is started anew.
    """
    before, files, asked = study.stored(), contents_of(study.project.store), len(study.asked())
    settle(study.engine)
    if run is None:
        study.succeed()
    else:
        assert run.wait(PATIENCE) == 0, run.said()[-6000:]
    after, keys = study.stored(), undisturbed.stored()
    assert set(after) == set(keys) and all(len(records) == 1 for records in after.values())
    assert {key: after[key] for key in before} == before and only_grown(files, contents_of(study.project.store))
    nothing_was_doubled(study)
    assert answers(study.project) == answers(undisturbed.project)
    nothing_is_left(study)
    row = Seen(what, f"{len(before)} of {len(after)}", str(len(study.asked()) - asked), said)
    print(row)
    return row


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


# ---------------------------------------------------------------- the job ends, and snakemake says so


@dataclass(frozen=True)
class Case:
    """Something that ends a job.

    Attributes:
        name: what is done.
        disturb: does it.
        says: what the run must say.
        job_log: what the job's own log must say.
    """

    name: str
    disturb: Callable[[Study, str], object]
    says: str
    job_log: str


def cancel(study: Study, number: str) -> None:
    study.cluster.run("scancel", number)


def kill(study: Study, number: str) -> None:
    study.cluster.run("scancel", "--signal=KILL", "--full", number)


def end_soon(study: Study, number: str) -> None:
    # Slurm looks at limits now and then, and the job does not know of the new one.
    study.cluster.run("scontrol", "update", f"JobId={number}", "TimeLimit=1")


CASES = [
    Case("scancel of the job", cancel, "status is: 'CANCELLED'", "stopped by SIGTERM"),
    Case("SIGKILL of all its processes", kill, "status is: 'FAILED'", ""),
    Case("time limit lowered under a running job", end_soon, "status is: 'TIMEOUT'", "stopped by SIGTERM"),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name.replace(" ", "-") for case in CASES])
def test_a_job_that_ends(case: Case, study: Study, undisturbed: Study, seen: list[Seen]) -> None:
    run = study.start()
    number = running_job(study, run)
    settle(study.engine, request=20)  # so that it cannot end by itself
    case.disturb(study, number)
    assert run.wait(PATIENCE) != 0
    assert case.says in run.said()
    assert case.job_log in job_log(study)
    wait_for("end of the engine", lambda: not alive(starts(study.engine)[0]["pid"]), 60)
    seen.append(complete(study, undisturbed, case.name, case.says))


def test_slurms_time_limit_is_known_and_nothing_is_cut_off(study: Study, undisturbed: Study, seen: list[Seen]) -> None:
    """With `--retries` a study that takes longer than the limit completes by itself."""
    settle(study.engine, request=4)
    run = study.run("--default-resources", "runtime=2", "mem_mb=1000", "--retries", "5", "--until", "answers")
    numbers = submitted(run)
    assert run.process.returncode == 0 and 2 <= len(numbers) <= 5, run.said()[-4000:]
    said = "the time limit is reached with"
    assert said in run.said() and "Traceback" not in run.said()
    states = [study.cluster.jobs()[number] for number in numbers]
    assert states == [*["FAILED"] * (len(numbers) - 1), "COMPLETED"], "each ended before Slurm would have ended it"
    shares = [sum(record["job"] == number for record in study.asked_by()) for number in numbers]
    assert all(shares) and len(study.asked()) == len(set(study.asked())), "each went on, and nothing was cut off"
    complete(study, undisturbed, "", "")
    total = str(len(undisturbed.stored()))
    seen.append(Seen(f"Slurm's time limit, {len(numbers)} tries", f"0 of {total}", "+".join(map(str, shares)), said))


# ---------------------------------------------------------------- the job comes again by itself


def test_a_requeued_job_goes_on_where_it_was(study: Study, undisturbed: Study, seen: list[Seen]) -> None:
    run = study.start()
    number = running_job(study, run)
    settle(study.engine, request=SLOW)
    study.cluster.run("scontrol", "requeue", number)
    wait_for("second start", lambda: restart(study, number), PATIENCE, run)
    seen.append(complete(study, undisturbed, "scontrol requeue", "nothing: the same job starts again", run))
    assert submitted(run) == [number] and len(starts(study.engine)) == 2


def test_a_node_that_goes_down(study: Study, undisturbed: Study, seen: list[Seen]) -> None:
    run = study.start()
    number = running_job(study, run)
    study.cluster.run("scontrol", "update", "NodeName=localhost", "State=DOWN", "Reason=test")
    wait_for("requeued job", lambda: study.cluster.jobs()[number] == "PENDING", PATIENCE, run)
    study.cluster.run("scontrol", "update", "NodeName=localhost", "State=RESUME")
    wait_for("second start", lambda: restart(study, number), PATIENCE, run)
    seen.append(complete(study, undisturbed, "node down, and back", "nothing: the same job starts again", run))
    assert submitted(run) == [number] and len(starts(study.engine)) == 2


def test_a_drained_node(study: Study, undisturbed: Study, seen: list[Seen]) -> None:
    study.cluster.run("scontrol", "update", "NodeName=localhost", "State=DRAIN", "Reason=test")
    run = study.start()
    number = the_job(run)
    time.sleep(20)
    job = study.cluster.job(number)
    assert job["JobState"] == "PENDING" and run.process.poll() is None and not starts(study.engine)
    study.cluster.run("scontrol", "update", "NodeName=localhost", "State=RESUME")
    seen.append(complete(study, undisturbed, "drained node: the job waits", f"squeue: {job['Reason']}", run))


def test_a_node_drained_under_a_running_job(study: Study, undisturbed: Study, seen: list[Seen]) -> None:
    run = study.start()
    running_job(study, run)
    study.cluster.run("scontrol", "update", "NodeName=localhost", "State=DRAIN", "Reason=test")
    seen.append(complete(study, undisturbed, "node drained under the job", "nothing: the job goes on", run))
    assert len(starts(study.engine)) == 1


def restart(study: Study, number: str) -> str | None:
    """Make a job eligible at once that Slurm holds back for two minutes; tell whether it runs again."""
    if study.cluster.jobs()[number] == "PENDING":
        study.cluster.run("scontrol", "update", f"JobId={number}", "StartTime=now", check=False)
    return "again" if len(starts(study.engine)) == 2 else None


# ---------------------------------------------------------------- snakemake ends


def test_ctrl_c_cancels_the_jobs(study: Study, undisturbed: Study, seen: list[Seen]) -> None:
    run = study.start()
    number = running_job(study, run)
    interrupt(run)
    assert run.wait(PATIENCE) != 0
    said = "Terminating processes on user request"
    assert said in run.said()
    wait_for("cancelled job", lambda: study.cluster.jobs()[number] == "CANCELLED", PATIENCE)
    seen.append(complete(study, undisturbed, "Ctrl-C to snakemake", said))


def killed(study: Study, run: Run) -> None:
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    refused = study.run()
    assert refused.process.returncode != 0 and "--unlock" in refused.said()
    assert study.run("--unlock").process.returncode == 0


def test_killed_snakemake_and_a_rerun_while_its_job_runs(study: Study, undisturbed: Study, seen: list[Seen]) -> None:
    run = study.start()
    old = running_job(study, run)
    settle(study.engine, request=SLOW)
    killed(study, run)
    assert study.cluster.jobs()[old] == "RUNNING"
    again = study.start()
    new = the_job(again)
    assert study.cluster.job(new)["Dependency"].startswith(f"afterany:{old}")
    said = "Slurm jobs of an earlier run of this study are still there"
    assert said in again.said() and f"{old}  running" in again.said() and f"scancel {old}" in again.said()
    seen.append(complete(study, undisturbed, "killed snakemake, rerun while its job runs", said, again))
    assert len(starts(study.engine)) == 1, "the old job completed it"
    assert study.cluster.jobs()[old] == "COMPLETED"


def test_killed_snakemake_and_a_rerun_while_its_job_is_queued(
    study: Study, undisturbed: Study, seen: list[Seen]
) -> None:
    study.cluster.run("scontrol", "update", "NodeName=localhost", "State=DRAIN", "Reason=test")
    run = study.start()
    old = the_job(run)
    killed(study, run)
    again = study.start()
    the_job(again)
    assert f"{old}  pending" in again.said()
    study.cluster.run("scontrol", "update", "NodeName=localhost", "State=RESUME")
    said = f"{old}  pending"
    seen.append(complete(study, undisturbed, "killed snakemake, rerun while its job is queued", said, again))
    assert len(starts(study.engine)) == 1


def test_a_rerun_with_other_batches_while_the_old_job_runs(study: Study, undisturbed: Study, seen: list[Seen]) -> None:
    """The new jobs have other names, so they do not wait in the queue; they see the old one when they start."""
    run = study.start()
    old = running_job(study, run)
    settle(study.engine, request=SLOW + 3)
    killed(study, run)
    study.project.study(batch="model")
    again = study.run()
    assert again.process.returncode != 0 and len(submitted(again)) == 2
    said = f"Slurm job {old} (process"
    assert said in again.said() and f"scancel {old}" in again.said()
    assert len(starts(study.engine)) == 1, "no second engine started"
    cancel(study, old)
    wait_for("cancelled job", lambda: study.cluster.jobs()[old] == "CANCELLED", PATIENCE)
    seen.append(complete(study, undisturbed, "the same, with other batches", f"{said} ...) still executes"))


def test_a_local_run_while_a_job_of_the_cluster_runs(study: Study, undisturbed: Study, seen: list[Seen]) -> None:
    run = study.start()
    old = running_job(study, run)
    settle(study.engine, request=SLOW + 3)
    killed(study, run)
    os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"
    try:
        local = study.project.snakemake("--resources", "gpu=2", "--until", "answers", check=False)
    finally:
        del os.environ["CUDA_VISIBLE_DEVICES"]
    assert local.returncode != 0 and f"Slurm job {old} (process" in local.stderr
    assert len(starts(study.engine)) == 1
    cancel(study, old)
    wait_for("cancelled job", lambda: study.cluster.jobs()[old] == "CANCELLED", PATIENCE)
    seen.append(complete(study, undisturbed, "the same, rerun on this machine", f"Slurm job {old} ... still executes"))


# ---------------------------------------------------------------- helpers


def job_log(study: Study) -> str:
    """Return the log of the engine load."""
    return (study.project.results / "logs" / "generate" / "engine" / "tiny" / "0.log").read_text()


def alive(pid: int) -> bool:
    """Tell whether a process lives."""
    return Path(f"/proc/{pid}").exists()
