"""What Slurm tells of jobs, asked by `squeue`, which every cluster with Slurm has (its accounting not)."""

import datetime
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ASK_SECONDS = 60
# Every other state is that of a job that runs, may run, or is about to end.
OVER = ("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "REVOKED", "TIMEOUT")
_FORMAT = "%i|%T|%k"


@dataclass(frozen=True)
class SlurmJob:
    """A job that is queued or runs."""

    number: str
    state: str  # as Slurm names it: PENDING, RUNNING, COMPLETING,
    comment: str = ""  # as it was submitted with; Snakemake writes rule and wildcards there


class NoAnswer(Exception):
    """Slurm cannot be asked here, or does not answer; the message says why."""


def job_state(number: str) -> str | None:
    """Return the state of a job that is queued or runs, or None if it is over or unknown.

    Raises:
        NoAnswer: if that cannot be told.
    """
    try:
        jobs = parse_jobs(_squeue("--jobs", number))
    except NoAnswer as problem:
        if "Invalid job id" in str(problem):  # over for so long that Slurm has forgotten it
            return None
        raise
    return next((job.state for job in jobs), None)


def jobs_named(names: Sequence[str]) -> list[SlurmJob]:
    """Return this user's jobs of some names that are queued or run.

    Raises:
        NoAnswer: if that cannot be told.
    """
    return parse_jobs(_squeue("--me", "--name", ",".join(names))) if names else []


def parse_jobs(text: str) -> list[SlurmJob]:
    """Return those jobs of squeue's lines that are not over."""
    rows = [line.strip().split("|", 2) for line in text.splitlines() if line.count("|") >= 2]
    return [
        SlurmJob(number, state, comment)
        for number, state, comment in rows
        if state.split() and state.split()[0] not in OVER
    ]


def job_end(environment: Mapping[str, str]) -> float | None:
    """Return when Slurm will end the job that this process belongs to (seconds since 1970); None if nobody knows.

    Newer versions of Slurm say it in SLURM_JOB_END_TIME, but Snakemake's job step takes most of Slurm's variables
    away.
    """
    if (end := environment.get("SLURM_JOB_END_TIME", "")).isdigit():
        return float(end)
    number = environment.get("SLURM_JOB_ID")
    if not number:
        return None
    try:
        text = _squeue("--jobs", number, form="%e").strip()
        return datetime.datetime.fromisoformat(text.splitlines()[0]).timestamp()
    except (NoAnswer, ValueError, IndexError):  # "N/A" for jobs without a limit
        return None


def _squeue(*arguments: str, form: str = _FORMAT) -> str:
    program = shutil.which("squeue")
    if program is None:
        raise NoAnswer("there is no squeue on this machine")
    command = [program, "--noheader", "--states=all", f"--format={form}", *arguments]
    try:
        reply = subprocess.run(command, capture_output=True, text=True, timeout=ASK_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoAnswer(f"squeue does not answer: {error}") from error
    if reply.returncode != 0:
        raise NoAnswer(f"squeue does not answer: {reply.stderr.strip()}")
    return reply.stdout
