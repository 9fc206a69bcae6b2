"""Jobs on Slurm are disturbed in every way that clusters know; a plain rerun completes the study.

Nothing lost: what was in the store stays, byte by byte, and the rerun executes only the rest. Nothing doubled: no two
jobs work on the same requests, so no request is answered twice but the one that a job was killed over.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import psutil
import pytest
from e2e.faults import wait_for
from slurm.disturbed import SLOW, alive, cancel, complete, restart, running_job
from slurm.stand_in_engine import settle, starts
from slurm.study import PATIENCE, Study, submitted, the_job

pytestmark = [pytest.mark.full, pytest.mark.timeout(3600)]


# ---------------------------------------------------------------- the job ends, and snakemake says so


@dataclass(frozen=True)
class Case:
    """Something that ends a job.

    Attributes:
        name: what is done.
        disturb: does it.
        says: what the run must say.
        job_says: what the job itself must say.
    """

    name: str
    disturb: Callable[[Study, str], object]
    says: str
    job_says: str


def kill(study: Study, number: str) -> None:
    """End a job's processes as a machine without memory does; the guard of the engine is spared."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if (
                process.environ().get("SLURM_JOB_ID") == number
                and "refusal_eval.engines.server_process" not in process.cmdline()
            ):
                process.kill()


def end_soon(study: Study, number: str) -> None:
    # Slurm looks at limits now and then, and the job does not know of the new one.
    study.cluster.run("scontrol", "update", f"JobId={number}", "TimeLimit=1")


CASES = [
    Case("scancel of the job", cancel, "status is: 'CANCELLED'", "stopped by SIGTERM"),
    Case("SIGKILL of the job's processes", kill, "status is: 'FAILED'", ""),
    Case("time limit lowered under a running job", end_soon, "status is: 'TIMEOUT'", "stopped by SIGTERM"),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name.replace(" ", "-") for case in CASES])
def test_a_job_that_ends(case: Case, study: Study, undisturbed: Study) -> None:
    run = study.start()
    number = running_job(study, run)
    settle(study.engine, request=20)  # so that it cannot end by itself
    case.disturb(study, number)
    assert run.wait(PATIENCE) != 0
    assert case.says in run.said()
    assert case.job_says in run.said()
    wait_for("end of the engine", lambda: not alive(starts(study.engine)[0]["pid"]), 60)
    complete(study, undisturbed)


def test_slurms_time_limit_is_known_and_nothing_is_cut_off(study: Study, undisturbed: Study) -> None:
    """With `--retries` a study that takes longer than the limit completes by itself."""
    settle(study.engine, request=4)
    run = study.run("--default-resources", "runtime=2", "mem_mb=1000", "--retries", "5", "--until", "answers")
    numbers = submitted(run)
    assert run.process.returncode == 0 and 2 <= len(numbers) <= 5, run.said()[-4000:]
    assert "the time limit is reached with" in run.said() and "Traceback" not in run.said()
    states = [study.cluster.jobs()[number] for number in numbers]
    assert states == [*["FAILED"] * (len(numbers) - 1), "COMPLETED"], "each ended before Slurm would have ended it"
    shares = [sum(record["job"] == number for record in study.asked_by()) for number in numbers]
    assert all(shares) and len(study.asked()) == len(set(study.asked())), "each went on, and nothing was cut off"
    complete(study, undisturbed)


# ---------------------------------------------------------------- the job comes again by itself


def test_a_requeued_job_goes_on_where_it_was(study: Study, undisturbed: Study) -> None:
    run = study.start()
    number = running_job(study, run)
    settle(study.engine, request=SLOW)
    study.cluster.run("scontrol", "requeue", number)
    wait_for("second start", lambda: restart(study, number), PATIENCE, run)
    complete(study, undisturbed, run)
    assert submitted(run) == [number] and len(starts(study.engine)) == 2


def test_a_node_that_crashes(study: Study, undisturbed: Study) -> None:
    run = study.start()
    number = running_job(study, run)
    study.cluster.kill_daemon("slurmd")
    for process in psutil.process_iter(["cmdline"]):
        if " ".join(process.info["cmdline"] or ()).startswith(f"slurmstepd: [{number}."):
            process.kill()
    kill(study, number)
    study.cluster.run("scontrol", "update", "NodeName=localhost", "State=DOWN", "Reason=test")
    wait_for("requeued job", lambda: study.cluster.jobs()[number] == "PENDING", PATIENCE, run)
    study.cluster.start_daemon("slurmd")  # which puts the node into service again
    wait_for("idle node", lambda: "idle" in study.cluster.run("sinfo", "-h", "-o", "%t"), PATIENCE, run)
    time.sleep(10)  # the controller takes a job that it starts before for one that the crash ended
    wait_for("second start", lambda: restart(study, number), PATIENCE, run)
    complete(study, undisturbed, run)
    assert submitted(run) == [number] and len(starts(study.engine)) == 2


def test_a_drained_node(study: Study, undisturbed: Study) -> None:
    study.cluster.run("scontrol", "update", "NodeName=localhost", "State=DRAIN", "Reason=test")
    run = study.start()
    number = the_job(run)
    time.sleep(20)
    job = study.cluster.job(number)
    assert job["JobState"] == "PENDING" and run.process.poll() is None and not starts(study.engine)
    study.cluster.run("scontrol", "update", "NodeName=localhost", "State=RESUME")
    complete(study, undisturbed, run)


def test_a_node_drained_under_a_running_job(study: Study, undisturbed: Study) -> None:
    run = study.start()
    running_job(study, run)
    study.cluster.run("scontrol", "update", "NodeName=localhost", "State=DRAIN", "Reason=test")
    complete(study, undisturbed, run)
    assert len(starts(study.engine)) == 1
