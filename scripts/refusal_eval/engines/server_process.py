"""A server process that ends with the job that started it, however that goes, and takes its children along (Linux).

A killed job cannot stop its server, and the server does not notice: vLLM's engine core outlives its API server, with
its memory. So every server has a guard, this module run as a small companion process: it reads a pipe of which only the
job holds the other end, and ends the server's session when that is closed. It needs nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from refusal_eval.core.errors import UserError
from refusal_eval.engines.process import end_processes, session_members

LOG = logging.getLogger(__name__)
PACKAGES = Path(__file__).resolve().parents[2]


class ServerProcess:
    """A command in a session of its own, which ends with this process. It inherits the open `files`, and its guard.

    Raises:
        UserError: if the program cannot be run.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], log: Path, files: Collection[int] = ()
    ) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.command, self.log = list(command), log
        self._guard = _start_guard(files)  # before the server, so that no moment is unguarded
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
        except BaseException as error:
            self._dismiss_guard()
            if isinstance(error, OSError):
                raise UserError(f"the engine's Python {self.command[0]} cannot be run: {error}") from error
            raise
        self.pid = self._process.pid  # also the number of its session and of its group
        assert self._guard.stdin
        with contextlib.suppress(BrokenPipeError):  # somebody killed it; the next run finds what a killed job left
            self._guard.stdin.write(f"{self.pid}\n".encode("ascii"))
            self._guard.stdin.flush()
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

        It may be dead already while its children live. An exception in the wait goes on to the caller after SIGKILL was
        sent. A second call does nothing, unless the first left something alive.
        """
        if self._over:
            return
        try:
            end_processes(lambda: session_members(self.pid), grace)
        finally:
            if left := session_members(self.pid):
                pids = ", ".join(str(process.pid) for process in left)
                LOG.warning("processes of the server are still there after SIGKILL: %s", pids)
            else:
                self._dismiss_guard()
                self._over = True  # first: once it is waited for, its number may be another's
                self._process.wait()

    def _dismiss_guard(self) -> None:
        self._guard.kill()
        self._guard.communicate()


def _start_guard(files: Collection[int]) -> subprocess.Popen[bytes]:
    """Start a guard; it keeps the open `files`, the locks of the server's devices, open too."""
    return subprocess.Popen(
        [sys.executable, "-S", "-m", __name__],
        env={**os.environ, "PYTHONPATH": str(PACKAGES)},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        pass_fds=files,
        start_new_session=True,  # Ctrl-C is for the job, which then stops its server itself
    )


def guard(grace: float = 10.0) -> None:
    """Wait until the other end of standard input is closed, then end the session that was named there."""
    if words := sys.stdin.buffer.read().split():
        end_processes(lambda: session_members(int(words[0])), grace)


if __name__ == "__main__":
    guard()
