"""Cells: how far the answers of a (model, split) are, and the verdicts of a judge on them.

A large study has millions of rows: they are counted without parsing. The files are canonical JSON, in which a quote
inside a text is written `\\"`: what looks like a key of a row is one.
"""

import functools
import itertools
import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from refusal_eval.ask.requests import read_requests
from refusal_eval.ask.store import StoreReader
from refusal_eval.config.change import changes_of
from refusal_eval.core.errors import UserError
from refusal_eval.core.states import FAILED as NO_RESPONSE
from refusal_eval.core.states import JUDGE_FAILED, TOO_LONG
from refusal_eval.study.batches import GOLD, Cell
from refusal_eval.study.study import Study
from refusal_eval.tools.status import status_jobs as jobs
from refusal_eval.tools.status.status_jobs import CurrentFiles, Job, Load, Trouble

ANSWERS, VERDICTS = "answers", "verdicts"
WAITING = "waiting"
REQUESTS, CONVERSATIONS = "requests", "conversations"
WAITS_FOR_ANSWERS, ALL_STORED = "waits for answers", "all in the store, waits for its batch"
# State and note of a cell whose responses are not all there, by the state of its engine load: of several loads the one
# that comes first here.
OF_LOAD = {
    jobs.FAILED: (jobs.FAILED, "engine load failed"),
    jobs.RUNNING: (jobs.RUNNING, "running"),
    jobs.STARTING: (jobs.RUNNING, "engine is starting"),
    jobs.STOPPED: (WAITING, "engine load stopped"),
    jobs.NOT_STARTED: (WAITING, "not executed"),
    jobs.DONE: (WAITING, "new since the last engine load"),
}
SAMPLE_KEY = re.compile(rb'"key":(?:"([0-9a-f]{64})"|null)')
# The state is the last key of a row but for plain values; what a judge of the user's own noted lies deeper.
PLAIN = rb'(?:[-+.0-9eE]+|null|true|false|"[^"\\]*"|\{(?:"[a-z_]+":\d+,?)*\})'  # the last: tokens that are billed
STATE = re.compile(rb'"state":"([a-z_]+)"(?:,"[a-z_]+":%s)*\}\n' % PLAIN)


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
    answered_since: int = 0  # how many of its failed answers have a response by now, as a later load asked again
    # whether its scores (for gold: the judge's card) are there and newer than the verdicts; None where none are made
    scored: bool | None = None
    trouble: Job | None = None  # the job that it waits for, or that failed

    @property
    def cell(self) -> Cell:
        return Cell(self.model, self.split, self.judge)


class Cells:
    """All cells of a study.

    Args:
        failures: jobs that failed, and captures that run or stopped; request files that cannot be read are added.
        loads: the engine loads by stage and batch.
        current: returns the files that Snakemake would not make again.
    """

    def __init__(
        self, study: Study, failures: dict[Job, Trouble], loads: Mapping[Job, Sequence[Load]], current: CurrentFiles
    ) -> None:
        self._study, self._failures, self._current = study, failures, current
        self._loads = {cell: loads[batch] for batch, cells in jobs.batches(study).items() for cell in cells}
        self._store = functools.cache(functools.partial(StoreReader, study.paths.store))

    def statuses(self, only: Collection[str] = ()) -> list[CellStatus]:
        """Return how far the answers and then the verdicts are, in the order of the study; `only`: of these cells.

        What the study does not evaluate, and makes prompts or activations of, comes behind the rest of its kind.
        """
        further = self._study.further_cells
        asked = [*itertools.product(self._study.models, self._study.splits)]
        evaluated = {*asked, *((GOLD, gold) for gold in self._study.gold)}
        asked += [(cell.model, cell.split) for cell in further if cell.judge is None]
        found = [
            self._answers(CellStatus(ANSWERS, *cell, None)) for cell in asked if not only or "/".join(cell) in only
        ]
        made = {(one.model, one.split): self._time("answers", one.cell) if one.current else None for one in found}
        golds = [gold for gold in self._study.gold if not only or f"{GOLD}/{gold}" in only]
        made |= {(GOLD, gold): self._time("answers", Cell(GOLD, gold)) for gold in golds}
        for judge in self._study.every_judge:
            read = [GOLD, *(model for reader, model in self._study.read_pairs if reader == judge)]
            own = [cell for cell in made if judge in self._study.judges and cell in evaluated and cell[0] in read]
            found += [self._verdicts(CellStatus(VERDICTS, *cell, judge, scored=False), made[cell]) for cell in own]
            unscored = [(cell.model, cell.split) for cell in further if cell.judge == judge]
            found += [
                self._verdicts(CellStatus(VERDICTS, *cell, judge), made[cell]) for cell in unscored if cell in made
            ]
        return found

    def _answers(self, status: CellStatus) -> CellStatus:
        """Find out how far a cell's answers are."""
        cell, recorded = status.cell, self._study.every_model[status.model].recorded
        rendered, made = self._time("requests", cell), self._time("answers", cell)
        if recorded:
            status.rendered = status.unit = None
            if made is None:
                return self._waits(status, "answers", "recorded answers not read")
        elif rendered is None:
            return self._waits(status, "requests", "not rendered")
        elif made is None or self._older("answers", cell, made, rendered):
            return self._count(status)
        self._with_states(status)
        status.state, status.note = jobs.DONE, "done"
        return status

    def _verdicts(self, status: CellStatus, answered: float | None) -> CellStatus:
        """Find out how far a judge's verdicts on a cell are.

        Args:
            answered: when its answers were made; None while they are not there or older than their requests.
        """
        cell, asks = status.cell, self._study.every_judge[str(status.judge)].way == "engine"
        if not asks:
            status.rendered = status.unit = None
        if answered is None:
            return self._waits(status, "gold", WAITS_FOR_ANSWERS) if status.model == GOLD else status
        before: float | None = answered
        if asks:
            before = self._time("judge_requests", cell)
            if before is None or self._older("judge_requests", cell, before, answered):
                return self._waits(status, "judge_requests", "not rendered")
        made = self._time("verdicts", cell)
        if made is None or self._older("verdicts", cell, made, before or 0):
            note = "not judged" if made is None else "verdicts older than the answers"
            return self._count(status) if asks else self._waits(status, "verdicts", note)
        self._with_states(status)
        if status.scored is None:
            status.state, status.note = jobs.DONE, "done"
            return status
        rule, noun, what = "score", "scores", "scores"
        if status.model == GOLD:
            rule, noun, what = "judge_card", "cards", "judge's card"
        scored = self._time(noun, cell)
        if scored is None or self._older(noun, cell, scored, made):
            return self._waits(status, rule, f"{what} {'not made' if scored is None else 'older than the verdicts'}")
        status.state, status.note, status.scored = jobs.DONE, "done", True
        return status

    def _count(self, status: CellStatus) -> CellStatus:
        """Count what the store has of the requests of a rendered cell, and find out what it waits for."""
        path, loads = self._study.request_file(status.cell), self._loads[status.cell]
        status.rendered = True
        try:
            file = read_requests(path)
            data = Path(path).read_bytes()
        except (OSError, UserError) as error:
            job = "judge_requests" if status.judge else "requests", str(status.cell)
            self._failures[job] = jobs.damage_of(job, path, error)
            status.state, status.note, status.trouble = jobs.FAILED, "request file cannot be used", job
            return status
        keys = [key.decode("ascii") for key in SAMPLE_KEY.findall(data, data.find(b"\n"))]
        own = [key for key in keys if key]  # the others do not fit the engine
        lost = set(self._store(str(file.header["engine_id"])).missing(own))
        without = [key for key in own if key in lost]
        status.unit = CONVERSATIONS if file.dialogue else REQUESTS
        status.requests, status.too_long, status.stored = len(keys), len(keys) - len(own), len(own) - len(without)
        status.rejected = sum(any(key in load.rejections for load in loads) for key in without)
        status.missing = len(without) - status.rejected
        load = min(loads, key=lambda one: list(OF_LOAD).index(one.state))
        # First turns of dialogues are counted: only a receipt shows that the others are there too.
        complete = status.missing == 0 and (status.unit == REQUESTS or load.state == jobs.DONE)
        if complete and load.state == jobs.DONE:
            return self._waits(status, status.step, f"{status.step} not collected")
        status.state, status.note = (WAITING, ALL_STORED) if complete else OF_LOAD[load.state]
        if self._time(status.step, status.cell) is not None:
            status.note += f", old {status.step}"
        stuck = [load] if load.state != jobs.DONE else loads if status.rejected else []
        status.trouble = next((one.trouble.job for one in stuck if one.trouble), None)
        return status

    def _waits(self, status: CellStatus, rule: str, note: str) -> CellStatus:
        """Return the same as it waits for a rule; failed if that or a job before it did, with the last of these.

        It also waits for captures that run or stopped, where a change of its model is made from activations.
        """
        model = self._study.every_model.get(status.model)
        asked = self._study.engine_judges.get(status.judge) if status.judge else model
        engine = getattr(asked, "engine", "")
        data = self._study.entries("gold" if status.model == GOLD else "split")[status.split]
        names = {engine, *str(status.cell).split("/")}
        changes = changes_of(model) if model else ()
        made = [thing for change in changes for thing in change.made_from(change.value_in(model))]
        names |= {name for _, name in made}
        captures = set[Job]().union(*(jobs.capture_jobs(self._study, *thing) for thing in made))
        names |= jobs.names_of(data.source, getattr(self._study.engines.get(engine), "weights", None))
        before = jobs.ORDER[: jobs.ORDER.index(rule) + 1]
        own = [job for job in self._failures if job in captures or names.issuperset(job[1].split("/"))]
        failed = [job for job in own if job[0] in before]
        status.note, status.trouble = note, max(failed, key=lambda job: jobs.ORDER.index(job[0]), default=None)
        if status.trouble is not None:
            state = self._failures[status.trouble].state
            status.state = jobs.FAILED if state == jobs.FAILED else WAITING
            status.note = f"{note}: {status.trouble[0]} {state}"
        return status

    def _with_states(self, status: CellStatus) -> None:
        """Add the numbers of its answers or verdicts, which are current."""
        counts = Counter(STATE.findall(Path(self._file(status.step, status.cell)).read_bytes()))
        status.current, status.states = True, {state.decode("ascii"): count for state, count in counts.items()}
        if status.unit is not None:
            rows, too_long = counts.total(), status.states.get(TOO_LONG, 0)
            lost = status.states.get(NO_RESPONSE, 0) + status.states.get(JUDGE_FAILED, 0)
            status.rendered = True
            status.requests, status.stored, status.missing = rows, rows - too_long - lost, 0
            status.too_long = too_long if status.step == ANSWERS else None
            if status.step == ANSWERS and status.states.get(NO_RESPONSE):
                status.answered_since = self._answered_since(status.cell)

    def _answered_since(self, cell: Cell) -> int:
        """Return how many answers of a cell that the engine had rejected have a response by now.

        None are counted of dialogues: a turn that follows may have no response yet.
        """
        try:
            header = read_requests(self._file("requests", cell)).header
        except (OSError, UserError):
            return 0
        if "dialogue" in header:
            return 0
        lines = Path(self._file(ANSWERS, cell)).read_bytes().splitlines()
        rows = map(json.loads, (line for line in lines if NO_RESPONSE.encode() in line))
        keys = [row["key"] for row in rows if row["state"] == NO_RESPONSE and row.get("key")]
        lost = set(self._store(str(header["engine_id"])).missing(keys))
        return sum(key not in lost for key in keys)

    def _file(self, noun: str, cell: Cell) -> str:
        names = {"model": cell.model, "split": cell.split, "judge": str(cell.judge), "gold": cell.split}
        return self._study.paths.of(noun, **names)

    def _older(self, noun: str, cell: Cell, made: float, before: float) -> bool:
        return jobs.is_outdated(self._file(noun, cell), made, before, self._current)

    def _time(self, noun: str, cell: Cell) -> float | None:
        return jobs.modified_at(self._file(noun, cell))
