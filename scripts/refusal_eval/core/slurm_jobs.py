"""What Slurm says of jobs, by `squeue` and `scontrol`, which every cluster with Slurm has (its accounting not)."""

import datetime
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

ASK_SECONDS = 60
# Every other state is that of a job that runs, may run, or is about to end.
OVER = ("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "REVOKED", "TIMEOUT")
_FORMAT = "%i|%T|%Z|%k"


@dataclass(frozen=True)
class SlurmJob:
    """A job that is queued or runs."""

    number: str
    state: str  # as Slurm names it: PENDING, RUNNING, COMPLETING,
    folder: str = ""  # its working directory
    comment: str = ""  # as it was submitted with; Snakemake writes rule and wildcards there


class NoAnswer(Exception):
    """Slurm cannot be asked here, or does not answer; the message says why."""


def job_state(number: str) -> str | None:
    """Return the state of a job that is queued or runs, or None if it is over or unknown.

    Raises:
        NoAnswer: if that cannot be found out.
    """
    try:
        jobs = parse_jobs(_squeue("--jobs", number))
    except NoAnswer as problem:
        if "Invalid job id" in str(problem):  # over for so long that Slurm has forgotten it
            return None
        raise
    return next((job.state for job in jobs), None)


def own_jobs() -> list[SlurmJob]:
    """Return this user's jobs that are queued or run.

    Raises:
        NoAnswer: if that cannot be found out.
    """
    return parse_jobs(_squeue("--me"))


def parse_jobs(text: str) -> list[SlurmJob]:
    """Return those jobs of squeue's lines that are not over."""
    rows = [line.strip().split("|", 3) for line in text.splitlines() if line.count("|") >= 3]
    return [SlurmJob(*row) for row in rows if row[1].split() and row[1].split()[0] not in OVER]


def job_end(environment: Mapping[str, str]) -> float | None:
    """Return when Slurm will end this process's job (seconds since 1970); None if unknown.

    Newer versions of Slurm set SLURM_JOB_END_TIME, but Snakemake's job step removes most of Slurm's variables.
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
    return slurm_answer("squeue", "--noheader", "--states=all", f"--format={form}", *arguments)


def slurm_answer(name: str, *arguments: str) -> str:
    """Return what one of Slurm's programs prints.

    Raises:
        NoAnswer: if it is not there, fails, or takes too long.
    """
    program = shutil.which(name)
    if program is None:
        raise NoAnswer(f"there is no {name} on this machine")
    command = [program, *arguments]
    try:
        reply = subprocess.run(command, capture_output=True, text=True, timeout=ASK_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoAnswer(f"{name} does not answer: {error}") from error
    if reply.returncode != 0:
        raise NoAnswer(f"{name} does not answer: {reply.stderr.strip()}")
    return reply.stdout
