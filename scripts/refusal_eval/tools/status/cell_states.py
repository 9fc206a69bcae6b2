"""Cells: how far the answers of a (model, split) are, and the verdicts of a judge on them.

A large study has millions of rows: they are counted without parsing. The files are canonical JSON, in which a quote
inside a text is written `\\"`: what looks like a key of a row is one.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refusal_eval.ask.requests import read_requests
from refusal_eval.ask.store import StoreReader
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import BadFile
from refusal_eval.core.states import FAILED as NO_RESPONSE
from refusal_eval.core.states import JUDGE_FAILED, TOO_LONG
from refusal_eval.study.batches import GOLD, Cell
from refusal_eval.study.study import Study
from refusal_eval.tools.status.status_jobs import (
    DONE,
    FAILED,
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

ANSWERS, VERDICTS = "answers", "verdicts"
WAITING = "waiting"
REQUESTS, CONVERSATIONS = "requests", "conversations"
WAITS_FOR_ANSWERS = "waits for answers"
NOT_RENDERED = "not rendered"
# State and note of a cell whose responses are not all there, by the state of its engine load: of several loads the one
# that comes first here.
OF_LOAD = {
    FAILED: (FAILED, "engine load failed"),
    RUNNING: (RUNNING, "running"),
    STARTING: (RUNNING, "engine is starting"),
    STOPPED: (WAITING, "engine load stopped"),
    NOT_STARTED: (WAITING, "not executed"),
    DONE: (WAITING, "new since the last engine load"),
}
GRAVEST = list(OF_LOAD)
SAMPLE_KEY = re.compile(rb'"key":(?:"([0-9a-f]{64})"|null)')
# The state is the last key of a row but for plain values; what a judge of the user's own noted lies deeper.
STATE = re.compile(rb'"state":"([a-z_]+)"(?:,"[a-z_]+":(?:[-+.0-9eE]+|null|true|false|"[^"\\]*"))*\}\n')


@dataclass
class CellStatus:
    """How far one cell is."""

    step: str  # `answers`, or `verdicts` of `judge`
    model: str  # the model, or `gold`
    split: str  # the split, or the gold
    judge: str | None
    state: str = WAITING  # done, running, failed or waiting
    note: str = WAITS_FOR_ANSWERS  # the same in words
    rendered: bool | None = False  # whether its request file is there (None for judges without an engine)
    # what is counted: requests, or conversations, of whose turns only the first can be counted (None for judges without
    # an engine, which ask for nothing)
    unit: str | None = REQUESTS
    requests: int | None = None  # how many there are (None: not known)
    stored: int | None = None  # how many of them have a response
    missing: int | None = None  # how many of them have none and fit the engine, rejected ones aside
    rejected: int | None = None  # how many the engine rejected for their own sake (None: not known)
    too_long: int | None = None  # how many do not fit the engine (None: not known)
    current: bool = False  # whether its answers or verdicts are there and newer than what they are made from
    states: Mapping[str, int] = field(default_factory=dict)  # how many of its answers or verdicts are in each state
    scored: bool | None = None  # whether its scores (for gold: the judge's card) are there and newer than the verdicts
    trouble: Job | None = None  # the job that it waits for, or that failed

    @property
    def name(self) -> str:
        """Its name in the folders of results: [judge/]model/split."""
        return "/".join(part for part in (self.judge, self.model, self.split) if part)

    @property
    def cell(self) -> Cell:
        """The cell."""
        return Cell(self.model, self.split, self.judge)


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
        loads: Mapping[Job, Sequence[Load]],
        wanted: Callable[[str, str], bool],
    ) -> None:
        self._config, self._files, self._failures = config, files, failures
        self._loads = {cell: loads[batch] for batch, cells in batches(config).items() for cell in cells}
        self._llm_judges = set(Study(config).judges_by("engine"))
        self._wanted = [(model, split) for model in config["models"] for split in config["splits"]]
        self._wanted = [cell for cell in self._wanted if wanted(*cell)]
        self._wanted_gold = [gold for gold in config["gold"] if wanted(GOLD, gold)]

    def statuses(self) -> list[CellStatus]:
        """Return how far the answers and then the verdicts are, in the order of the study."""
        found = [self._answers(CellStatus(ANSWERS, *cell, None)) for cell in self._wanted]
        answered = {(one.model, one.split): self._time("answers", one.name) if one.current else None for one in found}
        answered |= {(GOLD, gold): self._time("gold", gold) for gold in self._wanted_gold}
        for judge in self._config["judges"]:
            found += [
                self._verdicts(CellStatus(VERDICTS, *cell, judge, scored=False), time)
                for cell, time in answered.items()
            ]
        self._count([status for status in found if status.rendered and not status.current])
        return found

    def _answers(self, status: CellStatus) -> CellStatus:
        """Find out how far a cell's answers are, as far as it can be told without the store."""
        config, name, status.note = self._config, status.name, NOT_RENDERED
        rendered, made = self._time("requests", name), self._time("answers", name)
        entry = config["model_entries"][status.model]
        if entry.get("recorded"):
            status.rendered, status.unit, status.note = None, None, "recorded answers not read"
            if made is None:
                return self._blame(status, ("answers", name), ("prompts", status.split))
        elif rendered is None:
            rows = rows_jobs(config["split_entries"][status.split], config["cache_dir"])
            before = [("prompts", status.split), *rows, *self._engine_jobs(entry["engine"])]
            return self._blame(status, ("requests", name), *before)
        else:
            status.rendered = True
            if made is None or made < rendered:
                return status
        status.state, status.note, status.current = DONE, "done", True
        return self._with_states(status)

    def _verdicts(self, status: CellStatus, answered: float | None) -> CellStatus:
        """Find out how far a judge's verdicts on a cell are, as far as it can be told without the store.

        Args:
            status: the cell.
            answered: when its answers were made; None while they are not there or older than their requests.
        """
        asks = status.judge in self._llm_judges
        if not asks:
            status.rendered, status.unit = None, None
        if answered is None:
            if status.model != GOLD:
                return status
            rows = rows_jobs(self._config["gold_entries"][status.split], self._config["cache_dir"])
            return self._blame(status, ("gold", status.split), *rows)
        made, before = self._time("verdicts", status.name), answered
        if asks:
            rendered = self._time("judge_requests", status.name)
            if rendered is None or rendered < answered:
                engine = self._config["judge_entries"][status.judge]["engine"]
                status.note = NOT_RENDERED
                jobs = [("judge_requests", status.name), ("check_judge", str(status.judge))]
                return self._blame(status, *jobs, *self._engine_jobs(engine))
            status.rendered, before = True, rendered
        if made is None or made < before:
            if asks:
                return status
            status.note = "not judged" if made is None else "verdicts older than the answers"
            return self._blame(status, ("verdicts", status.name))
        status.current = True
        return self._scored(self._with_states(status), made)

    def _scored(self, status: CellStatus, judged: float) -> CellStatus:
        """Find out whether what is made of verdicts, which were made at the time `judged`, is there."""
        job, what = ("score", status.name), "scores"
        if status.model == GOLD:
            job, what = ("judge_card", f"{status.judge}/{status.split}"), "judge's card"
        made = self._time(*job)
        if made is not None and made >= judged:
            status.state, status.note, status.scored = DONE, "done", True
            return status
        status.note = f"{what} not made" if made is None else f"{what} older than the verdicts"
        return self._blame(status, job)

    def _count(self, cells: Sequence[CellStatus]) -> None:
        """Count what the store has of the requests of these cells; each engine's store is opened once."""
        asked: dict[str, list[tuple[CellStatus, list[str]]]] = {}
        for status in cells:
            job = "judge_requests" if status.judge else "requests", status.name
            try:
                engine_id, dialogue, keys = read_asked(self._files[job])
            except (OSError, UserError) as error:
                self._failures[job] = damaged(*job, self._files[job], error)
                status.state, status.note, status.trouble = FAILED, "request file cannot be used", job
                continue
            own = [key for key in keys if key]
            status.unit = CONVERSATIONS if dialogue else REQUESTS
            status.requests, status.too_long = len(keys), len(keys) - len(own)
            asked.setdefault(engine_id, []).append((status, own))
        for engine_id, of_engine in sorted(asked.items()):
            store = StoreReader(self._config["store_dir"], engine_id)
            lost = set(store.missing(key for _, own in of_engine for key in own))
            for status, own in of_engine:
                loads = self._loads[status.cell]
                without = [key for key in own if key in lost]
                status.rejected = sum(any(key in load.rejections for load in loads) for key in without)
                status.stored, status.missing = len(own) - len(without), len(without) - status.rejected
                self._wait(status, loads)

    def _wait(self, status: CellStatus, loads: Sequence[Load]) -> None:
        """Find out what a cell waits for whose requests are counted."""
        load = min(loads, key=lambda one: GRAVEST.index(one.state))
        # Of dialogues the first turns are counted: only a receipt tells that the others are there too.
        complete = status.missing == 0 and (status.unit == REQUESTS or load.state == DONE)
        if complete and load.state == DONE:
            status.note = f"{status.step} not collected"
            self._blame(status, (status.step, status.name))
            return
        status.state, status.note = OF_LOAD[load.state]
        if complete:
            status.state, status.note = WAITING, "all in the store, waits for its batch"
        if self._time(status.step, status.name) is not None:
            status.note += f", old {status.step}"
        told = [load.trouble, *(one.always for one in loads if status.rejected)]
        status.trouble = next((one.job for one in told if one is not None), None)

    def _blame(self, status: CellStatus, *jobs: Job) -> CellStatus:
        """Return the same with the first of these jobs that failed, if one did."""
        job = next((job for job in jobs if job in self._failures), None)
        if job is not None:
            status.state, status.note, status.trouble = FAILED, f"{status.note}: {job[0]} failed", job
        return status

    def _with_states(self, status: CellStatus) -> CellStatus:
        """Return the same with the numbers of its answers or verdicts."""
        status.states = states = count_states(self._files[status.step, status.name])
        if status.unit is not None:
            rows, too_long = sum(states.values()), states.get(TOO_LONG, 0)
            lost = states.get(NO_RESPONSE, 0) + states.get(JUDGE_FAILED, 0)
            status.requests, status.stored, status.missing = rows, rows - too_long - lost, 0
            status.too_long = too_long if status.step == ANSWERS else None
        return status

    def _engine_jobs(self, engine: str) -> list[Job]:
        return engine_jobs(engine, self._config["engine_entries"][engine])

    def _time(self, rule: str, name: str) -> float | None:
        return modified(self._files[rule, name])


def read_asked(path: str) -> tuple[str, bool, list[str]]:
    """Return the engine that a request file asks, whether its requests are first turns, and their keys.

    Of dialogues there is the first turn only: later ones follow from its answer. Keys are empty for requests that do
    not fit the engine.

    Raises:
        BadFile: if it is not a request file of this key version.
        OSError: if it cannot be read.
    """
    try:
        header = read_requests(path).header
        engine_id, dialogue = str(header["engine_id"]), bool(header.get("dialogue"))
    except (KeyError, UnicodeDecodeError) as error:
        raise BadFile(f"{path} is damaged: {error!r}; delete it and run again") from error
    data = Path(path).read_bytes()
    return engine_id, dialogue, [key.decode("ascii") for key in SAMPLE_KEY.findall(data, data.find(b"\n"))]


def count_states(path: str) -> dict[str, int]:
    """Return how many rows of an answers or verdicts file are in each state (nothing when it cannot be read)."""
    try:
        counts = Counter(STATE.findall(Path(path).read_bytes()))
    except OSError:
        return {}
    return {state.decode("ascii"): count for state, count in counts.items()}
