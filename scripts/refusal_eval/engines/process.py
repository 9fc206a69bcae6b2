"""A server process that ends with its parent and takes all its own children along."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

PR_SET_PDEATHSIG = 1


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
        self.log = log
        with open(log, "wb") as output:
            self._process = subprocess.Popen(
                list(command),
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        self.pid = self._process.pid

    def exit_code(self) -> int | None:
        """Return the exit code, or None while it runs."""
        return self._process.poll()

    def last_lines(self, count: int = 25) -> str:
        """Return the last lines of the log, for an error message."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(f"    {line[:500]}" for line in lines[-count:])

    def stop(self, grace: float = 15.0) -> None:
        """Stop the process and everything in its session: SIGTERM, and after `grace` seconds SIGKILL."""
        for number, wait in ((signal.SIGTERM, grace), (signal.SIGKILL, 5.0)):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)
            deadline = time.monotonic() + wait
            while time.monotonic() < deadline:
                self._process.poll()
                if not group_alive(self.pid):
                    self._process.wait()
                    return
                time.sleep(0.05)


def group_alive(group: int) -> bool:
    """Tell whether a process of the group still runs (zombies that await their parent do not count)."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                fields = Path(entry.path, "stat").read_text().rsplit(")", 1)[1].split()
                if int(fields[2]) == group and fields[0] not in "ZX":
                    return True
    return False
