"""Show what a study will cost before anything runs: requests, engine loads, device-hours, and the `batch` to take.

Nothing is run and nothing is written; no GPU is needed. Times are estimates from the sizes of engines and texts
(scripts/refusal_eval/workload.py says what they rest on). Requests that the store has already are left out where
request files tell of them, as the last run left them; what a change of the study adds to them, the next run finds out.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from show_status import ROOT, load_config

from refusal_eval.config import ConfigError
from refusal_eval.errors import UserError
from refusal_eval.plan import Cell, generation_batches, judging_batches
from refusal_eval.schedule import Option, option, options, proposed
from refusal_eval.workload import ASSUMED, MISSING, CellWork, Load, Pace, loads_of
from refusal_eval.workload_files import cell_work, engine_paces

STAGES = {"generate": "answers", "judge": "verdicts"}


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a study takes.

    Attributes:
        config: the validated study.
        work: what is to be executed for every cell.
        paces: the estimated pace of every engine.
        sizes: in words, how large each engine is and what told it.
        capacity: devices of each kind.
        now: the study's own setting.
        options: all settings that were compared.
    """

    config: dict[str, Any]
    work: dict[Cell, CellWork]
    paces: dict[str, Pace]
    sizes: dict[str, str]
    capacity: dict[str, int]
    now: Option
    options: list[Option]

    def loads(self, batch: str, shards: int) -> list[Load]:
        """Return the engine loads under a setting."""
        return loads_of(self.config, self.work, self.paces, batch, shards)

    @property
    def proposal(self) -> Option:
        """The setting to take."""
        return proposed([self.now, *self.options])


def plan_study(config: dict[str, Any], gpus: int) -> Plan:
    """Return what a study takes on a machine (or a share of a cluster) with this many GPUs.

    Raises:
        UserError: if an engine takes more GPUs than there are, or a file cannot be read.
    """
    work = cell_work(config, ROOT, in_store=True)
    paces, sizes = engine_paces(config, ROOT)
    capacity = {"cuda": gpus, "cpu": 1}  # a CPU engine takes the whole machine

    def loads(batch: str, shards: int) -> list[Load]:
        return loads_of(config, work, paces, batch, shards)

    now = option(config["batch"], config["shards"], loads(config["batch"], config["shards"]), capacity)
    return Plan(config, work, paces, sizes, capacity, now, options(loads, capacity))


def plan_table(plan: Plan, every: bool) -> str:
    """Return a plan as text."""
    loads = plan.loads(plan.now.batch, plan.now.shards)
    batches = {"generate": generation_batches(plan.config), "judge": judging_batches(plan.config)}
    lines = [f"Study {plan.config['study']} on {_devices(plan)}. Times are estimates.", ""]
    for stage, what in STAGES.items():
        cells = {cell: work for cell, work in plan.work.items() if (cell.judge is not None) == (stage == "judge")}
        of_stage = [load for load in loads if load.stage == stage and load.requests]
        counts = f"{len(cells):,} cells, {sum(work.requests for work in cells.values()):,} requests to execute"
        shape = f"{len(batches[stage]):,} batches, {len(of_stage):,} engine loads"
        lines += [f"{what:<10}{counts} ({_known(cells.values())}); {shape}"]
    lines += ["", f"{'engine':<28}{'devices':>8}{'start':>8}{'tokens/s':>10}{'loads':>7}{'hours':>8}   size"]
    for name, pace in plan.paces.items():
        own = [load for load in loads if load.engine == name and load.requests]
        hours = sum(load.device_seconds for load in own) / 3600
        device = "CPU" if pace.kind == "cpu" else str(pace.devices)
        lines.append(
            f"{name:<28}{device:>8}{pace.start_seconds:>6.0f} s{pace.write_rate:>10,.0f}{len(own):>7}{hours:>8.2f}"
            f"   {plan.sizes[name]}"
        )
    lines += ["", f"{'setting':<36}{'loads':>8}{'device-hours':>14}{'lower bound':>14}{'makespan':>14}{'ratio':>8}"]
    lines.append(_option_line(plan.now, "now: "))
    lines.append(_option_line(plan.proposal, "proposed: "))
    if every:
        lines += ["", *(_option_line(found, "") for found in plan.options)]
    return "\n".join([*lines, "", _advice(plan)])


def _devices(plan: Plan) -> str:
    kinds = {pace.kind for pace in plan.paces.values()}
    parts = ["one CPU engine at a time"] if "cpu" in kinds else []
    return " and ".join([f"{plan.capacity['cuda']} GPUs", *parts] if "cuda" in kinds else parts)


def _known(works: Iterable[CellWork]) -> str:
    known = Counter(work.known for work in works)
    if len(known) == 1:
        return next(iter(known))
    return ", ".join(f"{count} cells: {how}" for how, count in sorted(known.items()))


def _option_line(found: Option, word: str) -> str:
    name = f"{word}batch: {found.batch}, shards: {found.shards}"
    ratio = found.makespan / found.bound if found.bound else 1.0
    hours, bound, makespan = found.device_seconds / 3600, _time(found.bound), _time(found.makespan)
    return f"{name:<36}{found.loads:>8,}{hours:>14.2f}{bound:>14}{makespan:>14}{ratio:>8.2f}"


def _time(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{seconds / 60:.1f} min"


def _advice(plan: Plan) -> str:
    best = plan.proposal
    if not any(work.requests for work in plan.work.values()):
        return "The store has every response: no engine will be started."
    if (best.batch, best.shards) == (plan.now.batch, plan.now.shards):
        return "The study's own setting is the proposed one."
    return f"Write `batch: {best.batch}` and `shards: {best.shards}` into the study; no response is lost by it."


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--configfile", type=Path, metavar="STUDY.yaml", help="the study; default: the demo")
    parser.add_argument("--directory", type=Path, metavar="FOLDER", help="working folder, as snakemake's")
    parser.add_argument("--gpus", type=int, default=1, help="GPUs that may be in use at one time (default 1)")
    parser.add_argument("--all", action="store_true", help="all settings that were compared")
    parser.add_argument("--json", action="store_true", help="everything as JSON")
    chosen = parser.parse_args(arguments)
    from snakemake.exceptions import WorkflowError

    study_file = chosen.configfile.absolute() if chosen.configfile else ROOT / "config" / "config.yaml"
    try:
        if chosen.directory:
            os.chdir(chosen.directory)
        plan = plan_study(load_config(study_file), chosen.gpus)
    except (ConfigError, UserError, WorkflowError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(as_json(plan), indent=2) if chosen.json else plan_table(plan, chosen.all))
    return 0


def as_json(plan: Plan) -> dict[str, Any]:
    """Return a plan as plain values."""
    requests = {
        stage: sum(work.requests for cell, work in plan.work.items() if (cell.judge is not None) == (stage == "judge"))
        for stage in STAGES
    }
    return {
        "study": plan.config["study"],
        "gpus": plan.capacity["cuda"],
        "requests": requests,
        "counted_in_store": all(work.known == MISSING for work in plan.work.values()),
        "assumed": any(work.known == ASSUMED for work in plan.work.values()),
        "engines": {name: {**dataclasses.asdict(pace), "size": plan.sizes[name]} for name, pace in plan.paces.items()},
        "now": dataclasses.asdict(plan.now),
        "proposed": dataclasses.asdict(plan.proposal),
        "options": [dataclasses.asdict(found) for found in plan.options],
    }


if __name__ == "__main__":
    sys.exit(main())
