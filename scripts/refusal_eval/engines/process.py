"""Processes, found, signalled and ended without ever mistaking one for another (Linux)."""

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

KILL_WAIT = 10.0  # seconds that a killed process may take to give its memory back


class ProcessSpace(NamedTuple):
    """A scope in which process numbers are unique: one boot of one machine, and one PID namespace (containers)."""

    host: str
    boot_id: str
    pid_namespace: str


class Process(NamedTuple):
    """A live process. Its number may be used again after its death; number and start together never are."""

    pid: int
    start: int  # clock ticks since boot; psutil gives the time of day, which changes when the clock is set
    session: int


def this_place() -> ProcessSpace:
    """Return where this process runs; of a system without /proc only the name of the machine is known."""
    try:
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return ProcessSpace(socket.gethostname(), boot_id, os.readlink("/proc/self/ns/pid"))
    except OSError:
        return ProcessSpace(socket.gethostname(), "", "")


def read_process(pid: int) -> Process | None:
    """Return the process, or None if there is none, or only a zombie that awaits its parent."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The second field is the name in parentheses and may hold anything; what follows it is fields 3, 4, ...
    fields = line.rpartition(b")")[2].split()
    state, session, threads, start = fields[0], *(int(fields[number]) for number in (3, 17, 19))
    # A process whose first thread is a zombie still holds its memory while another thread is there.
    if state in b"ZX" and threads <= 1:
        return None
    return Process(pid, start, session)


def process_start(pid: int) -> int | None:
    """Return when the process started (clock ticks since boot), or None if it is gone or a zombie."""
    process = read_process(pid)
    return process.start if process else None


def live_processes() -> list[Process]:
    """Return the processes that can be seen, zombies apart; none where there is no /proc."""
    with contextlib.suppress(FileNotFoundError):
        return [process for name in os.listdir("/proc") if name.isdigit() and (process := read_process(int(name)))]
    return []


def session_members(session: int) -> list[Process]:
    """Return the live processes of a session, the group of the same number included."""
    return [process for process in live_processes() if process.session == session]


def send_signal(process: Process, number: signal.Signals) -> None:
    """Send a signal to this very process: nothing happens if it is gone, or if its number is another's by now."""
    if process_start(process.pid) == process.start:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)


def end_processes(find: Callable[[], list[Process]], grace: float) -> None:
    """End the processes that `find` returns, and those that it returns later: SIGTERM, after `grace` seconds SIGKILL.

    Returns when none is left, or some seconds after SIGKILL. An exception in the wait, as of a second Ctrl-C, goes on
    to the caller after SIGKILL was sent.
    """
    try:
        _signal_until_gone(find, signal.SIGTERM, grace)
    finally:
        _signal_until_gone(find, signal.SIGKILL, KILL_WAIT)


def _signal_until_gone(find: Callable[[], list[Process]], number: signal.Signals, seconds: float) -> None:
    deadline, sent = time.monotonic() + seconds, set[Process]()
    while found := find():
        for process in found:
            if process not in sent:
                send_signal(process, number)
        sent |= set(found)
        if time.monotonic() >= deadline:
            return
        time.sleep(0.05)
