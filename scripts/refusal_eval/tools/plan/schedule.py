"""Which engine load starts when: the order of jobs, the makespan it gives, what no order can beat, and a proposal."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from refusal_eval.core.errors import UserError
from refusal_eval.tools.plan.workload import Load

LEAST_SHARDS_TRIED = 8
MOST_SHARDS = 64  # that a study may ask for
# A setting that takes this much longer than the fastest is good enough, and among those the one that costs least wins.
SLACK = 1.05

Capacity = Mapping[str, int]


@dataclass(frozen=True)
class Option:
    """A setting, with what it is estimated to take.

    Attributes:
        batch: cell, model or engine.
        shards: parts of a batch.
        loads: engine loads that have something to execute.
        device_seconds: devices times seconds over all loads.
        bound: seconds that no order of these loads can beat.
        makespan: seconds from the first start to the last end, as list scheduling gives it.
    """

    batch: str
    shards: int
    loads: int
    device_seconds: float
    bound: float
    makespan: float


def tails(loads: Sequence[Load]) -> dict[Load, float]:
    """Return for each load the seconds from its start until all that waits for it can have ended.

    For generation: the load and the longest judging of its answers. This is what "longest first" orders by.
    """
    judging: dict[str, float] = {}
    for load in loads:
        for batch in load.after:
            judging[batch] = max(judging.get(batch, 0.0), load.seconds)
    return {load: load.seconds + (judging.get(load.batch, 0.0) if load.stage == "generate" else 0.0) for load in loads}


def lower_bound(loads: Sequence[Load], capacity: Capacity) -> float:
    """Return the seconds that no order of these loads can beat.

    The larger of: devices times seconds over all loads, shared evenly by the devices; the longest chain of a
    generation and the judging of its answers. (The longest load by itself is part of a chain.)

    Args:
        loads: all loads of a study.
        capacity: devices of each kind.
    """
    shared = [
        sum(load.device_seconds for load in loads if load.kind == kind) / count
        for kind, count in capacity.items()
        if count
    ]
    return max([*shared, *tails(loads).values()], default=0.0)


def list_schedule(
    loads: Sequence[Load], capacity: Capacity, rank: Callable[[Load], float] | None = None
) -> dict[Load, tuple[float, float]]:
    """Return start and end (seconds) of every load, as Snakemake's greedy scheduler would have it.

    Whenever a device becomes free, the ready loads are gone through in the order of their rank, and each that fits
    starts. A load that does not fit keeps no device free for itself.

    Args:
        loads: all loads of a study.
        capacity: devices of each kind.
        rank: the higher, the earlier; default: longest first (`tails`).

    Raises:
        UserError: if a load takes more devices than there are.
    """
    check_capacity(loads, capacity)
    order = tails(loads)
    ranked = sorted(
        loads, key=lambda load: (-(rank(load) if rank else order[load]), load.stage, load.batch, load.shard)
    )
    open_shards: dict[str, int] = {}
    for load in loads:
        if load.stage == "generate":
            open_shards[load.batch] = open_shards.get(load.batch, 0) + 1
    free, now = dict(capacity), 0.0
    running: list[tuple[float, int, Load]] = []
    times: dict[Load, tuple[float, float]] = {}
    while ranked or running:
        waiting = []
        for load in ranked:
            if load.devices <= free[load.kind] and not any(open_shards.get(batch) for batch in load.after):
                free[load.kind] -= load.devices
                times[load] = (now, now + load.seconds)
                heapq.heappush(running, (now + load.seconds, len(times), load))
            else:
                waiting.append(load)
        ranked = waiting
        now = running[0][0]
        while running and running[0][0] <= now:
            _, _, ended = heapq.heappop(running)
            free[ended.kind] += ended.devices
            if ended.stage == "generate":
                open_shards[ended.batch] -= 1
    return times


def check_capacity(loads: Iterable[Load], capacity: Capacity) -> None:
    """Raise `UserError` if a load takes more devices than there are."""
    for load in loads:
        if load.devices > capacity.get(load.kind, 0):
            raise UserError(
                f"one load of engine `{load.engine}` takes {load.devices} GPUs (tensor x pipeline x data parallel), "
                f"and there are {capacity.get(load.kind, 0)}: give at least --gpus {load.devices}"
            )


def option(batch: str, shards: int, loads: Sequence[Load], capacity: Capacity) -> Option:
    """Return what a setting is estimated to take."""
    times = list_schedule(loads, capacity)
    return Option(
        batch=batch,
        shards=shards,
        loads=sum(load.requests > 0 for load in loads),
        device_seconds=sum(load.device_seconds for load in loads),
        bound=lower_bound(loads, capacity),
        makespan=max((end for _, end in times.values()), default=0.0),
    )


def options(loads_of: Callable[[str, int], Sequence[Load]], capacity: Capacity) -> list[Option]:
    """Return the settings that are worth a thought, from few loads to many.

    Args:
        loads_of: gives the loads of a study under a `batch` and `shards`.
        capacity: devices of each kind.
    """
    most = min(max([LEAST_SHARDS_TRIED, *capacity.values()]), MOST_SHARDS)
    settings = [(batch, shards) for batch in ("engine", "model") for shards in range(1, most + 1)]
    # A shard of a cell would start an engine for a handful of requests.
    return [option(batch, shards, loads_of(batch, shards), capacity) for batch, shards in [*settings, ("cell", 1)]]


def proposed(found: Sequence[Option]) -> Option:
    """Return the setting to take: of those that are about as fast as the fastest the one with the fewest loads."""
    fastest = min(option.makespan for option in found)
    good = [option for option in found if option.makespan <= SLACK * fastest]
    return min(good, key=lambda option: (option.loads, option.device_seconds, option.makespan))
