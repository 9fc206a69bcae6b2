"""The jobs of a study: which engine loads are done or run, and what failed and why."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from refusal_eval.ask.store import read_receipt
from refusal_eval.config.source_entries import RowSource, Source
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import shown_path
from refusal_eval.core.log_text import at_work, clean, error_and_cause, progress, tail
from refusal_eval.study.batches import Cell
from refusal_eval.study.files import file_table, is_job_of_study, job_files
from refusal_eval.study.paths import Paths
from refusal_eval.study.study import Study

FAILED, DONE, NOT_STARTED = "failed", "done", "not started"
RUNNING, STARTING, STOPPED = "running", "starting", "stopped"
REJECTED = "rejected"
LOADS = ("generate", "judge")  # their logs are read with their receipts
CAPTURE = "activations"  # loads an engine, too, and writes no receipt
# A job whose log was silent for so long is not running: servers log every ten seconds.
SILENCE = 120.0  # seconds
TIME_LIMIT = "the time limit is reached"  # how a load or a capture ends whose time is over: nothing went wrong
CurrentFiles = Callable[[], Collection[str]]  # asks Snakemake which files it would leave as they are; takes seconds
Job = tuple[str, str]  # a rule, and the name of what it is run for: ("answers", "plain/one"), ("tables", "")
# How jobs are called, by the folder of their logs: in the order in which they wait for each other.
ORDER = list(dict.fromkeys(file.logs.split("/")[0] for file in file_table().values()))


@dataclass(frozen=True)
class Trouble:
    """What failed, what is still running, or what an engine rejected."""

    rule: str
    name: str  # what it was run for
    state: str  # failed, stopped, starting, running or rejected
    message: str  # what is wrong, or how far it has come
    cause: str | None  # what is likely behind it
    log: str  # where to read on
    server_log: str | None = None  # the engine's own log, if there is one

    @property
    def job(self) -> Job:
        return self.rule, self.name


@dataclass(frozen=True)
class Load:
    """One engine load: a shard of a batch."""

    state: str  # done, not started, starting, running, stopped (without an error, or at the time limit) or failed
    trouble: Trouble | None = None  # its trouble, if any
    lasting: bool = False  # whether that is to be reported even when no cell waits for it: what its receipt says
    rejections: frozenset[str] = frozenset()  # the keys of rejected requests


def names_of(*sources: Source | None) -> set[str]:
    """Return what the jobs that fetch these call them."""
    fetched = [one for one in sources if one is not None and one.fetched]
    files = {Path(one.copy_file("")).name for one in fetched if isinstance(one, RowSource)}
    return files | {one.copy_id for one in fetched}


def failures(study: Study) -> dict[Job, Trouble]:
    """Return the jobs whose log ends with an error, those aside that have left the study or made their file since."""
    made, found = job_files(study), dict[Job, Trouble]()
    for log in sorted(Path(study.paths.logs).rglob("*.log")):
        rule, *name = parts = log.relative_to(study.paths.logs).with_suffix("").parts
        if rule in (*LOADS, CAPTURE):
            continue
        if modified_at(made[parts]) is not None if parts in made else is_job_of_study(parts):
            continue
        if trouble_read := error_and_cause(tail(log)):
            job = rule, "/".join(name)
            found[job] = Trouble(*job, FAILED, *trouble_read, shown_path(log))
    return found


def batches(study: Study) -> dict[Job, list[Cell]]:
    """Return the cells of each batch by stage (`generate` or `judge`) and name."""
    stages = zip(LOADS, (study.generation_batches, study.judging_batches), strict=True)
    return {(stage, name): cells for stage, of_stage in stages for name, cells in of_stage.items()}


def requests_file(paths: Paths, cell: Cell) -> str:
    """Return the request file of a cell."""
    if cell.judge:
        return paths.of("judge_requests", judge=cell.judge, model=cell.model, split=cell.split)
    return paths.of("requests", model=cell.model, split=cell.split)


def engine_loads(study: Study, now: float, current: CurrentFiles) -> dict[Job, list[Load]]:
    """Return the engine loads of each batch, a load for each shard; `now` in seconds since 1970."""
    return {
        (stage, batch): [
            _load(study, stage, f"{batch}/{Path(receipt).stem}", receipt, cells, now, current)
            for receipt in study.paths.receipts(stage, batch)
        ]
        for (stage, batch), cells in batches(study).items()
    }


def _load(
    study: Study, stage: str, name: str, receipt: str, cells: Sequence[Cell], now: float, current: CurrentFiles
) -> Load:
    done = modified_at(receipt)
    if done is not None:
        newest = max((modified_at(requests_file(study.paths, cell)) or 0 for cell in cells), default=0)
        if is_outdated(receipt, done, newest, current):
            return Load(NOT_STARTED)  # a job that starts takes the receipt away
        return _finished_load(stage, name, receipt)
    trouble = _unfinished(study, stage, name, ".server.log", now)
    return Load(NOT_STARTED) if trouble is None else Load(trouble.state, trouble)


def capture_jobs(study: Study, use: str, name: str) -> set[Job]:
    """Return the captures that one thing is made from: its use of activations, and its name."""
    own = [capture for capture in study.captures if (capture.use, capture.name) == (use, name)]
    return {(CAPTURE, f"{one.positions}/{one.model}/{side.split}") for one in own for side in one.parts}


def captures(study: Study, now: float) -> dict[Job, Trouble]:
    """Return the captures of activations that failed, run or stopped: those with a log and without their file."""
    files = {"/".join(parts): path for (rule, *parts), path in job_files(study).items() if rule == CAPTURE}
    left = [name for name, path in files.items() if modified_at(path) is None]
    found = (_unfinished(study, CAPTURE, name, ".capture.log", now) for name in left)
    return {trouble.job: trouble for trouble in found if trouble is not None}


def _unfinished(study: Study, stage: str, name: str, server: str, now: float) -> Trouble | None:
    """Return the trouble of an engine job that has not made its file; None if it never started.

    Args:
        server: how the engine's own log ends, in place of `.log`.
    """
    log = Path(study.paths.logs, stage, f"{name}.log")
    server_log = log.with_suffix(server)
    written = modified_at(log)
    if written is None:
        return None
    text, cause = tail(log), None
    if trouble_read := error_and_cause(text, tail(server_log)):
        message, cause = trouble_read
        state = STOPPED if message.startswith(TIME_LIMIT) else FAILED
    elif now - max(written, modified_at(server_log) or 0) > SILENCE:
        state, lacks = STOPPED, "its file" if stage == CAPTURE else "a receipt"
        message = f"ended without an error and without {lacks} (killed?); the last it said: {progress(text)}"
    else:
        state, message = RUNNING if stage == CAPTURE or at_work(text) else STARTING, progress(text)
    shown_server_log = shown_path(server_log) if server_log.exists() else None
    return Trouble(stage, name, state, clean(message), cause, shown_path(log), shown_server_log)


def _finished_load(stage: str, name: str, receipt: str) -> Load:
    """Return a load that has a receipt."""
    try:
        rejected = read_receipt(receipt)["rejected"]
        reasons = {str(row["key"]): clean(f"HTTP {row.get('status')}: {row.get('message')}") for row in rejected}
    except (OSError, UserError) as error:
        return Load(FAILED, damage_of((stage, name), receipt, error), lasting=True)
    if not reasons:
        return Load(DONE)
    message = f"the engine rejected {len(reasons)} request{'s' if len(reasons) > 1 else ''}"
    trouble = Trouble(stage, name, REJECTED, message, next(iter(reasons.values())), shown_path(receipt))
    return Load(DONE, trouble, lasting=True, rejections=frozenset(reasons))


def damage_of(job: Job, path: str, message: object) -> Trouble:
    """Return the trouble with an unusable file, which takes the place of the log."""
    return Trouble(*job, FAILED, clean(str(message)), None, shown_path(path))


def is_outdated(path: str, made: float, before: float, current: CurrentFiles) -> bool:
    """Tell whether a file is older than what it is made from, and Snakemake would make it again.

    Files that were copied or restored have times in any order, and Snakemake knows many of them by their content.
    """
    return made < before and path not in current()


def modified_at(path: str | Path) -> float | None:
    """Return when a file was last written (seconds since 1970); None if it is not there."""
    try:
        return Path(path).stat().st_mtime
    except OSError:
        return None
