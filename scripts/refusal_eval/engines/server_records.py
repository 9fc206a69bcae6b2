"""Records of running servers, in a folder of this user on this machine, and the end of what killed runs left behind.

If Snakemake, the job and the server's first process are all killed, the server's other processes live on and keep
their memory. A record names them by number and start, so that the next run can end them and nothing else.
"""

import contextlib
import logging
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt, ValidationError

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import write_json
from refusal_eval.engines.private_folder import PRIVATE_PREFIX, checked_folder, socket_folders
from refusal_eval.engines.process import (
    Process,
    ProcessSpace,
    end_processes,
    live_processes,
    process_start,
    session_members,
    this_place,
)
from refusal_eval.engines.server_process import ServerProcess

LOG = logging.getLogger(__name__)


class ProcessMark(BaseModel):
    """A process by its number and its start (clock ticks since boot)."""

    model_config = ConfigDict(strict=True, frozen=True)

    pid: PositiveInt
    start: NonNegativeInt


class Record(BaseModel):
    """A running server, as its record file describes it."""

    model_config = ConfigDict(strict=True)

    host: str
    boot_id: str
    pid_namespace: str
    job: ProcessMark
    server: ProcessMark  # its first process, whose number is also that of their session
    members: list[ProcessMark]
    command: str
    private_folder: str
    time: str

    def among(self, processes: Collection[Process], known: Collection[Process] = ()) -> list[Process]:
        """Return those of `processes` that are this server's: the known ones and the others of their session.

        A session's number is taken as long as one of its processes lives. So other processes count only while a known
        one lives (found before, or named in the record); later the number may belong to a stranger.
        """
        named = {(mark.pid, mark.start) for mark in (self.server, *self.members)}
        named |= {(process.pid, process.start) for process in known}
        found = {process for process in processes if (process.pid, process.start) in named}
        if any(process.session == self.server.pid for process in found):
            found |= {process for process in processes if process.session == self.server.pid and _is_mine(process)}
        return sorted(found)


class ServerRecord:
    """The record of a server that this process has just started. Its private folder is removed with what is left of it.

    Raises:
        UserError: if the folder of the records is not safe to use.
    """

    def __init__(self, server: ServerProcess, private_folder: str) -> None:
        self._name = f"{server.pid}-{secrets.token_hex(4)}.json"
        self._record = Record(
            **this_place()._asdict(),
            job=ProcessMark(pid=os.getpid(), start=process_start(os.getpid()) or 0),
            server=ProcessMark(pid=server.pid, start=process_start(server.pid) or 0),
            members=_marks(session_members(server.pid)),
            command=" ".join(server.command)[:200],
            private_folder=private_folder,
            time=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        self._write()

    def update(self) -> None:
        """Record the processes that the server has by now; writes only if they are others than before.

        Raises:
            UserError: if the folder of the records is not safe to use.
        """
        members = _marks(self._record.among(live_processes()))
        if members and members != self._record.members:
            self._record.members = members
            self._write()

    def remove(self) -> None:
        """Forget the stopped server. If one of its processes could not be ended, the next run has to try again."""
        if not self._record.among(live_processes()):
            for folder in record_folders():
                _delete(folder / self._name)

    def _write(self) -> None:
        path = checked_folder(record_folders()[0]) / self._name
        try:
            write_json(path, self._record.model_dump())
        except OSError as error:  # a full disk, say: no reason to give up a run
            LOG.warning("the engine's processes are not recorded in %s: %s", path, error)


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


def remove_orphans(grace: float = 10.0) -> list[str]:
    """End what killed runs of this user left on this machine; return what happened, a line each, for the log.

    Servers of living jobs are not touched. Several jobs may do this at the same time. It takes no time if there is
    nothing to end, else up to `grace` seconds after SIGTERM, then as long as SIGKILL takes.

    Raises:
        UserError: if the folder of the records is not safe to use.
    """
    messages: list[str] = []
    orphans = dict(_orphans(this_place(), messages))
    met = {path: set[Process]() for path in orphans}

    def left() -> list[Process]:
        processes = live_processes() if orphans else []
        found = {path: record.among(processes, met[path]) for path, record in orphans.items()}
        for path, some in found.items():
            met[path] |= set(some)
        return [process for some in found.values() for process in some]

    end_processes(left, grace)
    return messages + [message for path, record in orphans.items() if (message := _clear(path, record, met[path]))]


def _orphans(place: ProcessSpace, messages: list[str]) -> Iterator[tuple[Path, Record]]:
    """Yield the records of servers whose jobs are gone; drop those of an earlier boot; report damaged ones.

    Only the folder for new records must be safe; unsafe others are skipped.
    """
    first, *others = record_folders()
    files = sorted(checked_folder(first).glob("*.json"))
    for folder in filter(os.path.lexists, others):
        try:
            files += sorted(checked_folder(folder).glob("*.json"))
        except UserError as error:
            messages.append(str(error))
    for path in files:
        try:
            if path.is_symlink():
                raise ValueError("it is a link")
            record = Record.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            continue  # another job was faster
        except (OSError, ValueError) as error:
            reason = "not a whole record" if isinstance(error, ValidationError) else error
            messages.append(f"{path} should record a running engine and was left alone ({reason}); it can be deleted")
            continue
        if record.host != place.host:
            continue  # a folder that machines share: only that machine knows
        if record.boot_id != place.boot_id:
            _delete(path)
        elif record.pid_namespace == place.pid_namespace and process_start(record.job.pid) != record.job.start:
            yield path, record


def _clear(path: Path, record: Record, met: Collection[Process]) -> str | None:
    """Remove private folder and record if no process is left; return a message, if any."""
    what = f"of an engine that a killed run had left behind ({record.command}, started {record.time})"
    if left := record.among(live_processes(), met):
        numbers = ", ".join(str(process.pid) for process in left)
        return f"processes {numbers} {what} do not end, even after SIGKILL, and may still hold memory"
    remove_private_folder(record.private_folder)
    _delete(path)
    return f"ended processes {', '.join(str(process.pid) for process in sorted(met))} {what}" if met else None


def remove_private_folder(name: str) -> None:
    """Remove a server's private folder, and nothing that does not look like one."""
    folder = Path(name)
    try:
        found = folder.lstat()
    except OSError:
        return
    in_place = os.path.realpath(folder.parent) in {os.path.realpath(parent) for parent in socket_folders()}
    named = folder.name.startswith(PRIVATE_PREFIX) and folder.name not in {path.name for path in record_folders()}
    if in_place and named and stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
        shutil.rmtree(folder, ignore_errors=True)


def _delete(path: Path) -> None:
    """Delete a file; another job may have been faster."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def _marks(processes: Collection[Process]) -> list[ProcessMark]:
    return [ProcessMark(pid=process.pid, start=process.start) for process in processes]


def _is_mine(process: Process) -> bool:
    with contextlib.suppress(OSError):
        return os.stat(f"/proc/{process.pid}").st_uid == os.getuid()
    return False
