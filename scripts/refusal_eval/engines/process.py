"""A server process that ends with its parent and takes all its own children along (Linux)."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

LOG = logging.getLogger(__name__)
PR_SET_PDEATHSIG = 1
KILL_WAIT = 10.0  # seconds that a killed process may take to give its memory back


class Process(NamedTuple):
    """A live process. Its number may be used again after its death; number and start together never are."""

    pid: int
    start: int  # clock ticks since boot
    group: int
    session: int


def read_process(pid: int) -> Process | None:
    """Return the process, or None if there is none, or only a zombie that awaits its parent."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The second field is the name in parentheses and may hold anything; what follows it is fields 3, 4, ...
    fields = line.rpartition(b")")[2].split()
    state, group, session, threads, start = fields[0], *(int(fields[number]) for number in (2, 3, 17, 19))
    # A process whose first thread is a zombie still holds its memory while another thread is there.
    if state in b"ZX" and threads <= 1:
        return None
    return Process(pid, start, group, session)


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
    """Return the live processes of a session. Those of the group with the same number are among them."""
    return [process for process in live_processes() if process.session == session]


def send_signal(process: Process, number: signal.Signals) -> None:
    """Send a signal to this very process: nothing happens if it is gone, or if its number is another's by now."""
    if process_start(process.pid) == process.start:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)


def end_with_parent() -> None:
    """Ask the kernel (Linux) to send this process SIGTERM when the one that started it dies.

    SIGTERM and not SIGKILL: a killed vLLM API server leaves its engine core alive, with its memory.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class ServerProcess:
    """A command in a session of its own; its output goes to `log`."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.command, self.log = list(command), log
        with open(log, "wb") as output:
            self._process = subprocess.Popen(
                self.command,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        self.pid = self._process.pid  # also the number of its session and of its group
        self._over = False

    def exit_code(self) -> int | None:
        """Return the exit code (minus the signal's number after a signal), or None while it runs."""
        if self._process.returncode is not None:
            return self._process.returncode
        try:
            # Look at the dead process and leave it there: until it is waited for, its number, which is also that of
            # its session and group, is not given to another, so that `stop` cannot hit a stranger.
            ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # somebody else waited for it
            return self._process.poll()
        if ended is None:
            return None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    def last_lines(self, count: int = 25) -> str:
        """Return the last lines of the log, for an error message."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(f"    {line[:500]}" for line in lines[-count:])

    def stop(self, grace: float = 15.0) -> None:
        """Stop the process and everything in its session: SIGTERM, and after `grace` seconds SIGKILL.

        It may be dead already while its children live. An exception in the wait, as of a second Ctrl-C, goes on to the
        caller after SIGKILL was sent. A second call does nothing, unless the first left something alive.
        """
        try:
            self._send(signal.SIGTERM)
            self._wait_until_over(grace)
        finally:
            self._send(signal.SIGKILL)
            self._wait_until_over(KILL_WAIT)
        if not self._over:
            pids = ", ".join(str(process.pid) for process in session_members(self.pid))
            LOG.warning("processes of the server are still there after SIGKILL: %s", pids)

    def _send(self, number: signal.Signals) -> None:
        """Send a signal to the session's processes; to nobody once all of them were seen to be gone."""
        if self._over:
            return
        members = session_members(self.pid)
        if any(process.group == self.pid for process in members):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)  # all in one step, also those being born
        for process in members:
            if process.group != self.pid:
                send_signal(process, number)

    def _wait_until_over(self, seconds: float) -> None:
        """Wait until no process of the session is left, and note it, or until the time is up."""
        deadline = time.monotonic() + seconds
        while not self._over:
            if self.exit_code() is not None and not session_members(self.pid):
                self._over = True  # first: once it is waited for, its number may be another's
                self._process.wait()
            elif time.monotonic() >= deadline:
                return
            else:
                time.sleep(0.05)
