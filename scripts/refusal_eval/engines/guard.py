"""End a server when the job that started it is gone, however it went.

A killed job cannot stop its server, and the server does not notice: vLLM's engine core outlives its API server, with
its memory. So every server has a guard, a small process beside the job that reads a pipe of which only the job holds
the other end. It needs nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path

from refusal_eval.engines.process import KILL_WAIT, Process, send_signal, session_members

PACKAGES = Path(__file__).resolve().parents[2]
GRACE = 10.0  # seconds between SIGTERM and SIGKILL


class Guard:
    """The guard of one server, as the job sees it. It is started before the server, so that no moment is unguarded.

    Args:
        files: open files that it keeps open, too: the locks of the server's devices.
    """

    def __init__(self, files: Collection[int] = ()) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-m", "refusal_eval.engines.guard"],
            env={**os.environ, "PYTHONPATH": str(PACKAGES)},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=files,
            start_new_session=True,  # Ctrl-C is for the job, which then stops its server itself
        )

    def watch(self, session: int) -> None:
        """Name the session that is to end with this process."""
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):  # somebody killed it; the next run finds what a killed job left
            self._process.stdin.write(f"{session}\n".encode("ascii"))
            self._process.stdin.flush()

    def dismiss(self) -> None:
        """End the guard, which has nothing left to do."""
        self._process.kill()
        self._process.communicate()


def end_session(session: int, grace: float = GRACE) -> None:
    """End all processes of a session: SIGTERM, and after `grace` seconds SIGKILL."""
    for number, wait in ((signal.SIGTERM, grace), (signal.SIGKILL, KILL_WAIT)):
        deadline, told = time.monotonic() + wait, set[Process]()
        while members := set(session_members(session)):
            for process in members - told:
                send_signal(process, number)
            told |= members
            if time.monotonic() >= deadline:
                break
            time.sleep(0.05)
        else:
            return


def main() -> None:
    """Wait until the other end of standard input is closed, then end the session that was named there."""
    words = sys.stdin.buffer.read().split()
    if words:
        end_session(int(words[0]))


if __name__ == "__main__":
    main()
