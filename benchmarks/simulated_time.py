"""A clock that stands still while a run computes: what machines with few cores add to a simulation does not count.

A run of stand-in engines shares one clock, a file in shared memory. It goes on only while no process of the run wants a
core: so long as scripts start and work, the engines wait with them. On the machines that are simulated such work takes
seconds beside hours. Times of the run are read from this clock. It needs nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

TICK = 0.04  # seconds between two looks at the processes
BUSY = ("R", "D")  # wants a core, or waits for a disk
STAND_IN = b"stand_in_engine.py"


class Clock:
    """The time of a run, in seconds since it began.

    Args:
        file: shared by all processes of the run; made if `make` is set.
        make: begin the time.
    """

    def __init__(self, file: Path, make: bool = False) -> None:
        if make:
            file.write_bytes(struct.pack("d", 0.0))
        with open(file, "r+b") as handle:
            self._memory = mmap.mmap(handle.fileno(), 8)

    def now(self) -> float:
        """Return the time."""
        return float(struct.unpack("d", self._memory[:8])[0])

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._memory[:8] = struct.pack("d", self.now() + seconds)


def keep_time(clock: Clock, run: subprocess.Popen[bytes], sleep: Callable[[float], None] = time.sleep) -> None:
    """Let a run's time pass, as long as none of its processes computes, until the run ends."""
    before = time.monotonic()
    while run.poll() is None:
        sleep(TICK)
        now = time.monotonic()
        if not computes(run.pid):
            # A late look says nothing of the time before it.
            clock.advance(min(now - before, 2 * TICK))
        before = now


def computes(pid: int) -> bool:
    """Tell whether a process or one that descends from it wants a core. Stand-ins do not count, nor what they start."""
    states = dict(_processes())
    children: dict[int, list[int]] = {}
    for number, (parent, _) in states.items():
        children.setdefault(parent, []).append(number)
    todo = [pid]
    while todo:
        number = todo.pop()
        if _is_stand_in(number):
            continue
        if number in states and (states[number][1] in BUSY or any(state in BUSY for state in _threads(number))):
            return True
        todo += children.get(number, [])
    return False


def _processes() -> Iterator[tuple[int, tuple[int, str]]]:
    """Yield number, parent and state of all processes."""
    for name in os.listdir("/proc"):
        if name.isdigit() and (found := _stat(f"/proc/{name}/stat")):
            yield int(name), found


def _threads(pid: int) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/task"):
            if found := _stat(f"/proc/{pid}/task/{name}/stat"):
                yield found[1]


def _stat(path: str) -> tuple[int, str] | None:
    """Return parent and state out of a stat file; None if the process is gone."""
    try:
        with open(path, "rb") as handle:
            state, parent = handle.read().rpartition(b")")[2].split()[:2]
    except (OSError, ValueError):
        return None
    return int(parent), state.decode()


def _is_stand_in(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as handle:
            return STAND_IN in handle.read(4096)
    except OSError:
        return False
