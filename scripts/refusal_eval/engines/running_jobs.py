"""No two jobs execute the same requests of a study, or capture the same cell, at the same time.

A job of a killed run may go on (on a cluster it always does), and the next run starts another for the same batch. So
each job that executes leaves a record, `running/*.json` in the study's folder, and reads those of the others. A live
job with the same cells stops the new one, with a message; a record whose job is gone is removed. A job counts as live
by its process if that is visible, else by Slurm, else by the age of its record.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import FiniteFloat, PositiveInt, TypeAdapter

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import write_json
from refusal_eval.core.slurm_jobs import NoAnswer, job_state
from refusal_eval.engines.process import process_start, this_place

LOG = logging.getLogger(__name__)
FOLDER = "running"
# Two jobs that start at the same moment both leave a record before they look. Also what clocks may differ by.
SETTLE_SECONDS = 2.0
PATIENCE_SECONDS = 30.0  # for a job that is just ending, as after Ctrl-C and scancel
POLL_SECONDS = 2.0
BEAT_SECONDS = 30.0  # between two touches of a record
SILENT_SECONDS = 300.0  # after which a job without other signs of life counts as gone


@dataclasses.dataclass(frozen=True)
class RunningJob:
    """A job that executes requests."""

    name: str  # stage, batch and load: `generate/model/engine/small/0-of-1-1b2c3d4e`
    cells: tuple[str, ...]  # its request files, or the one of activations, relative to the study's folder
    shard: int  # which part of their requests it executes
    shards: int  # how many parts there are
    host: str  # the machine
    boot_id: str  # which start of that machine
    pid_namespace: str  # which numbering of its processes (containers)
    pid: PositiveInt  # the job's process
    start: int  # when that process started (clock ticks since boot)
    slurm_job: str | None  # number of the Slurm job; None outside Slurm
    time: FiniteFloat  # when it began (seconds since 1970)

    def file(self) -> str:
        """Return the name of its record; a Slurm job that is started again has the same."""
        who = f"slurm-{self.slurm_job}" if self.slurm_job else f"{self.host}-{self.pid}"
        return f"{self.name.replace('/', '_')}-{who}.json"

    def shares_with(self, other: RunningJob) -> bool:
        """Tell whether both may execute the same request."""
        same_part = self.shards != other.shards or self.shard == other.shard
        return same_part and bool(set(self.cells) & set(other.cells))

    def __str__(self) -> str:
        where = f"process {self.pid} on {self.host}"
        return f"Slurm job {self.slurm_job} ({where})" if self.slurm_job else where


RECORD = TypeAdapter(RunningJob)


@contextlib.contextmanager
def only_job(
    receipt: str | Path, requests: Sequence[str], shard: int, shards: int, environment: Mapping[str, str] | None = None
) -> Iterator[Callable[[], None]]:
    """Be the only job that executes these requests, for the duration of the block.

    Yields a function that has to be called before the first request is executed, and that raises what this raises:
    another job may have come at the same moment, and its record be seen only now. The receipt, which this job will
    write, tells the study's folder.

    Raises:
        UserError: if another job that lives executes some of them.
    """
    receipts = next(folder for folder in Path(receipt).parents if folder.name == "receipts")
    name, cells = Path(receipt).relative_to(receipts), [os.path.relpath(path, receipts.parent) for path in requests]
    with _only(receipts.parent, str(name.with_suffix("")), cells, shard, shards, environment) as look_again:
        yield look_again


@contextlib.contextmanager
def only_capture(output: str | Path, environment: Mapping[str, str] | None = None) -> Iterator[Callable[[], None]]:
    """Be the only job that captures a cell's activations, in the same way; `output` is the file that it will write.

    Raises:
        UserError: if another job that lives captures them.
    """
    study = Path(output).parents[3]  # activations/{positions}/{model}/{split}.safetensors
    cell = Path(output).relative_to(study)
    with _only(study, str(cell.with_suffix("")), [str(cell)], 0, 1, environment) as look_again:
        yield look_again


@contextlib.contextmanager
def _only(
    study: Path, name: str, cells: Sequence[str], shard: int, shards: int, environment: Mapping[str, str] | None
) -> Iterator[Callable[[], None]]:
    me = RunningJob(
        name=name,
        cells=tuple(cells),
        shard=shard,
        shards=shards,
        **this_place()._asdict(),
        pid=os.getpid(),
        start=process_start(os.getpid()) or 0,
        slurm_job=(os.environ if environment is None else environment).get("SLURM_JOB_ID"),
        time=time.time(),
    )
    folder = study / FOLDER
    record = folder / me.file()
    earlier = {path.name for path in folder.glob("*.json")}
    write_json(record, dataclasses.asdict(me))
    settled = time.monotonic() + SETTLE_SECONDS

    def look_again() -> None:
        time.sleep(max(0.0, settled - time.monotonic()))  # an engine starts longer than that
        _wait_for_others(folder, me, earlier)

    ended = threading.Event()
    threading.Thread(target=_beat, args=(record, ended), daemon=True).start()
    try:
        _wait_for_others(folder, me, earlier)
        yield look_again
    finally:
        ended.set()
        if _read(record) == me:  # another start of the same Slurm job may have written its own
            record.unlink(missing_ok=True)


def others_alive(folder: Path, me: RunningJob, earlier: Collection[str]) -> list[tuple[RunningJob, str]]:
    """Return the living jobs that execute some of the same requests and came first, and how each is known to live.

    Records of jobs that are gone are removed. `earlier` are those that were there before this job's own.
    """
    found = []
    for path in sorted(folder.glob("*.json")):
        other = _read(path)
        if other is None or other == me or not other.shares_with(me):
            continue
        # Of jobs that start at the same moment one goes on: the others see its record, and that it is the first.
        if path.name not in earlier and (other.time, other.file()) > (me.time, me.file()):
            continue
        if state := alive(other, me, _silence(path, folder / me.file())):
            found.append((other, state))
        else:
            path.unlink(missing_ok=True)
    return found


def alive(job: RunningJob, me: RunningJob, silence: float) -> str | None:
    """Return how a job is known to live, in words, or None if it is gone; `silence` is since it touched its record."""
    if (job.host, job.boot_id, job.pid_namespace) == this_place():
        return "running" if process_start(job.pid) == job.start else None
    if job.slurm_job is not None:
        if job.slurm_job == me.slurm_job:
            return None  # this very job, before Slurm started it again
        with contextlib.suppress(NoAnswer):
            state = job_state(job.slurm_job)
            return state and state.lower()
    elif job.host == me.host and job.boot_id != me.boot_id:
        return None
    return f"it gave a sign of life {silence:.0f} s ago" if silence < SILENT_SECONDS else None


def _silence(record: Path, mine: Path) -> float:
    """Return the seconds since a record was touched, by the clock of the file system."""
    try:
        os.utime(mine)
        return mine.stat().st_mtime - record.stat().st_mtime
    except FileNotFoundError:
        return SILENT_SECONDS


def _beat(record: Path, ended: threading.Event) -> None:
    while not ended.wait(BEAT_SECONDS):
        with contextlib.suppress(OSError):
            os.utime(record)


def _wait_for_others(folder: Path, me: RunningJob, earlier: Collection[str]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    said = False
    while others := others_alive(folder, me, earlier):
        if time.monotonic() >= deadline:
            raise UserError("; ".join(_refusal(other, state) for other, state in others))
        if not said:
            said = True
            LOG.warning("%s executes the same requests; waiting a little, in case it is ending", others[0][0])
        time.sleep(POLL_SECONDS)


def _refusal(other: RunningJob, state: str) -> str:
    stop = f"scancel {other.slurm_job}" if other.slurm_job else f"kill {other.pid}"
    return (
        f"{other} of an earlier run still executes the same requests ({state}). "
        f"Wait until it ends, or end it (`{stop}`; what it has is in the store), then run again"
    )


def _read(path: Path) -> RunningJob | None:
    """Return a record, or None if it is not there or none."""
    try:
        return RECORD.validate_json(path.read_bytes(), strict=True)
    except (OSError, ValueError):
        return None
