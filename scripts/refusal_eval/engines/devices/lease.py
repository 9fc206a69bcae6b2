"""Leases: a job takes as many devices as its engine needs, all at once or none, and nobody else takes them meanwhile.

A lease is a lock (flock) on a file per device, in a folder of this user on this machine. The kernel gives a lock back
when the last process that holds its file is gone; the engine's server and its guard hold it along with the job.
Processes of an engine that did not inherit it are found by their session, which the file names.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.engines.devices.device_pool import JOB, ORDER, VISIBLE, Device, device_pool
from refusal_eval.engines.devices.nvidia_smi import Seen, read_gpus
from refusal_eval.engines.private_folder import checked_folder
from refusal_eval.engines.process import process_start, session_members, this_place

LOG = logging.getLogger(__name__)
# The same folder for all runs of this user on this machine, whatever their TMPDIR says. Not /run/user, which goes at
# logout, and not /dev/shm, whose files systemd removes then.
LOCKS_VARIABLE = "REFUSAL_EVAL_LOCKS"
SHARED_VARIABLE = "REFUSAL_EVAL_SHARED"
WAIT_VARIABLE = "REFUSAL_EVAL_WAIT_HOURS"
WAIT_HOURS = 12.0  # for strangers, over whose work a night may pass
WAIT_HOURS_OF_SLURM = 0.25
POLL_SECONDS = 0.5
SMI_SECONDS = 5.0  # between two questions to nvidia-smi while waiting
FAILING_SECONDS = 120.0  # for which nvidia-smi is tried again after a failure
SAY_SECONDS = 60.0
# From when on a stranger's use of a device is taken to last. Memory of a lease that was just given back looks the same
# for some seconds, and then the job whose turn it is must not lose it.
STRANGER_SECONDS = 30.0


@dataclass
class Lease:
    """Devices that this job holds."""

    devices: list[Device] = field(default_factory=list)  # in the order of the pool
    files: list[int] = field(default_factory=list)  # the open lock files, for the processes that are to hold them too

    def environment(self) -> dict[str, str]:
        """Return what CUDA has to be given."""
        if not self.devices:
            return {}
        return {VISIBLE: ",".join(device.visible for device in self.devices), ORDER: "PCI_BUS_ID"}

    def hand_to(self, session: int) -> None:
        """Write down the session whose processes use the devices from now on."""
        for file in self.files:
            _write(file, _mark(session))

    def release(self) -> None:
        """Give the devices back for this process; others that hold the lock keep it."""
        while self.files:
            os.close(self.files.pop())


def lease_devices(
    count: int, environment: Mapping[str, str], deadline: float | None = None, capability: float = 0.0
) -> Lease:
    """Return a lease of `count` devices; waits until they are free.

    Args:
        count: how many; 0 takes none and starts no nvidia-smi.
        environment: the job's; CUDA_VISIBLE_DEVICES limits what may be leased.
        deadline: until when to wait (`time.monotonic`) for other jobs of this user; None is for ever.
        capability: the least compute capability that the engine's build takes.

    Raises:
        UserError: if there are fewer devices than `count`, if they do not become free in time, if nvidia-smi fails for
            long, or if the folder of the locks is not safe to use.
    """
    if count == 0:
        return Lease()
    waiting = _Waiting(deadline, environment)
    # Without an answer only the user's names would be known, and another job may lease the same GPU by its UUID.
    while (seen := waiting.ask(strangers=False)).error:
        waiting.go_on("nvidia-smi", SMI_SECONDS)
    pool = device_pool(environment, seen, capability)
    if len(pool.devices) < count:
        raise UserError(f"this engine needs {count} GPUs, and the job has {pool.summary}")
    for reason in pool.left_out:
        waiting.say_once(reason)
    folder = lock_folder(environment)
    while (lease := _lease_in_turn(folder, pool.devices, count, waiting)) is None:
        pass
    LOG.info("leased %s", ", ".join(device.name for device in lease.devices))
    return lease


def may_share(environment: Mapping[str, str]) -> bool:
    """Tell whether the user accepts GPUs that others use too."""
    return environment.get(SHARED_VARIABLE, "") not in ("", "0")


def lock_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of the locks, made if need be.

    Raises:
        UserError: if somebody else can have put something there.
    """
    folder = Path(environment.get(LOCKS_VARIABLE) or f"/tmp/refusal-eval-{os.getuid()}")
    return checked_folder(folder, "leases of GPUs are noted", LOCKS_VARIABLE)


# ---------------------------------------------------------------- waiting


def _lease_in_turn(folder: Path, pool: Sequence[Device], count: int, waiting: _Waiting) -> Lease | None:
    """Return a lease at this job's turn; None where strangers leave too few devices, after others could have a turn."""
    with _turn(folder, pool, count, waiting):
        while True:
            lease, refused, strangers = _take(folder, pool, count, waiting)
            if len(lease.devices) == count:
                return lease
            lease.release()
            what = f"{count} of {len(pool)} devices: " + "; ".join(refused)
            if waiting.kept_by_strangers(strangers, len(pool) - count, what):
                break
            waiting.go_on(what)
    waiting.go_on(f"{what}. Until then jobs that need fewer go before")
    return None


@contextlib.contextmanager
def _turn(folder: Path, pool: Sequence[Device], count: int, waiting: _Waiting) -> Iterator[None]:
    """Wait for a turn among the jobs with the same pool.

    Only one of them takes devices at a time, so that no job holds some while it waits for others, and small jobs cannot
    starve a large one.
    """
    name = hashlib.sha256(" ".join(sorted(device.key for device in pool)).encode()).hexdigest()[:16]
    path = folder / f"turn-{name}.lock"
    while (file := _try_lock(path)) is None:
        waiting.go_on(f"the devices: {_first(path)} before this one")
    try:
        _write(file, {"job": os.getpid(), "count": count, "of": len(pool)})
        yield
    finally:
        os.close(file)


def _first(turn: Path) -> str:
    """Return who has the turn, in words."""
    try:
        mark = json.loads(turn.read_text(encoding="utf-8"))
        return f"process {mark['job']} waits for {mark['count']} of {mark['of']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another job waits for them"


def _take(folder: Path, pool: Sequence[Device], count: int, waiting: _Waiting) -> tuple[Lease, list[str], list[Device]]:
    """Lease up to `count` free devices; return also why others are not free, and those that strangers use."""
    taken, refused, strangers = Lease(), list[str](), list[Device]()
    for device in pool:
        if len(taken.devices) == count:
            break
        file = _try_lock(folder / f"device-{re.sub('[^0-9A-Za-z-]', '_', device.key)}.lock")
        if file is None:
            refused.append(f"{device.name} is leased")
        elif reason := _survivors(file) or waiting.foreign_use(device):
            os.close(file)
            refused.append(f"{device.name} is left alone: {reason}")
            waiting.say_once(refused[-1])
            strangers.append(device)
        else:
            _write(file, _mark(None))
            taken.devices.append(device)
            taken.files.append(file)
    return taken, refused, strangers


class _Waiting:
    """How long somebody waits, what is said meanwhile, and what nvidia-smi said last."""

    def __init__(self, deadline: float | None, environment: Mapping[str, str]) -> None:
        self._deadline, self._said, self._asked = deadline, time.monotonic(), 0.0
        self._shared = may_share(environment)
        # A job's GPUs are its own and are paid for: what is on them will not go.
        self._hours = WAIT_HOURS_OF_SLURM if JOB in environment else WAIT_HOURS
        if given := environment.get(WAIT_VARIABLE):
            if not re.fullmatch(r"\d+(\.\d+)?", given):
                raise UserError(f"{WAIT_VARIABLE}={given} is not a number of hours")
            self._hours = float(given)
        self._seen = Seen()
        self._failing: float | None = None
        self._kept: float | None = None
        self._once: set[str] = set()
        self._strangers: dict[Device, float] = {}  # since when they use it

    def go_on(self, what: str, seconds: float = POLL_SECONDS) -> None:
        """Sleep a little.

        Raises:
            UserError: if the time is up.
        """
        now = time.monotonic()
        late = self._deadline is not None and now >= self._deadline
        if self._failing is not None and (late or now - self._failing >= FAILING_SECONDS):
            raise UserError(
                f"nvidia-smi fails, and without it nobody knows which GPUs are free. It says: {self._seen.error}"
            )
        if late:
            raise UserError(f"the time limit came while waiting for {what}")
        if now - self._said > SAY_SECONDS:
            self._said = now
            LOG.info("waiting for %s", what)
        time.sleep(seconds)

    def ask(self, strangers: bool) -> Seen:
        """Return what nvidia-smi says, and note since when it fails."""
        self._seen = read_gpus(strangers)
        if not self._seen.error:
            self._failing = None
        elif self._failing is None:
            self._failing = time.monotonic()
            LOG.warning("nvidia-smi fails, and is asked again for %g seconds: %s", FAILING_SECONDS, self._seen.error)
        for warning in self._seen.warnings:
            self.say_once(warning)
        return self._seen

    def foreign_use(self, device: Device) -> str:
        """Return who is on a GPU, in words; asked again after some seconds. Its lease has to be held."""
        if device.gpu is None or self._shared:
            return ""
        if not self._asked or time.monotonic() - self._asked > SMI_SECONDS:
            self.ask(strangers=True)
            self._asked = time.monotonic()
        if self._seen.error:
            return f"nvidia-smi fails: {self._seen.error}"
        found = next((gpu for gpu in self._seen.gpus if gpu.uuid == device.gpu.uuid), None)
        return "nvidia-smi does not see it any more" if found is None else found.foreign

    def kept_by_strangers(self, strangers: Sequence[Device], spare: int, what: str) -> bool:
        """Tell whether strangers have used more than the `spare` devices for some time, and note since when.

        Raises:
            UserError: if that lasts too long.
        """
        now = time.monotonic()
        self._strangers = {device: self._strangers.get(device, now) for device in strangers}
        kept = sum(now - since >= STRANGER_SECONDS for since in self._strangers.values()) > spare
        self._kept = None if not kept else now if self._kept is None else self._kept
        if self._kept is not None and now - self._kept >= self._hours * 3600:
            raise UserError(
                f"for {self._hours:g} hours others have used what this job waits for, {what}. {SHARED_VARIABLE}=1 "
                f"takes GPUs that others use too, and {WAIT_VARIABLE} sets how long to wait for them"
            )
        return kept

    def say_once(self, what: str) -> None:
        """Log something that may hold for long."""
        if what not in self._once:
            self._once.add(what)
            LOG.warning("%s", what)


# ---------------------------------------------------------------- locks


def _try_lock(path: Path) -> int | None:
    """Return the open, locked file, or None if somebody else holds it."""
    while True:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UserError(f"the lock of a device cannot be opened: {error}") from error
        with contextlib.ExitStack() as undo:
            undo.callback(os.close, file)
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
                raise UserError(f"{path} should be a lock of this user and is something else: remove it")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return None
            # If somebody deleted it meanwhile, the next job would lock another file of the same name.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.lstat(path), found):
                    undo.pop_all()
                    return file


def _mark(session: int | None) -> dict[str, Any]:
    """Return what a lock file says: the job, and the session of its server with the start of its first process."""
    mark: dict[str, Any] = {"job": os.getpid(), **this_place()._asdict()}
    return mark | ({} if session is None else {"session": session, "start": process_start(session)})


def _write(file: int, mark: Mapping[str, Any]) -> None:
    os.ftruncate(file, 0)
    os.pwrite(file, json.dumps(mark).encode(), 0)


def _survivors(file: int) -> str | None:
    """Return who of the last holder's server still lives, in words, though the lock was given back."""
    try:
        mark = json.loads(os.pread(file, 10_000, 0))
        session, start = mark["session"], mark["start"]
    except (ValueError, KeyError, TypeError):
        return None
    if any(mark.get(name) != value for name, value in this_place()._asdict().items()):
        return None
    if (first := process_start(session)) is not None and first != start:
        return None  # the number is a stranger's by now
    if not (members := session_members(session)):
        return None
    return f"processes {', '.join(str(process.pid) for process in members)} of an engine whose job is gone"
