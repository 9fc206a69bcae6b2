"""A server process that ends with the one that started it, and takes all its own children along (Linux)."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from refusal_eval.engines.guard import Guard
from refusal_eval.engines.process import KILL_WAIT, send_signal, session_members

LOG = logging.getLogger(__name__)


class ServerProcess:
    """A command in a session of its own, which ends with this process.

    Args:
        command: program and arguments.
        environment: all of its environment.
        log: file for what it prints.
        files: open files that it inherits.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], log: Path, files: Collection[int] = ()
    ) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.command, self.log = list(command), log
        self._guard = Guard(files)
        try:
            with open(log, "wb") as output:
                self._process = subprocess.Popen(
                    self.command,
                    env=dict(environment),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    pass_fds=files,
                    start_new_session=True,
                )
        except BaseException:
            self._guard.dismiss()
            raise
        self.pid = self._process.pid  # also the number of its session and of its group
        self._guard.watch(self.pid)
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
                self._guard.dismiss()
                self._over = True  # first: once it is waited for, its number may be another's
                self._process.wait()
            elif time.monotonic() >= deadline:
                return
            else:
                time.sleep(0.05)
