"""Cells: how far the answers of a (model, split) are, and the verdicts of a judge on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.states import FAILED as NO_RESPONSE
from refusal_eval.core.states import JUDGE_FAILED, TOO_LONG
from refusal_eval.study.batches import GOLD, Cell, llm_judges
from refusal_eval.tools.status.job_states import (
    DONE,
    FAILED,
    GRAVEST,
    NOT_STARTED,
    RUNNING,
    STARTING,
    STOPPED,
    Job,
    Load,
    Trouble,
    batches,
    damaged,
    engine_jobs,
    modified,
    rows_jobs,
)
from refusal_eval.tools.status.response_counts import Asked, Counts, count_states, count_stored, read_asked

ANSWERS, VERDICTS = "answers", "verdicts"
WAITING = "waiting"
REQUESTS, CONVERSATIONS = "requests", "conversations"
WAITS_FOR_ANSWERS = "waits for answers"
NOT_RENDERED = "not rendered"
NOT_READ = "recorded answers not read"
# State and note of a cell whose responses are not all there, by the state of its engine load.
OF_LOAD = {
    FAILED: (FAILED, "engine load failed"),
    RUNNING: (RUNNING, "running"),
    STARTING: (RUNNING, "engine is starting"),
    STOPPED: (WAITING, "engine load stopped"),
    NOT_STARTED: (WAITING, "not executed"),
    DONE: (WAITING, "new since the last engine load"),
}


@dataclass(frozen=True)
class CellStatus:
    """How far one cell is.

    Attributes:
        step: `answers`, or `verdicts` of `judge`.
        model: the model, or `gold`.
        split: the split, or the gold.
        judge: the judge; None for answers.
        state: done, running, failed or waiting.
        note: the same in words.
        rendered: whether its request file is there (None for judges without an engine).
        unit: what is counted: requests, or conversations, of whose turns only the first can be counted (None for
            judges without an engine, which ask for nothing).
        requests: how many there are (None: not known).
        stored: how many of them have a response.
        missing: how many of them have none and fit the engine, rejected ones aside.
        rejected: how many the engine rejected for their own sake (None: not known).
        too_long: how many do not fit the engine (None: not known).
        current: whether its answers or verdicts are there and newer than what they are made from.
        states: how many of its answers or verdicts are in each state.
        scored: whether its scores (for gold: the judge's card) are there and newer than the verdicts.
        trouble: the job that it waits for, or that failed.
    """

    step: str
    model: str
    split: str
    judge: str | None
    state: str
    note: str
    rendered: bool | None = None
    unit: str | None = REQUESTS
    requests: int | None = None
    stored: int | None = None
    missing: int | None = None
    rejected: int | None = None
    too_long: int | None = None
    current: bool = False
    states: Mapping[str, int] = field(default_factory=dict)
    scored: bool | None = None
    trouble: Job | None = None

    @property
    def name(self) -> str:
        """Its name in the folders of results: [judge/]model/split."""
        return "/".join(part for part in (self.judge, self.model, self.split) if part)


class Cells:
    """All cells of a study.

    Args:
        config: the validated study.
        files: the file that each job makes.
        failures: jobs that failed; request files that cannot be read are added.
        loads: the engine loads by stage and batch.
        wanted: which (model, split) are asked for.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        files: Mapping[Job, str],
        failures: dict[Job, Trouble],
        loads: Mapping[tuple[str, str], Sequence[Load]],
        wanted: Callable[[str, str], bool],
    ) -> None:
        self._config, self._files, self._failures = config, files, failures
        self._loads = {
            cell: loads[stage, batch]
            for stage, of_stage in batches(config).items()
            for batch, cells in of_stage.items()
            for cell in cells
        }
        self._llm_judges = set(llm_judges(config))
        self._wanted = [
            Cell(model, split) for model in config["models"] for split in config["splits"] if wanted(model, split)
        ]
        self._wanted_gold = [Cell(GOLD, gold) for gold in config["gold"] if wanted(GOLD, gold)]

    def statuses(self) -> list[CellStatus]:
        """Return how far the answers and then the verdicts are, in the order of the study."""
        found = {cell: self._answers(cell) for cell in self._wanted}
        answered = {cell: self._time("answers", found[cell].name) if found[cell].current else None for cell in found}
        answered |= {cell: self._time("gold", cell.split) for cell in self._wanted_gold}
        for judge in self._config["judges"]:
            for cell, time in answered.items():
                of_judge = Cell(cell.model, cell.split, judge)
                found[of_judge] = self._verdicts(of_judge, time)
        open_cells = {status.name: cell for cell, status in found.items() if status.rendered and not status.current}
        asked = {name: what for name, cell in open_cells.items() if (what := self._asked(cell, name)) is not None}
        rejected = {name: self._rejected(open_cells[name]) for name in asked}
        counts = count_stored(self._config["store_dir"], asked, rejected)
        for name, cell in open_cells.items():
            if name in asked:
                found[cell] = self._waiting(_with_counts(found[cell], asked[name], counts[name]), self._loads[cell])
            else:
                job = _requests_rule(cell), name
                found[cell] = replace(found[cell], state=FAILED, note="request file cannot be used", trouble=job)
        return list(found.values())

    def _answers(self, cell: Cell) -> CellStatus:
        """Return the status of a cell's answers, as far as it can be told without the store."""
        name = f"{cell.model}/{cell.split}"
        status = CellStatus(ANSWERS, cell.model, cell.split, None, WAITING, NOT_RENDERED, rendered=False)
        rendered, made = self._time("requests", name), self._time("answers", name)
        if self._config["model_entries"][cell.model].get("recorded"):
            status = replace(status, rendered=None, unit=None, note=NOT_READ)
            if made is None:
                return self._after_failure(status, ("answers", name), ("prompts", cell.split))
            states = count_states(self._files["answers", name])
            return replace(_with_states(status, states), state=DONE, note="done", current=True)
        if rendered is None:
            split = self._config["split_entries"][cell.split]
            engine = self._config["model_entries"][cell.model]["engine"]
            before = [("prompts", cell.split), *rows_jobs(split, self._config["cache_dir"]), *self._engine_jobs(engine)]
            return self._after_failure(status, ("requests", name), *before)
        status = replace(status, rendered=True)
        if made is None or made < rendered:
            return status
        states = count_states(self._files["answers", name])
        return replace(_with_states(status, states), state=DONE, note="done", current=True)

    def _verdicts(self, cell: Cell, answered: float | None) -> CellStatus:
        """Return the status of a judge's verdicts on a cell, as far as it can be told without the store.

        Args:
            cell: the cell.
            answered: when its answers were made; None while they are not there or older than their requests.
        """
        assert cell.judge is not None
        asks = cell.judge in self._llm_judges
        status = CellStatus(
            step=VERDICTS,
            model=cell.model,
            split=cell.split,
            judge=cell.judge,
            state=WAITING,
            note=WAITS_FOR_ANSWERS,
            rendered=False if asks else None,
            unit=REQUESTS if asks else None,
            scored=False,
        )
        if answered is None:
            if cell.model != GOLD:
                return status
            gold = self._config["gold_entries"][cell.split]
            return self._after_failure(status, ("gold", cell.split), *rows_jobs(gold, self._config["cache_dir"]))
        made, before = self._time("verdicts", status.name), answered
        if asks:
            rendered = self._time("judge_requests", status.name)
            if rendered is None or rendered < answered:
                engine = self._config["judge_entries"][cell.judge]["engine"]
                jobs = [("judge_requests", status.name), ("check_judge", cell.judge), *self._engine_jobs(engine)]
                return self._after_failure(replace(status, note=NOT_RENDERED), *jobs)
            status, before = replace(status, rendered=True), rendered
        if made is None or made < before:
            note = "not judged" if made is None else "verdicts older than the answers"
            return status if asks else self._after_failure(replace(status, note=note), ("verdicts", status.name))
        states = count_states(self._files["verdicts", status.name])
        return self._scored(replace(_with_states(status, states), current=True), made)

    def _scored(self, status: CellStatus, judged: float) -> CellStatus:
        """Return the status of a cell whose verdicts were made at the time `judged`."""
        job, what = ("score", status.name), "scores"
        if status.model == GOLD:
            job, what = ("judge_card", f"{status.judge}/{status.split}"), "judge's card"
        made = self._time(*job)
        if made is not None and made >= judged:
            return replace(status, state=DONE, note="done", scored=True)
        note = f"{what} not made" if made is None else f"{what} older than the verdicts"
        return self._after_failure(replace(status, note=note), job)

    def _waiting(self, status: CellStatus, loads: Sequence[Load]) -> CellStatus:
        """Return the status of a cell whose requests are counted: what it waits for."""
        load = min(loads, key=lambda one: GRAVEST.index(one.state))
        # Of dialogues the first turns are counted: only a receipt tells that the others are there too.
        complete = status.missing == 0 and (status.unit == REQUESTS or load.state == DONE)
        if complete and load.state == DONE:
            return self._after_failure(replace(status, note=f"{status.step} not collected"), (status.step, status.name))
        state, note = (WAITING, "all in the store, waits for its batch") if complete else OF_LOAD[load.state]
        if self._time(status.step, status.name) is not None:
            note += f", old {status.step}"
        told = [load.trouble, *(one.rejection() for one in loads if status.rejected)]
        trouble = next((one.job for one in told if one is not None), None)
        return replace(status, state=state, note=note, trouble=trouble)

    def _asked(self, cell: Cell, name: str) -> Asked | None:
        """Return what a cell's request file asks for; None, and a failure, if it cannot be used."""
        job = _requests_rule(cell), name
        try:
            return read_asked(self._files[job])
        except (OSError, UserError) as error:
            self._failures[job] = damaged(*job, self._files[job], error)
            return None

    def _rejected(self, cell: Cell) -> set[str]:
        return {key for load in self._loads[cell] for key in load.rejections}

    def _after_failure(self, status: CellStatus, *jobs: Job) -> CellStatus:
        """Return a status with the first of these jobs that failed, if one did."""
        job = next((job for job in jobs if job in self._failures), None)
        if job is None:
            return status
        return replace(status, state=FAILED, note=f"{status.note}: {job[0]} failed", trouble=job)

    def _engine_jobs(self, engine: str) -> list[Job]:
        return engine_jobs(engine, self._config["engine_entries"][engine])

    def _time(self, rule: str, name: str) -> float | None:
        return modified(self._files[rule, name])


def _requests_rule(cell: Cell) -> str:
    return "judge_requests" if cell.judge else "requests"


def _with_counts(status: CellStatus, asked: Asked, counts: Counts) -> CellStatus:
    """Return a status with the numbers of its requests."""
    return replace(
        status,
        unit=CONVERSATIONS if asked.dialogue else REQUESTS,
        requests=len(asked.keys) + asked.too_long,
        stored=counts.done,
        missing=counts.missing,
        rejected=counts.rejected,
        too_long=asked.too_long,
    )


def _with_states(status: CellStatus, states: Mapping[str, int]) -> CellStatus:
    """Return a status with the numbers of its answers or verdicts."""
    if status.unit is None:
        return replace(status, states=states)
    rows, too_long = sum(states.values()), states.get(TOO_LONG, 0)
    lost = states.get(NO_RESPONSE, 0) + states.get(JUDGE_FAILED, 0)
    known = too_long if status.step == ANSWERS else None
    return replace(status, states=states, requests=rows, stored=rows - too_long - lost, missing=0, too_long=known)
