"""Eight simulated GPUs: five models, nine splits and two judges end near the bound that no order of jobs can beat."""

import sys

import pytest
from project import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

import scheduling

from refusal_eval.tools.plan.schedule import list_schedule, options, proposed

SECONDS = 200.0  # that the simulation is to take; polls of a few seconds in all are short beside it


@pytest.fixture
def study(tmp_path):
    return scheduling.written_study(tmp_path / "study", SECONDS)


def test_the_proposed_setting_is_near_its_bound_and_longest_first_is_what_makes_it_so(study):
    best = proposed(options(study.loads, scheduling.CAPACITY))
    loads = study.loads(best.batch, best.shards)
    unordered = list_schedule(loads, scheduling.CAPACITY, rank=lambda load: 0.0)
    assert best.makespan <= scheduling.LIMIT * best.bound
    assert best.makespan < 0.8 * max(end for _, end in unordered.values())
    assert best.loads <= 3 * len({load.engine for load in loads}), "an engine is not started over and over"


@pytest.mark.full
@pytest.mark.timeout(60 * 60)
def test_snakemake_runs_the_proposed_setting_near_its_bound(study, capsys):
    best = proposed(options(study.loads, scheduling.CAPACITY))
    scheduling.prepare(study)
    run = scheduling.run_setting(study, best)  # exits if a device was used twice, or an engine started too often
    with capsys.disabled():
        print(f"\n{best.batch} x {best.shards}: {run.loads} loads, {run.makespan:.0f} s, bound {run.bound:.0f} s")
    assert run.loads == best.loads
    assert run.bound <= run.makespan <= scheduling.LIMIT * run.bound
