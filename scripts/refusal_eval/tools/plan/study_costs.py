"""The costs of a study: requests, tokens and device-hours by batch, by engine and in total."""

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from refusal_eval.config.kinds import PLAN_PARTS
from refusal_eval.core.errors import UserError
from refusal_eval.program.page_part import PagePart
from refusal_eval.program.program_load import ProgramLoad
from refusal_eval.study.batches import Cell
from refusal_eval.study.study import Study
from refusal_eval.tools.plan.workload import ELSEWHERE, MISSING, CellWork, Pace, pace_of, work_seconds
from refusal_eval.tools.plan.workload_files import (
    CaptureCell,
    current_files,
    program_work,
    states_captured,
    whole_work,
    work_left,
)
from refusal_eval.tools.status.status_jobs import batches
from refusal_eval.weights.engine_size import engine_billions, weights_bytes
from refusal_eval.workflow.weights_stage import weights_files

STAGES = {"generate": "answers", "judge": "verdicts"}
COSTS = {
    "batches": "sum",  # how many
    "cells": "sum",  # how many
    "requests": "sum",  # requests to execute
    "stored": "sum",  # responses that the store is known to have already
    "rejected": "sum",  # requests that the engine rejected for their own sake
    "looked_into": "sum",  # cells whose requests were looked up in the store; the others are unknown yet
    "outdated": "sum",  # cells whose requests of an earlier run no longer hold
    "tokens_in": "sum",  # tokens of prompts that are read
    "tokens_out": "sum",  # tokens that are generated, as expected
    "most_tokens_out": "sum",  # the same if every answer took all that it may have
    "loads": "sum",  # engine loads that have something to execute
    "device_hours": "sum",  # hours times devices, as expected
    "most_device_hours": "sum",  # the same if every answer took all the tokens that it may have
    "longest": "max",  # hours of the longest load
}


@dataclass(frozen=True)
class Plan:
    """What a study takes."""

    study: Study
    work: dict[Cell, CellWork]  # what is to be executed for every cell of an engine
    whole: dict[Cell, CellWork]  # the same with nothing in the store
    paces: dict[str, Pace]  # the estimated pace and size of every engine
    gpus: int  # GPUs that may be in use at one time
    captured: dict[CaptureCell, CellWork]  # what is read for activations, by positions, model and split
    programs: list[tuple[ProgramLoad, CellWork]]  # what programs of features read

    @cached_property
    def batches(self) -> pd.DataFrame:
        """What every batch takes, generation first, captures and programs last: name, stage, engine and `COSTS`."""
        rows = [self._batch(*batch, [self.work[cell] for cell in own]) for batch, own in batches(self.study).items()]
        rows += [self._capture("/".join(names), "activations", names[1], work) for names, work in self.captured.items()]
        rows += [self._capture(load.name, load.stage, load.model, work, load.jobs) for load, work in self.programs]
        return pd.DataFrame(rows, columns=["name", "stage", "engine", *COSTS])

    @property
    def stages(self) -> pd.DataFrame:
        """What `generate` and `judge` take, and in `asked` the requests with those that the store has already."""
        found = self.batches.groupby("stage").agg(COSTS).reindex(list(STAGES), fill_value=0)
        asked = dict.fromkeys(STAGES, 0)
        for cell, work in self.whole.items():
            asked["judge" if cell.judge else "generate"] += work.requests
        return found.assign(asked=pd.Series(asked))

    @property
    def engines(self) -> pd.DataFrame:
        """Costs by engine."""
        return self.batches.groupby("engine").agg(COSTS).reindex(list(self.paces), fill_value=0)

    @cached_property
    def parts(self) -> dict[str, PagePart]:
        """What features add, by name."""
        found = {name: PLAN_PARTS.get(name)(self.study, self.engines) for name in PLAN_PARTS.names()}
        return {name: part for name, part in found.items() if part is not None}

    def _batch(self, stage: str, name: str, work: list[CellWork]) -> dict[str, Any]:
        engine = name.split("/")[1]
        return {
            "name": name,
            "stage": stage,
            "engine": engine,
            "batches": 1,
            "cells": len(work),
            "requests": sum(one.requests for one in work),
            "stored": sum(one.stored for one in work),
            "rejected": sum(one.rejected for one in work),
            "looked_into": sum(one.known == MISSING for one in work),
            "outdated": sum(one.outdated for one in work),
            "tokens_out": sum(one.requests * one.answer_tokens for one in work),
            "most_tokens_out": sum(one.requests * float(one.most_tokens) for one in work),
            **self._loads(engine, work, self.study.settings.shards),
        }

    def _capture(self, name: str, stage: str, model: str, work: CellWork, jobs: int = 1) -> dict[str, Any]:
        """Return the same of jobs that each load a model's engine once, and send it no requests."""
        engine = self.study.every_model[model].engine_name
        about = {"name": name, "stage": stage, "engine": engine, "batches": jobs}
        return dict.fromkeys(COSTS, 0) | about | self._loads(engine, [work], jobs)

    def _loads(self, engine: str, work: list[CellWork], shards: int) -> dict[str, float]:
        """Return what the loads of an engine read and how long they take, with this work in so many equal parts."""
        pace = self.paces[engine]
        loads = min(shards, sum(one.requests for one in work))  # none is started where the store has everything
        usual, most = (
            (pace.start_seconds + work_seconds(work, pace, shards, longest)) / 3600 for longest in (False, True)
        )
        # A server of another party bills every request's prompt, whatever it keeps of earlier ones.
        read = [one.requests if pace == ELSEWHERE else min(one.requests, one.prompts) for one in work]
        return {
            "tokens_in": sum(prompts * one.tokens_per_prompt for prompts, one in zip(read, work, strict=True)),
            "loads": loads,
            "device_hours": usual * loads * pace.devices,
            "most_device_hours": most * loads * pace.devices,
            "longest": usual if loads else 0.0,
        }


def plan_study(config: dict[str, Any], study_file: Path, root: Path, gpus: int | None) -> Plan:
    """Return what a study takes on a machine (or a share of a cluster).

    Args:
        config: the validated study; pins may be open.
        gpus: GPUs that may be in use at one time; None for as many as the largest engine takes.

    Raises:
        UserError: if an engine takes more GPUs than there are, or a file cannot be read.
    """
    study = Study(config)
    current = current_files(study, study_file, root)
    whole = whole_work(study, root, current)
    paces = engine_paces(study, root)
    needed = {name: pace.devices for name, pace in paces.items() if pace.kind == "cuda"}
    largest = max(needed, key=needed.__getitem__, default="")
    if gpus is not None and needed and gpus < needed[largest]:
        raise UserError(
            f"one load of engine `{largest}` takes {needed[largest]} GPUs (tensor x pipeline x data parallel), "
            f"and there are {gpus}: give at least --gpus {needed[largest]}"
        )
    captured, programs = states_captured(study, root, current), program_work(study, root, current)
    left = work_left(study, whole, current)
    return Plan(study, left, whole, paces, gpus or needed.get(largest, 0), captured, programs)


def engine_paces(study: Study, root: Path) -> dict[str, Pace]:
    """Return the pace and the size of every engine."""
    paces = {}
    for name, engine in study.engines.items():
        entry, kind = study.config["engine_entries"][name], engine.device_here(root)
        if kind is None:
            paces[name] = ELSEWHERE
            continue
        devices = engine.gpus(kind) or 1
        billions, known_by = engine_billions(entry, weights_files(study, name), kind, devices)
        pace, total, active = pace_of(entry, kind, devices, billions, study.settings.determinism == "strict"), *billions
        size = f"{total:.3g}B" + (f", {active:.3g}B active" if active != total else "") + f" {known_by}"
        paces[name] = dataclasses.replace(pace, weights=weights_bytes(entry, total), active=active, size=size)
    return paces
