"""The clock of simulated engines: it passes while a run waits, and stands still while the run computes."""

import os
import signal
import subprocess
import sys
import time

import pytest
from project import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

from simulated_time import Clock, computes, keep_time


@pytest.fixture
def started():
    """Start Python programs; they are gone at the end."""
    runs = []

    def start(code):
        command = [sys.executable, "-I", "-S", "-c", code]
        runs.append(subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True))
        runs[-1].stdout.readline()
        return runs[-1]

    yield start
    for run in runs:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)  # its children, too
        run.wait()


def waited(condition, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_process_that_waits_does_not_compute_and_one_that_works_does(started):
    idle = started("import time; print(1, flush=True); time.sleep(60)")
    waited(lambda: not computes(idle.pid))
    busy = started("print(1, flush=True)\nwhile True: pass")
    waited(lambda: computes(busy.pid))


def test_children_count(started):
    child = "import subprocess, sys; print(1, flush=True); subprocess.run([sys.executable, '-c', 'while True: pass'])"
    parent = started(child)
    waited(lambda: computes(parent.pid))


def test_time_passes_while_a_run_waits_and_all_processes_read_the_same(started, tmp_path):
    clock = Clock(tmp_path / "clock", make=True)
    run = started("import time; print(1, flush=True); time.sleep(1)")
    keep_time(clock, run)
    assert 0 < clock.now() <= 1.2
    assert Clock(tmp_path / "clock").now() == clock.now()


def test_time_stands_still_while_a_run_computes(started, tmp_path):
    clock = Clock(tmp_path / "clock", make=True)
    keep_time(
        clock, started("import time; print(1, flush=True); e = time.monotonic() + 1\nwhile time.monotonic() < e: 0")
    )
    assert clock.now() < 0.3
