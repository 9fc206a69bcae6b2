"""The order of engine loads: longest first, what no order can beat, and the setting that is proposed."""

import dataclasses
import random

import pytest

from refusal_eval.core.errors import UserError
from refusal_eval.tools.plan.schedule import Option, list_schedule, lower_bound, options, proposed, tails
from refusal_eval.tools.plan.workload import Load

GPUS = {"cuda": 8}


def load(name, seconds, devices=1, stage="generate", after=(), kind="cuda", shard=0):
    return Load(stage, name, shard, "engine", kind, devices, 1, 0.0, seconds, frozenset(after))


def makespan(loads, capacity=GPUS, rank=None):
    return max(end for _, end in list_schedule(loads, capacity, rank).values())


def test_longest_first_beats_shortest_first():
    loads = [load("long", 8), *(load(f"s{n}", 2) for n in range(8))]
    assert makespan(loads, {"cuda": 2}) == 12
    assert makespan(loads, {"cuda": 2}, rank=lambda item: -item.seconds) == 16


def test_a_batch_counts_with_the_judging_that_follows():
    loads = [load("a", 3), load("b", 4), load("j", 10, stage="judge", after=["a"])]
    assert tails(loads) == {loads[0]: 13, loads[1]: 4, loads[2]: 10}
    times = list_schedule(loads, {"cuda": 1})
    assert times[loads[0]] == (0, 3) and times[loads[2]] == (3, 13) and times[loads[1]] == (13, 17)


def test_judging_waits_for_all_shards_of_all_its_batches():
    generated = [load("a", 1), load("a", 5, shard=1), load("b", 7)]
    judging = load("j", 1, stage="judge", after=["a", "b"])
    assert list_schedule([*generated, judging], GPUS)[judging] == (7, 8)


def test_devices_are_never_taken_twice_and_none_is_idle_while_something_fits():
    generator = random.Random(1)
    loads = [load(f"b{n}", generator.randint(1, 50), generator.choice([1, 1, 2, 4, 8])) for n in range(60)]
    loads += [load(f"j{n}", 5, 2, "judge", [f"b{n}", f"b{n + 1}"]) for n in range(20)]
    times = list_schedule(loads, GPUS)
    for moment in {start for start, _ in times.values()}:
        taken = [item for item, (start, end) in times.items() if start <= moment < end]
        assert sum(item.devices for item in taken) <= 8
        free = 8 - sum(item.devices for item in taken)
        ended = {item.batch for item, (_, end) in times.items() if end <= moment}
        for item, (start, _) in times.items():
            assert start <= moment or item.devices > free or not item.after <= ended


def test_the_bound_is_the_work_shared_evenly_or_the_longest_chain():
    assert lower_bound([load("a", 8, 4), load("b", 8, 4), load("c", 8, 8)], GPUS) == 16
    chain = [load("a", 8), load("j", 5, stage="judge", after=["a"])]
    assert lower_bound(chain, GPUS) == 13 == makespan(chain)


@pytest.mark.parametrize("seed", range(20))
def test_no_schedule_beats_the_bound(seed):
    generator = random.Random(seed)
    loads = [load(f"b{n}", generator.randint(1, 50), generator.choice([1, 2, 4])) for n in range(9)]
    loads += [load(f"j{n}", generator.randint(1, 50), 1, "judge", [f"b{n}"]) for n in range(9)]
    assert makespan(loads) >= lower_bound(loads, GPUS)


def test_cpu_engines_run_one_at_a_time_beside_gpus():
    loads = [load("a", 4, kind="cpu"), load("b", 4, kind="cpu"), load("c", 4)]
    assert makespan(loads, {"cuda": 1, "cpu": 1}) == 8 == lower_bound(loads, {"cuda": 1, "cpu": 1})
    assert lower_bound(loads[:2], {"cuda": 0, "cpu": 1}) == 8


def test_an_engine_that_does_not_fit_the_machine_is_told():
    with pytest.raises(UserError, match=r"engine `engine` takes 4 GPUs .* there are 2: give at least --gpus 4"):
        list_schedule([load("a", 1, devices=4)], {"cuda": 2})


def test_of_settings_that_are_about_as_fast_the_one_with_fewest_loads_is_proposed():
    fast = Option("model", 8, loads=40, device_seconds=900, bound=100, makespan=100)
    good = Option("engine", 2, loads=10, device_seconds=800, bound=90, makespan=104)
    slow = Option("engine", 1, loads=5, device_seconds=700, bound=90, makespan=130)
    assert proposed([slow, fast, good]) == good
    assert proposed([dataclasses.replace(fast, loads=2), good]).batch == "model"


def test_one_engine_is_spread_over_all_devices_unless_starting_it_costs_more():
    def spread(start, work):
        return lambda batch, shards: [
            dataclasses.replace(load("a", work / shards, shard=n), start_seconds=start) for n in range(shards)
        ]

    assert proposed(options(spread(10.0, 8000.0), GPUS)).shards == 8
    assert proposed(options(spread(100.0, 1.0), GPUS)).shards == 1
