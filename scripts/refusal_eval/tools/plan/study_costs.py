"""What a study costs: its requests, tokens and device-hours by engine, and the `batch` and `shards` to take."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refusal_eval.study.batches import GOLD, Cell
from refusal_eval.tools.plan.schedule import Option, option, options, proposed
from refusal_eval.tools.plan.workload import MISSING, CellWork, Load, Pace, answer_tokens, loads_of
from refusal_eval.tools.plan.workload_files import cell_work, engine_paces

STAGES = {"generate": "answers", "judge": "verdicts"}


@dataclass(frozen=True)
class Plan:
    """What a study takes.

    Attributes:
        config: the validated study.
        work: what is to be executed for every cell of an engine.
        whole: the same with nothing in the store.
        paces: the estimated pace of every engine.
        sizes: in words, how large each engine is and what told it.
        capacity: devices of each kind.
        store: whether there is a store, of this study or of others.
        fewest: whether there are just as many GPUs as the largest engine takes, because nobody said how many.
        now: the study's own setting.
        options: all settings that were compared.
    """

    config: dict[str, Any]
    work: dict[Cell, CellWork]
    whole: dict[Cell, CellWork]
    paces: dict[str, Pace]
    sizes: dict[str, str]
    capacity: dict[str, int]
    store: bool
    fewest: bool
    now: Option
    options: list[Option]

    @property
    def proposal(self) -> Option:
        """The setting to take."""
        return proposed([self.now, *self.options])

    def loads(self, longest: bool = False) -> list[Load]:
        """Return the engine loads under the study's own setting; `longest`: if every answer took all its tokens."""
        return loads_of(
            self.config, at_length(self.work) if longest else self.work, self.paces, self.now.batch, self.now.shards
        )

    def of_stage(self, stage: str, whole: bool = False) -> list[CellWork]:
        """Return the work of `generate` or of `judge`; `whole`: with nothing in the store."""
        works = self.whole if whole else self.work
        return [work for cell, work in works.items() if (cell.judge is not None) == (stage == "judge")]

    def of_engine(self, name: str) -> list[CellWork]:
        """Return the work of one engine."""
        return [work for cell, work in self.work.items() if _engine(self.config, cell) == name]


@dataclass(frozen=True)
class Tally:
    """Sums over cells.

    Attributes:
        cells: how many.
        requests: requests to execute.
        stored: responses that the store is known to have already.
        looked_into: cells whose requests were looked up in the store; of others nobody knows yet.
        outdated: cells whose requests of an earlier run no longer hold.
        tokens_in: tokens of prompts that are read.
        tokens_out: tokens that are generated, as expected.
        most_tokens_out: the same if every answer took all that it may have.
    """

    cells: int
    requests: int
    stored: int
    looked_into: int
    outdated: int
    tokens_in: float
    tokens_out: float
    most_tokens_out: float


@dataclass(frozen=True)
class EngineCost:
    """What one engine takes under the study's own setting.

    Attributes:
        name: its name in the catalogue.
        tally: sums over its cells.
        loads: engine loads that have something to execute.
        device_hours: hours times devices, as expected.
        most_device_hours: the same if every answer took all the tokens that it may have.
    """

    name: str
    tally: Tally
    loads: int
    device_hours: float
    most_device_hours: float


def plan_study(config: dict[str, Any], root: Path, gpus: int | None) -> Plan:
    """Return what a study takes on a machine (or a share of a cluster).

    Args:
        config: the validated study; pins may be open.
        root: the repository's folder.
        gpus: GPUs that may be in use at one time; None for as many as the largest engine takes.

    Raises:
        UserError: if an engine takes more GPUs than there are, or a file cannot be read.
    """
    work, whole = (cell_work(config, root, in_store) for in_store in (True, False))
    paces, sizes = engine_paces(config, root)
    needed = max((pace.devices for pace in paces.values() if pace.kind == "cuda"), default=1)
    capacity = {"cuda": gpus or needed, "cpu": 1}  # a CPU engine takes the whole machine

    def loads(batch: str, shards: int) -> list[Load]:
        return loads_of(config, work, paces, batch, shards)

    now = option(config["batch"], config["shards"], loads(config["batch"], config["shards"]), capacity)
    store = Path(config["store_dir"]).is_dir()
    return Plan(config, work, whole, paces, sizes, capacity, store, gpus is None, now, options(loads, capacity))


def at_length(work: Mapping[Cell, CellWork]) -> dict[Cell, CellWork]:
    """Return the same work with answers that take all the tokens that they may have, which judges then read."""
    found = {}
    for cell, one in work.items():
        read = one.tokens_per_prompt
        if cell.judge is not None and cell.model != GOLD:
            most = work[Cell(cell.model, cell.split)].most_tokens
            read += most - answer_tokens(most)
        longest = dataclasses.replace(one, answer_tokens=float(one.most_tokens), tokens_per_prompt=read)
        found[cell] = longest
    return found


def tally(works: list[CellWork]) -> Tally:
    """Return the sums over some cells."""
    return Tally(
        cells=len(works),
        requests=sum(work.requests for work in works),
        stored=sum(work.stored for work in works),
        looked_into=sum(work.known == MISSING for work in works),
        outdated=sum(work.outdated for work in works),
        tokens_in=sum(work.read_tokens for work in works),
        tokens_out=sum(work.written_tokens for work in works),
        most_tokens_out=sum(work.requests * float(work.most_tokens) for work in works),
    )


def engine_costs(plan: Plan) -> list[EngineCost]:
    """Return what every engine takes."""
    usual, longest = plan.loads(), plan.loads(longest=True)
    return [
        EngineCost(
            name=name,
            tally=tally(plan.of_engine(name)),
            loads=sum(load.engine == name and load.requests > 0 for load in usual),
            device_hours=_hours(usual, name),
            most_device_hours=_hours(longest, name),
        )
        for name in plan.paces
    ]


def _hours(loads: list[Load], engine: str) -> float:
    return sum(load.device_seconds for load in loads if load.engine == engine) / 3600


def _engine(config: Mapping[str, Any], cell: Cell) -> str:
    entry = config["model_entries"][cell.model] if cell.judge is None else config["judge_entries"][cell.judge]
    return str(entry["engine"])
