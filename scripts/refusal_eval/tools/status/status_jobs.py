"""The jobs of a study: what each one makes, which engine loads are done or run, and what failed and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json
from refusal_eval.study.batches import GOLD, Cell
from refusal_eval.study.paths import Paths
from refusal_eval.study.row_sources import row_source, shown_path
from refusal_eval.study.study import Study
from refusal_eval.tools.status.log_text import at_work, clean, error_and_cause, progress, tail
from refusal_eval.weights.engine_file import weight_source

FAILED, DONE, NOT_STARTED = "failed", "done", "not started"
RUNNING, STARTING, STOPPED = "running", "starting", "stopped"
REJECTED = "rejected"
LOADS = ("generate", "judge")  # their logs are read with their receipts
# A job whose log and store were silent for so long is not running: servers log every ten seconds.
SILENCE = 120.0  # seconds
TIME_LIMIT = "the time limit is reached"  # how scripts/execute.py ends a load whose time is over: nothing went wrong
Job = tuple[str, str]  # a rule, and the name of what it is run for: ("answers", "plain/one"), ("tables", "")


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
        """The job that it is about."""
        return self.rule, self.name


@dataclass(frozen=True)
class Load:
    """One engine load: a shard of a batch."""

    state: str  # done, not started, starting, running, stopped (without an error, or at the time limit) or failed
    trouble: Trouble | None = None  # what there is to tell of a load that is not done
    # what is to be told even when nothing waits for it: rejected requests, and a receipt that is damaged
    always: Trouble | None = None
    rejections: frozenset[str] = field(default_factory=frozenset)  # the keys of rejected requests


def outputs(config: Mapping[str, Any]) -> dict[Job, str]:
    """Return the file (the first, of several) that each job of a study's cells makes, and what these need."""
    paths = Paths(config)
    results, cache = paths.results, paths.cache
    cells = [f"{model}/{split}" for model in config["models"] for split in config["splits"]]
    golds = [f"{GOLD}/{gold}" for gold in config["gold"]]
    files: dict[Job, str] = {}
    for entry in [*config["split_entries"].values(), *config["gold_entries"].values()]:
        files |= {job: f"{cache}/rows/{job[1]}" for job in rows_jobs(entry, cache)}
    for engine, entry in config["engine_entries"].items():
        weights = weight_source(entry["weights"]) if entry.get("weights") else None
        if weights and weights.tokenizer_apart:
            files["fetch_tokenizer", weights.copy_id] = paths.tokenizer_manifest(weights)
        if weights and weights.fetched:
            files["fetch_weights", weights.copy_id] = paths.weights_manifest(weights)
        files["identify_engine", engine] = paths.engine(engine)
    files |= {("prompts", split): f"{results}/prompts/{split}.jsonl" for split in config["splits"]}
    files |= {("gold", gold): f"{results}/answers/{GOLD}/{gold}.jsonl" for gold in config["gold"]}
    files |= {(rule, cell): f"{results}/{rule}/{cell}.jsonl" for cell in cells for rule in ("requests", "answers")}
    asking = Study(config).judges_by("engine")
    for judge in config["judges"]:
        rules = ("judge_requests", "verdicts") if judge in asking else ("verdicts",)
        judged = [f"{judge}/{cell}" for cell in [*cells, *golds]]
        files |= {(rule, name): f"{results}/{rule}/{name}.jsonl" for name in judged for rule in rules}
        files |= {("score", f"{judge}/{cell}"): f"{results}/scores/{judge}/{cell}.parquet" for cell in cells}
        files |= {("judge_card", f"{judge}/{g}"): f"{results}/judge_cards/{judge}/{g}.json" for g in config["gold"]}
    return files | {("check_judge", judge): f"{results}/judges/{judge}.json" for judge in asking}


def rows_jobs(entry: Mapping[str, Any], cache: str) -> list[Job]:
    """Return the job that fetches the rows of a split or of gold; none for local files."""
    source = row_source(entry["source"])
    return [("fetch_rows", source.cached_path(cache).removeprefix(f"{cache}/rows/"))] if source.fetched else []


def engine_jobs(name: str, entry: Mapping[str, Any]) -> list[Job]:
    """Return the jobs that make an engine's identity file."""
    weights = weight_source(entry["weights"]) if entry.get("weights") else None
    if weights is None or not weights.fetched:
        return [("identify_engine", name)]
    fetch = "fetch_tokenizer" if weights.tokenizer_apart else "fetch_weights"
    return [("identify_engine", name), (fetch, weights.copy_id)]


def failures(files: Mapping[Job, str], logs: str) -> dict[Job, Trouble]:
    """Return the jobs whose log ends with an error; of those whose output is known, if it is missing.

    Args:
        files: the output of each job that is known.
        logs: folder of the study's logs.
    """
    rules = {rule for rule, _ in files}
    found: dict[Job, Trouble] = {}
    for log in sorted(Path(logs).rglob("*.log")):
        rule, *rest = log.relative_to(logs).with_suffix("").parts
        job = rule, "/".join(rest)
        if rule in LOADS or (rule in rules and (job not in files or modified(files[job]) is not None)):
            continue
        if told := error_and_cause(tail(log)):
            found[job] = Trouble(*job, FAILED, *told, shown(log))
    return found


def batches(config: Mapping[str, Any]) -> dict[Job, list[Cell]]:
    """Return the cells of each batch by stage (`generate` or `judge`) and name."""
    study = Study(config)
    stages = {"generate": study.generation_batches, "judge": study.judging_batches}
    return {(stage, name): cells for stage, of_stage in stages.items() for name, cells in of_stage.items()}


def engine_loads(config: Mapping[str, Any], now: float) -> dict[Job, list[Load]]:
    """Return the engine loads of each batch, a load for each shard; `now` in seconds since 1970."""
    paths = Paths(config)
    grown = {name: _store_grown(paths, name) for name in config["engine_entries"]}
    return {
        (stage, batch): [
            _load(stage, f"{batch}/{Path(receipt).stem}", receipt, cells, paths, now, grown[batch.split("/")[1]])
            for receipt in paths.receipts(stage, batch)
        ]
        for (stage, batch), cells in batches(config).items()
    }


def _load(
    stage: str, name: str, receipt: str, cells: Sequence[Cell], paths: Paths, now: float, store_grown: float
) -> Load:
    if _outdated(receipt, cells, paths):
        return Load(NOT_STARTED)  # a job that starts takes the receipt away
    try:
        return _done(stage, name, receipt)
    except FileNotFoundError:
        pass
    except (OSError, UserError, KeyError, TypeError, AttributeError) as error:
        text = error if isinstance(error, UserError | OSError) else f"{receipt} is not a receipt"
        trouble = damaged(stage, name, receipt, f"{text}; delete it and run again")
        return Load(FAILED, trouble, trouble)
    log = Path(f"{paths.logs}/{stage}/{name}.log")
    server_log = log.with_suffix(".server.log")
    written = modified(log)
    if written is None:
        return Load(NOT_STARTED)
    text, cause = tail(log), None
    if told := error_and_cause(text, tail(server_log)):
        message, cause = told
        state = STOPPED if message.startswith(TIME_LIMIT) else FAILED
    elif now - max(written, modified(server_log) or 0) > SILENCE:
        state = STOPPED
        message = f"ended without an error and without a receipt (killed?); the last it said: {progress(text)}"
    else:
        state = RUNNING if now - store_grown <= SILENCE or at_work(text) else STARTING
        message = progress(text)
    shown_server_log = shown(server_log) if server_log.exists() else None
    return Load(state, Trouble(stage, name, state, clean(message), cause, shown(log), shown_server_log))


def _outdated(receipt: str, cells: Sequence[Cell], paths: Paths) -> bool:
    """Tell whether there is a receipt and some cell of the batch got its requests after it."""
    written = modified(receipt)
    folders = {cell: f"judge_requests/{cell.judge}" if cell.judge else "requests" for cell in cells}
    asked = [f"{paths.results}/{folder}/{cell.model}/{cell.split}.jsonl" for cell, folder in folders.items()]
    return written is not None and any((modified(file) or 0) > written for file in asked)


def _done(stage: str, name: str, receipt: str) -> Load:
    """Return a load that has a receipt.

    Raises:
        KeyError, TypeError, AttributeError: if it is not one.
    """
    rejected = read_json(receipt)["rejected"]
    reasons = {str(row["key"]): clean(f"HTTP {row.get('status')}: {row.get('message')}") for row in rejected}
    if not reasons:
        return Load(DONE)
    message = f"the engine rejected {len(reasons)} request{'s' if len(reasons) > 1 else ''}"
    trouble = Trouble(stage, name, REJECTED, message, next(iter(reasons.values())), shown(receipt))
    return Load(DONE, always=trouble, rejections=frozenset(reasons))


def damaged(rule: str, name: str, path: str | Path, message: object) -> Trouble:
    """Return the trouble with a file that cannot be used; the file itself stands for the log."""
    return Trouble(rule, name, FAILED, clean(str(message)), None, shown(path))


def modified(path: str | Path) -> float | None:
    """Return when a file was last written (seconds since 1970); None if it is not there."""
    try:
        return Path(path).stat().st_mtime
    except OSError:
        return None


def shown(path: str | Path) -> str:
    """Return a path as it is shown: relative to the working folder when it lies below it."""
    return str(shown_path(path))


def _store_grown(paths: Paths, engine: str) -> float:
    """Return when a store file of an engine was last written to (seconds since 1970; 0 when there is none)."""
    try:
        engine_id = str(read_json(paths.engine(engine))["engine_id"])
        files = list(Path(paths.store, engine_id).glob("*.jsonl"))
    except (OSError, UserError, KeyError, TypeError):
        return 0.0
    return max((modified(file) or 0.0 for file in files), default=0.0)
