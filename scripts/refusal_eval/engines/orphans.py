"""End what killed runs left behind: processes of a server whose job is gone, as the server's record names them."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError

from refusal_eval.engines.private_folder import socket_folders
from refusal_eval.engines.process import KILL_WAIT, Process, live_processes, process_start, send_signal
from refusal_eval.engines.server_records import (
    Place,
    Record,
    Remains,
    delete_file,
    record_files,
    record_folders,
    this_place,
)

PRIVATE_PREFIX = "refusal-eval-"  # how the name of a server's private folder begins


def remove_orphans(grace: float = 10.0) -> list[str]:
    """End what killed runs of this user left on this machine; return what happened, a line each, for the log.

    Servers of living jobs are not touched. Several jobs may do this at the same time. It takes no time if there is
    nothing to end, else up to `grace` seconds after SIGTERM, then as long as SIGKILL takes.

    Raises:
        UserError: if the folder of the records is not safe to use.
    """
    place = this_place()
    if place is None:
        return []
    messages: list[str] = []
    orphans = dict(_orphans(place, messages))
    _end(list(orphans.values()), grace)
    return messages + [message for path, orphan in orphans.items() if (message := _clear(path, orphan))]


def _orphans(place: Place, messages: list[str]) -> Iterator[tuple[Path, Remains]]:
    """Yield the records of servers whose jobs are gone; drop those of an earlier boot; tell of damaged ones."""
    for path in record_files(messages):
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
            delete_file(path)
        elif record.pid_namespace == place.pid_namespace and process_start(record.job.pid) != record.job.start:
            yield path, Remains(record)


def _end(orphans: Sequence[Remains], grace: float) -> None:
    """Send all that is left SIGTERM, and after `grace` seconds SIGKILL; return when nothing is left or time is up."""
    for number, wait in ((signal.SIGTERM, grace), (signal.SIGKILL, KILL_WAIT)):
        deadline, told = time.monotonic() + wait, set[Process]()
        while left := _left(orphans):
            for process in left - told:
                send_signal(process, number)
            told |= left
            if time.monotonic() >= deadline:
                break
            time.sleep(0.1)


def _left(orphans: Sequence[Remains]) -> set[Process]:
    processes = live_processes() if orphans else []
    return {process for orphan in orphans for process in orphan.among(processes)}


def _clear(path: Path, orphan: Remains) -> str | None:
    """Remove private folder and record if no process is left; return what to tell, if anything."""
    record = orphan.record
    what = f"of an engine that a killed run had left behind ({record.command}, started {record.time})"
    if left := _left([orphan]):
        numbers = ", ".join(str(process.pid) for process in sorted(left))
        return f"processes {numbers} {what} do not end, even after SIGKILL, and may still hold memory"
    remove_private_folder(record.private_folder)
    delete_file(path)
    return f"ended processes {', '.join(map(str, sorted(orphan.met)))} {what}" if orphan.met else None


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
