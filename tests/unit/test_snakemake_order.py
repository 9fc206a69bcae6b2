"""Snakemake's own greedy scheduler, in a time of ours: it starts engine loads as the model of it says."""

import heapq
import logging
import random
from types import SimpleNamespace

import pytest
from snakemake.scheduling.greedy import Scheduler, SchedulerSettings

from refusal_eval.tools.plan.schedule import list_schedule, lower_bound, tails
from refusal_eval.tools.plan.workload import Load

GPUS, CORES = 8, 64


def study(seed, widths=(1, 1, 2, 2, 4), judges=(1, 2), shards=1):
    """Return the loads of a made-up study of five models and two judges, `batch: model`."""
    generator = random.Random(seed)
    loads = []
    for model, devices in enumerate(widths):
        start, work = generator.uniform(60, 300), generator.uniform(200, 4000)
        for shard in range(shards):
            loads.append(Load("generate", f"g{model}", shard, f"e{model}", "cuda", devices, 9, start, work / shards))
        for judge, gpus in enumerate(judges):
            times = (generator.uniform(60, 150), generator.uniform(50, 900) / shards)
            after = frozenset([f"g{model}"])
            loads += [
                Load("judge", f"j{judge}{model}", shard, f"j{judge}", "cuda", gpus, 9, *times, after)
                for shard in range(shards)
            ]
    return loads


def snakemakes_schedule(loads):
    """Return start and end of every load, as Snakemake's scheduler selects jobs that are ready and fit."""
    scheduler = Scheduler(None, SchedulerSettings(), logging.getLogger())
    order = tails(loads)
    longest = max(order.values())
    jobs = {
        id(job): (job, load)
        for load in loads
        for job in [
            SimpleNamespace(
                priority=round(49 * order[load] / longest, 4),  # as `Order` has it
                scheduler_resources={"gpu": load.devices, "_cores": 4, "_job_count": 1},
                input=[],
            )
        ]
    }
    free, now, times, running = {"gpu": GPUS, "_cores": CORES, "_job_count": 1000}, 0.0, {}, []
    while len(times) < len(loads) or running:
        ended = {load.batch for load in loads if load not in times or times[load][1] > now}
        ready = [job for job, load in jobs.values() if load not in times and not load.after & ended]
        for job in scheduler.select_jobs(ready, ready, free, {}) if ready else []:
            load = jobs[id(job)][1]
            times[load] = (now, now + load.seconds)
            heapq.heappush(running, (now + load.seconds, len(times), job))
            for name, count in job.scheduler_resources.items():
                free[name] -= count
        now = running[0][0]
        while running and running[0][0] <= now:
            for name, count in heapq.heappop(running)[2].scheduler_resources.items():
                free[name] += count
    return times


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("shards", [1, 3])
def test_snakemake_starts_each_load_when_the_model_says(seed, shards):
    loads = study(seed, shards=shards)
    found = snakemakes_schedule(loads)
    assert max(end for _, end in found.values()) == pytest.approx(
        max(end for _, end in list_schedule(loads, {"cuda": GPUS}).values())
    )


@pytest.mark.parametrize("widths", [(1, 1, 2, 2, 4), (1, 1, 1, 1, 8), (4, 4, 4, 4, 1)])
def test_neither_wide_nor_narrow_loads_hold_up_the_study(widths):
    ratios = []
    for seed in range(40):
        loads = study(seed, widths, shards=3)
        ratios.append(max(end for _, end in snakemakes_schedule(loads).values()) / lower_bound(loads, {"cuda": GPUS}))
    assert sum(ratios) / len(ratios) < 1.15
    assert max(ratios) < 1.5  # a wide load may wait until the others are done, and not longer
