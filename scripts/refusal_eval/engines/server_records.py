"""Records of running servers, in a folder of this user on this machine.

If Snakemake, the job and the server's first process are all killed, the server's other processes live on and keep
their memory. A record names them by number and start, so that the next run can end them (`orphans`) and nothing else.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import stat
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import write_json
from refusal_eval.engines.process import Process, live_processes, process_start, session_members
from refusal_eval.engines.server_process import ServerProcess

LOG = logging.getLogger(__name__)


class Place(NamedTuple):
    """Where process numbers mean the same: one boot of one machine, and there one space of numbers (containers)."""

    host: str
    boot_id: str
    pid_namespace: str


class Mark(BaseModel):
    """A process by its number and its start (clock ticks since boot)."""

    model_config = ConfigDict(strict=True, frozen=True)

    pid: PositiveInt
    start: NonNegativeInt


class ServerMark(Mark):
    """A server's first process and its session."""

    session: PositiveInt


class Record(BaseModel):
    """A running server, as its file tells it."""

    model_config = ConfigDict(strict=True)

    host: str
    boot_id: str
    pid_namespace: str
    job: Mark
    server: ServerMark
    members: list[Mark]
    command: str
    private_folder: str
    time: str


class Remains:
    """The processes of a recorded server, found again by number and start."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.met: set[int] = set()  # numbers of the processes that were found alive
        self._known = {(mark.pid, mark.start) for mark in (record.server, *record.members)}

    def among(self, processes: Sequence[Process]) -> list[Process]:
        """Return those of `processes` that are this server's: the known ones and the others of their session.

        A session's number is taken as long as one of its processes lives. So others are believed to be of the session
        only beside a known one; later the number may be a stranger's.
        """
        session = self.record.server.session
        found = {process for process in processes if (process.pid, process.start) in self._known}
        if any(process.session == session for process in found):
            found |= {process for process in processes if process.session == session and _is_mine(process)}
        self._known |= {(process.pid, process.start) for process in found}
        self.met |= {process.pid for process in found}
        return sorted(found)


class ServerRecord:
    """The record of a server that this process started. Without /proc (not Linux) nothing is recorded."""

    def __init__(self, remains: Remains | None, name: str) -> None:
        self._remains, self._name = remains, name

    @classmethod
    def create(cls, server: ServerProcess, private_folder: str) -> ServerRecord:
        """Record a server that was just started; `private_folder` is removed with what is left of it.

        Raises:
            UserError: if the folder of the records is not safe to use.
        """
        place = this_place()
        if place is None:
            return cls(None, "")
        record = Record(
            **place._asdict(),
            job=Mark(pid=os.getpid(), start=process_start(os.getpid()) or 0),
            server=ServerMark(pid=server.pid, start=process_start(server.pid) or 0, session=server.pid),
            members=_marks(session_members(server.pid)),
            command=" ".join(server.command)[:200],
            private_folder=private_folder,
            time=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        created = cls(Remains(record), f"{server.pid}-{secrets.token_hex(4)}.json")
        created._write(record)
        return created

    def update(self) -> None:
        """Record the processes that the server has by now; writes only if they are others than before.

        Raises:
            UserError: if the folder of the records is not safe to use.
        """
        if self._remains:
            record, members = self._remains.record, _marks(self._remains.among(live_processes()))
            if members and members != record.members:
                record.members = members
                self._write(record)

    def remove(self) -> None:
        """Forget the stopped server. If one of its processes could not be ended, the next run has to try again."""
        if self._remains and not self._remains.among(live_processes()):
            for folder in record_folders():
                delete_file(folder / self._name)

    def _write(self, record: Record) -> None:
        path = checked_folder(record_folders()[0]) / self._name
        try:
            write_json(path, record.model_dump())
        except OSError as error:  # a full disk, say: no reason to give up a run
            LOG.warning("the engine's processes are not recorded in %s: %s", path, error)


def this_place() -> Place | None:
    """Return where this process runs, or None where process numbers cannot be looked up (not Linux)."""
    try:
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return Place(socket.gethostname(), boot_id, os.readlink("/proc/self/ns/pid"))
    except OSError:
        return None


def record_folders() -> list[Path]:
    """Return where records may be: first the folder that new ones go to.

    XDG_RUNTIME_DIR is often set and missing, as in a batch job with the login node's variables, or set in one shell
    and not in another. So the temporary folder is always among them.
    """
    folders = [Path(tempfile.gettempdir(), f"refusal-eval-{os.getuid()}")]
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    with contextlib.suppress(OSError):
        if runtime.is_absolute() and runtime.stat().st_uid == os.getuid() and os.access(runtime, os.W_OK | os.X_OK):
            folders.insert(0, runtime / "refusal-eval")
    return folders


def checked_folder(folder: Path, purpose: str = "running engines are recorded", variable: str = "TMPDIR") -> Path:
    """Return the folder, made if need be, after a check that nobody else can have put anything there.

    Args:
        folder: the folder; the one above it must be there.
        purpose: what is done in it, in words, for messages.
        variable: the environment variable that says where it lies, for messages.

    Raises:
        UserError: for a link, a folder of another user, and one that is open to others.
    """
    what, advice = f"{folder}, where {purpose},", f"set {variable} to a folder of your own"
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
    except OSError as error:
        raise UserError(f"{what} cannot be used: {error}; {advice}") from error
    if not stat.S_ISDIR(found.st_mode):
        raise UserError(f"{what} is a link or a file instead of a folder: remove it, or {advice}")
    if found.st_uid != os.getuid():
        raise UserError(f"{what} belongs to another user (number {found.st_uid}): {advice}")
    if found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise UserError(f"{what} is open to others (mode {mode:o}): look at what is in it, then `chmod 700 {folder}`")
    return folder


def record_files(messages: list[str]) -> Iterator[Path]:
    """Yield the records' files. Only the folder that is written to must be safe; another one is left out."""
    first, *others = record_folders()
    yield from sorted(checked_folder(first).glob("*.json"))
    for folder in others:
        if os.path.lexists(folder):
            try:
                yield from sorted(checked_folder(folder).glob("*.json"))
            except UserError as error:
                messages.append(str(error))


def delete_file(path: Path) -> None:
    """Delete a file; another job may have been faster."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def _marks(processes: Sequence[Process]) -> list[Mark]:
    return [Mark(pid=process.pid, start=process.start) for process in processes]


def _is_mine(process: Process) -> bool:
    with contextlib.suppress(OSError):
        return os.stat(f"/proc/{process.pid}").st_uid == os.getuid()
    return False
