"""What a study costs: its requests, tokens and device-hours by batch, by engine and in all."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.study.batches import Cell
from refusal_eval.tools.plan.workload import MISSING, CellWork, Pace, work_seconds
from refusal_eval.tools.plan.workload_files import current_files, engine_paces, whole_work, work_left
from refusal_eval.tools.status.status_jobs import batches

STAGES = {"generate": "answers", "judge": "verdicts"}


@dataclass(frozen=True)
class Cost:
    """What a batch, a stage, an engine or the whole study takes: sums over its cells."""

    name: str  # of the batch, stage or engine
    stage: str  # generate or judge; empty for sums over both
    engine: str  # the engine's name; empty for sums over several
    cells: int  # how many
    requests: int  # requests to execute
    stored: int  # responses that the store is known to have already
    looked_into: int  # cells whose requests were looked up in the store; of others nobody knows yet
    outdated: int  # cells whose requests of an earlier run no longer hold
    tokens_in: float  # tokens of prompts that are read
    tokens_out: float  # tokens that are generated, as expected
    most_tokens_out: float  # the same if every answer took all that it may have
    loads: int  # engine loads that have something to execute
    device_hours: float  # hours times devices, as expected
    most_device_hours: float  # the same if every answer took all the tokens that it may have
    longest: float  # hours of the longest load


@dataclass(frozen=True)
class Plan:
    """What a study takes."""

    config: dict[str, Any]
    work: dict[Cell, CellWork]  # what is to be executed for every cell of an engine
    whole: dict[Cell, CellWork]  # the same with nothing in the store
    paces: dict[str, Pace]  # the estimated pace of every engine
    sizes: dict[str, str]  # in words, how large each engine is and what told it
    gpus: int  # GPUs that may be in use at one time

    @cached_property
    def batches(self) -> list[Cost]:
        """What every batch takes, generation first."""
        return [
            self._batch(*batch, [self.work[cell] for cell in cells]) for batch, cells in batches(self.config).items()
        ]

    @property
    def engines(self) -> list[Cost]:
        """What every engine takes."""
        return [total(name, [batch for batch in self.batches if batch.engine == name]) for name in self.paces]

    def of_stage(self, stage: str) -> Cost:
        """Return what `generate` or `judge` takes."""
        return total(stage, [batch for batch in self.batches if batch.stage == stage])

    def requests(self, stage: str) -> int:
        """Return the requests of a stage, those included that the store has already."""
        return sum(work.requests for cell, work in self.whole.items() if (cell.judge is not None) == (stage == "judge"))

    def _batch(self, stage: str, name: str, work: list[CellWork]) -> Cost:
        engine = name.split("/")[1]
        pace, requests, shards = self.paces[engine], sum(one.requests for one in work), int(self.config["shards"])
        loads = min(shards, requests)  # no engine is started where the store has everything
        usual, most = (
            (pace.start_seconds + work_seconds(work, pace, shards, longest)) / 3600 for longest in (False, True)
        )
        return Cost(
            name=name,
            stage=stage,
            engine=engine,
            cells=len(work),
            requests=requests,
            stored=sum(one.stored for one in work),
            looked_into=sum(one.known == MISSING for one in work),
            outdated=sum(one.outdated for one in work),
            tokens_in=sum(min(one.requests, one.prompts) * one.tokens_per_prompt for one in work),
            tokens_out=sum(one.requests * one.answer_tokens for one in work),
            most_tokens_out=sum(one.requests * float(one.most_tokens) for one in work),
            loads=loads,
            device_hours=usual * loads * pace.devices,
            most_device_hours=most * loads * pace.devices,
            longest=usual if loads else 0.0,
        )


def plan_study(config: dict[str, Any], study_file: Path, root: Path, gpus: int | None) -> Plan:
    """Return what a study takes on a machine (or a share of a cluster).

    Args:
        config: the validated study; pins may be open.
        study_file: its file.
        root: the repository's folder.
        gpus: GPUs that may be in use at one time; None for as many as the largest engine takes.

    Raises:
        UserError: if an engine takes more GPUs than there are, or a file cannot be read.
    """
    current = current_files(config, study_file, root)
    whole = whole_work(config, root, current)
    paces, sizes = engine_paces(config, root)
    needed = {name: pace.devices for name, pace in paces.items() if pace.kind == "cuda"}
    largest = max(needed, key=needed.__getitem__, default="")
    if gpus is not None and needed and gpus < needed[largest]:
        raise UserError(
            f"one load of engine `{largest}` takes {needed[largest]} GPUs (tensor x pipeline x data parallel), "
            f"and there are {gpus}: give at least --gpus {needed[largest]}"
        )
    return Plan(config, work_left(config, whole, current), whole, paces, sizes, gpus or needed.get(largest, 0))


def total(name: str, costs: Iterable[Cost]) -> Cost:
    """Return the sum of what some batches or engines take."""
    costs = list(costs)
    sums = {field.name: sum(getattr(cost, field.name) for cost in costs) for field in dataclasses.fields(Cost)[3:-1]}
    return Cost(name, "", name, **sums, longest=max((cost.longest for cost in costs), default=0.0))
