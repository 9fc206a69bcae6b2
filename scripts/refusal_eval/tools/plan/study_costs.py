"""What a study costs: its requests, tokens and device-hours by batch, by engine and in all."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.study.batches import GOLD, Cell, generation_batches, judging_batches
from refusal_eval.tools.plan.current_files import current_files
from refusal_eval.tools.plan.workload import MISSING, CellWork, Pace, answer_tokens, work_seconds
from refusal_eval.tools.plan.workload_files import cell_work, engine_paces

STAGES = {"generate": "answers", "judge": "verdicts"}


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
class Cost:
    """What a batch, an engine or all engines take.

    Attributes:
        stage: generate or judge; empty for sums over both.
        name: the batch, or the engine.
        engine: the engine's name.
        tally: sums over its cells.
        loads: engine loads that have something to execute.
        device_hours: hours times devices, as expected.
        most_device_hours: the same if every answer took all the tokens that it may have.
        hours: hours of the longest of its loads.
    """

    stage: str
    name: str
    engine: str
    tally: Tally
    loads: int
    device_hours: float
    most_device_hours: float
    hours: float


@dataclass(frozen=True)
class Plan:
    """What a study takes.

    Attributes:
        config: the validated study.
        work: what is to be executed for every cell of an engine.
        whole: the same with nothing in the store.
        paces: the estimated pace of every engine.
        sizes: in words, how large each engine is and what told it.
        gpus: GPUs that may be in use at one time.
        store: whether there is a store, of this study or of others.
    """

    config: dict[str, Any]
    work: dict[Cell, CellWork]
    whole: dict[Cell, CellWork]
    paces: dict[str, Pace]
    sizes: dict[str, str]
    gpus: int
    store: bool

    def of_stage(self, stage: str, whole: bool = False) -> list[CellWork]:
        """Return the work of `generate` or of `judge`; `whole`: with nothing in the store."""
        works = self.whole if whole else self.work
        return [work for cell, work in works.items() if (cell.judge is not None) == (stage == "judge")]

    def batches(self) -> list[Cost]:
        """Return what every batch takes, generation first."""
        stages = {"generate": generation_batches(self.config), "judge": judging_batches(self.config)}
        longest = at_length(self.work)
        return [
            self._batch(stage, name, [self.work[cell] for cell in cells], [longest[cell] for cell in cells])
            for stage, batches in stages.items()
            for name, cells in batches.items()
        ]

    def engines(self) -> list[Cost]:
        """Return what every engine takes."""
        batches = self.batches()
        return [total(name, [batch for batch in batches if batch.engine == name]) for name in self.paces]

    def _batch(self, stage: str, name: str, work: list[CellWork], longest: list[CellWork]) -> Cost:
        engine = name.split("/")[1]
        pace, sums, shards = self.paces[engine], tally(work), int(self.config["shards"])
        loads = min(shards, sums.requests)  # no engine is started where the store has everything
        usual, most = ((pace.start_seconds + work_seconds(works, pace, shards)) / 3600 for works in (work, longest))
        devices = loads * pace.devices
        return Cost(stage, name, engine, sums, loads, usual * devices, most * devices, usual if loads else 0.0)


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
    work, whole = (cell_work(config, root, current, in_store) for in_store in (True, False))
    paces, sizes = engine_paces(config, root)
    needed = {name: pace.devices for name, pace in paces.items() if pace.kind == "cuda"}
    largest = max(needed, key=needed.__getitem__, default="")
    if gpus is not None and needed and gpus < needed[largest]:
        raise UserError(
            f"one load of engine `{largest}` takes {needed[largest]} GPUs (tensor x pipeline x data parallel), "
            f"and there are {gpus}: give at least --gpus {needed[largest]}"
        )
    store = Path(config["store_dir"]).is_dir()
    return Plan(config, work, whole, paces, sizes, gpus or needed.get(largest, 0), store)


def at_length(work: Mapping[Cell, CellWork]) -> dict[Cell, CellWork]:
    """Return the same work with answers that take all the tokens that they may have, which judges then read."""
    found = {}
    for cell, one in work.items():
        read = one.tokens_per_prompt
        if cell.judge is not None and cell.model != GOLD:
            most = work[Cell(cell.model, cell.split)].most_tokens
            read += most - answer_tokens(most)
        found[cell] = dataclasses.replace(one, answer_tokens=float(one.most_tokens), tokens_per_prompt=read)
    return found


def tally(works: Iterable[CellWork]) -> Tally:
    """Return the sums over some cells."""
    works = list(works)
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


def total(engine: str, costs: Iterable[Cost]) -> Cost:
    """Return the sum of what some batches or engines take."""
    costs = list(costs)
    tallies = [dataclasses.asdict(cost.tally) for cost in costs]
    return Cost(
        stage="",
        name=engine,
        engine=engine,
        tally=Tally(**{field.name: sum(one[field.name] for one in tallies) for field in dataclasses.fields(Tally)}),
        loads=sum(cost.loads for cost in costs),
        device_hours=sum(cost.device_hours for cost in costs),
        most_device_hours=sum(cost.most_device_hours for cost in costs),
        hours=max((cost.hours for cost in costs), default=0.0),
    )
