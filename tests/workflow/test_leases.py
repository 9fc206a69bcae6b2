"""Twenty jobs at a time on eight simulated devices, some of them killed in every way: no device twice, none lost."""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from refusal_eval.engines.devices.lease import lease_devices

JOB = Path(__file__).with_name("leased_job.py")
GUARD = "refusal_eval.engines.server_process"
DEVICES, JOBS = 8, 20


@pytest.fixture
def machine(tmp_path, monkeypatch, repository):
    """Return a folder, with a machine of eight simulated GPUs in the environment."""
    program = tmp_path / "nvidia-smi"
    listed = "\n".join(f"{n}, Simulated, GPU-{n}000" for n in range(DEVICES))
    program.write_text(f"#!/bin/sh\ncase $1 in --query-gpu=*) cat <<.\nindex, name, uuid\n{listed}\n.\nesac\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("REFUSAL_EVAL_LOCKS", str(tmp_path / "locks"))
    monkeypatch.setenv("PYTHONPATH", str(repository / "scripts"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path


def kill(job, how):
    """Kill the job; or its server's first process; or both and the guard, so that only the worker lives on."""
    victims = {"job": [], "server": [], "all": []}
    with suppress(psutil.NoSuchProcess):
        children = job.children()
        guards = [child for child in children if GUARD in child.cmdline()]
        servers = [child for child in children if child not in guards]
        victims = {"job": [job], "server": servers, "all": [*guards, *servers, job]}
    for victim in victims[how]:
        with suppress(psutil.NoSuchProcess):
            victim.send_signal(signal.SIGKILL)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.full)])
def test_no_device_is_leased_twice_and_none_is_lost(seed, machine):
    draw = random.Random(seed)
    jobs = {}
    for number in range(JOBS):
        count, hold = draw.choice([1, 1, 2, 4, 8]), draw.uniform(0.2, 1.5)
        command = [sys.executable, str(JOB), str(machine), str(number), str(count), str(hold)]
        jobs[str(number)] = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    killed = {}
    deadline = time.monotonic() + 240
    while any(job.poll() is None for job in jobs.values()):
        assert time.monotonic() < deadline, "a job waits for ever"
        using = [name for name in jobs if (machine / f"using-{name}").exists() and name not in killed]
        living = [name for name in using if jobs[name].poll() is None]
        if living and len(killed) < 9 and draw.random() < 0.3:
            name, how = draw.choice(living), ["job", "server", "all"][len(killed) % 3]
            kill(psutil.Process(jobs[name].pid), how)
            killed[name] = how
        time.sleep(0.05)
    assert sorted(machine.glob("twice-*")) == []
    unhurt = set(jobs) - set(killed)
    assert all((machine / f"done-{name}").exists() and jobs[name].returncode == 0 for name in unhurt)
    assert len(killed) >= 5, "enough of them were killed to show something"
    # All eight are free once the last worker is gone, which nobody stops after everything else was killed.
    lease = lease_devices(DEVICES, os.environ, time.monotonic() + 15)
    assert len(lease.devices) == DEVICES
    lease.release()
    rows = [line.split() for line in (machine / "used").read_text().splitlines()]
    seconds = sum(int(count) * float(held) for _, count, held in rows)
    print(f"{len(rows)} leases, {len(killed)} jobs killed, {seconds:.0f} device seconds")
