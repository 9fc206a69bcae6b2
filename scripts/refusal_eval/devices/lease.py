"""Leases: a job takes as many devices as its engine needs, all at once or none, and nobody else takes them meanwhile.

A lease is a lock (flock) on a file per device, in a folder of this user on this machine. The kernel gives a lock back
when the last process that holds its file is gone; the engine's server and its guard hold it beside the job. Processes
of an engine that did not inherit it are found by their session, which the file names.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import logging
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.devices.pool import ORDER, VISIBLE, Device, device_pool, pool_in_words
from refusal_eval.devices.smi import foreign_use, list_gpus
from refusal_eval.engines.process import process_start, session_members
from refusal_eval.engines.records import checked_folder, this_place
from refusal_eval.errors import UserError

LOG = logging.getLogger(__name__)
# The same folder for all runs of this user on this machine, whatever their TMPDIR says. Not /run/user, which goes at
# logout, and not /dev/shm, whose files systemd removes then.
LOCKS_VARIABLE = "REFUSAL_EVAL_LOCKS"
POLL_SECONDS = 0.5
SMI_SECONDS = 5.0  # between two questions to nvidia-smi while waiting
SAY_SECONDS = 60.0
# From when on a stranger's use of a device is taken to last. Memory of a lease that was just given back looks the same
# for some seconds, and then the job whose turn it is must not lose it.
STRANGER_SECONDS = 30.0


class Lease:
    """Devices that this job holds.

    Attributes:
        devices: the devices, in the order of the pool.
    """

    def __init__(self, devices: Sequence[Device], files: Sequence[int]) -> None:
        self.devices, self._files = tuple(devices), list(files)

    @property
    def files(self) -> tuple[int, ...]:
        """Return the open lock files, for the processes that are to hold them too."""
        return tuple(self._files)

    def environment(self) -> dict[str, str]:
        """Return what CUDA has to be told."""
        if not self.devices:
            return {}
        return {VISIBLE: ",".join(device.name for device in self.devices), ORDER: "PCI_BUS_ID"}

    def hand_to(self, session: int) -> None:
        """Write down the session whose processes use the devices from now on."""
        for file in self._files:
            _write(file, _mark(session))

    def release(self) -> None:
        """Give the devices back, as far as this process is concerned."""
        while self._files:
            os.close(self._files.pop())


def lease_devices(count: int, environment: Mapping[str, str], deadline: float | None = None) -> Lease:
    """Return a lease of `count` devices; waits until they are free.

    Args:
        count: how many; 0 takes none and asks for nothing.
        environment: of the job; CUDA_VISIBLE_DEVICES is what may be leased.
        deadline: until when to wait (`time.monotonic`); None is for ever.

    Raises:
        UserError: if there are fewer devices than `count`, if they do not become free in time, or if the folder of the
            locks is not safe to use.
    """
    if count == 0:
        return Lease([], [])
    gpus = list_gpus()
    pool = device_pool(environment, gpus)
    if len(pool) < count:
        raise UserError(f"this engine needs {count} GPUs, and the job has {pool_in_words(pool, environment, gpus)}")
    folder = lock_folder(environment)
    waiting = _Waiting(deadline)
    while (lease := _lease_in_turn(folder, pool, count, waiting)) is None:
        pass
    LOG.info("leased %s", ", ".join(device.name for device in lease.devices))
    return lease


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
            taken, refused = _take(folder, pool, count, waiting)
            if len(taken) == count:
                return Lease(list(taken), list(taken.values()))
            for file in taken.values():
                os.close(file)
            what = f"{count} of {len(pool)} devices: " + "; ".join(refused)
            if len(pool) - waiting.strangers() < count:
                break
            waiting.go_on(what)
    waiting.go_on(f"{what}. Until then jobs that need fewer go before")
    return None


@contextlib.contextmanager
def _turn(folder: Path, pool: Sequence[Device], count: int, waiting: _Waiting) -> Iterator[None]:
    """Wait for one's turn among the jobs with the same pool.

    Only one of them takes devices at a time. So nobody holds some while waiting for others, and a job that needs many
    is not overtaken for ever by jobs that need few.
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


def _take(folder: Path, pool: Sequence[Device], count: int, waiting: _Waiting) -> tuple[dict[Device, int], list[str]]:
    """Lock up to `count` devices that are free; return their files, and why the others are not."""
    taken: dict[Device, int] = {}
    refused: list[str] = []
    for device in pool:
        if len(taken) == count:
            break
        file = _try_lock(_lock_file(folder, device))
        if file is None:
            waiting.free_of_strangers(device)
            refused.append(f"{device.name} is leased")
        elif (reason := _left_behind(file)) or (reason := waiting.foreign_use().get(device.gpu or "")):
            os.close(file)
            refused.append(f"{device.name} is left alone: {reason}")
            waiting.say_once(refused[-1])
            waiting.in_use_by_strangers(device)
        else:
            waiting.free_of_strangers(device)
            _write(file, _mark(None))
            taken[device] = file
    return taken, refused


class _Waiting:
    """How long somebody waits, what is said meanwhile, and what nvidia-smi told last."""

    def __init__(self, deadline: float | None) -> None:
        self._deadline, self._said, self._asked = deadline, time.monotonic(), 0.0
        self._use: dict[str, str] = {}
        self._once: set[str] = set()
        self._strangers: dict[Device, float] = {}

    def go_on(self, what: str) -> None:
        """Sleep a little.

        Raises:
            UserError: if the time is up.
        """
        now = time.monotonic()
        if self._deadline is not None and now >= self._deadline:
            raise UserError(f"the time limit came while waiting for {what}")
        if now - self._said > SAY_SECONDS:
            self._said = now
            LOG.info("waiting for %s", what)
        time.sleep(POLL_SECONDS)

    def foreign_use(self) -> dict[str, str]:
        """Return who is on the GPUs; asked anew after some seconds."""
        if not self._asked or time.monotonic() - self._asked > SMI_SECONDS:
            self._use, self._asked = foreign_use(), time.monotonic()
        return self._use

    def in_use_by_strangers(self, device: Device) -> None:
        """Note that a device was left alone though nobody leases it."""
        self._strangers.setdefault(device, time.monotonic())

    def free_of_strangers(self, device: Device) -> None:
        """Note that a device is leased, or free."""
        self._strangers.pop(device, None)

    def strangers(self) -> int:
        """Return how many devices strangers have used for some time."""
        return sum(time.monotonic() - since >= STRANGER_SECONDS for since in self._strangers.values())

    def say_once(self, what: str) -> None:
        """Log something that may hold for long."""
        if what not in self._once:
            self._once.add(what)
            LOG.warning("%s", what)


# ---------------------------------------------------------------- locks


def _lock_file(folder: Path, device: Device) -> Path:
    return folder / f"device-{re.sub('[^0-9A-Za-z-]', '_', device.key)}.lock"


def _try_lock(path: Path) -> int | None:
    """Return the open, locked file, or None if somebody else holds it."""
    while True:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UserError(f"the lock of a device cannot be opened: {error}") from error
        kept = False
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
                raise UserError(f"{path} should be a lock of this user and is something else: remove it")
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # If somebody deleted it meanwhile, the next job would lock another file of the same name.
            if _inode(path) == (found.st_dev, found.st_ino):
                kept = True
                return file
        except BlockingIOError:
            return None
        finally:
            if not kept:
                os.close(file)


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise
        return None
    return found.st_dev, found.st_ino


def _mark(session: int | None) -> dict[str, Any]:
    """Return what a lock file says: the job, and the session of its server with the start of its first process."""
    place = this_place()
    mark: dict[str, Any] = {"job": os.getpid(), **(place._asdict() if place else {})}
    return mark | ({} if session is None else {"session": session, "start": process_start(session)})


def _write(file: int, mark: Mapping[str, Any]) -> None:
    content = json.dumps(mark).encode()
    os.ftruncate(file, 0)
    os.pwrite(file, content, 0)


def _left_behind(file: int) -> str | None:
    """Return who of the last holder's server still lives, in words, though the lock was given back."""
    try:
        mark = json.loads(os.pread(file, 10_000, 0))
        session, start = mark["session"], mark["start"]
    except (ValueError, KeyError, TypeError):
        return None
    place = this_place()
    if place is None or any(mark.get(name) != value for name, value in place._asdict().items()):
        return None
    if (first := process_start(session)) is not None and first != start:
        return None  # the number is a stranger's by now
    if not (members := session_members(session)):
        return None
    return f"processes {', '.join(str(process.pid) for process in members)} of an engine whose job is gone"
