"""SIGTERM to a job that serves an engine: it cleans up in full, and says no more than that it was stopped."""

import signal
import subprocess
import sys

import pytest
from project import ROOT

JOB = """
import asyncio, sys, time
from refusal_eval.engines.stopping import end_with_parent, run_stoppable

class Engine:
    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        try:
            if MOMENT == "cleaning":
                print("ready", flush=True)
            await asyncio.sleep(1)
        finally:
            await asyncio.sleep(0.1)
            print("cleaned", flush=True)

async def answer():
    await asyncio.sleep(60)

async def work():
    async with Engine():
        if MOMENT == "cleaning":
            return
        tasks = [asyncio.create_task(answer()) for _ in range(3)]
        await asyncio.sleep(0.1)
        print("ready", flush=True)
        if MOMENT == "waiting for a GPU":
            time.sleep(60)
        await asyncio.gather(*tasks)

MOMENT = sys.argv[1]
end_with_parent()
run_stoppable(work())
"""


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("moment", ["idle", "waiting for a GPU", "cleaning"])
def test_a_stopped_job_cleans_up_and_says_one_line(moment: str, times: int) -> None:
    job = subprocess.Popen(
        [sys.executable, "-c", JOB, moment],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(ROOT / "scripts")},
    )
    assert job.stdout and job.stderr
    assert job.stdout.readline() == "ready\n"
    for _ in range(times):
        job.send_signal(signal.SIGTERM)
    seen = job.stdout.read(), job.stderr.read(), job.wait(20)
    assert seen == ("cleaned\n", "stopped by SIGTERM\n", 1)
