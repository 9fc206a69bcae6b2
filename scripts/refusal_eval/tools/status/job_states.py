"""The jobs of a study besides engine loads: what each one makes, and what its log says when that is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refusal_eval.study.batches import GOLD, llm_judges
from refusal_eval.study.paths import Paths
from refusal_eval.study.row_sources import FETCHED_KINDS, fetched_path, shown_path
from refusal_eval.study.weight_sources import weights_id
from refusal_eval.tools.status.log_text import clean, error_and_cause, tail

FAILED = "failed"
LOADS = ("generate", "judge")  # their logs are read with their receipts
Job = tuple[str, str]  # a rule, and the name of what it is run for: ("answers", "plain/one"), ("tables", "")


@dataclass(frozen=True)
class Trouble:
    """What failed, what is still running, or what an engine rejected.

    Attributes:
        rule: the rule.
        name: what it was run for.
        state: failed, stopped, starting, running or rejected.
        message: what is wrong, or how far it has come.
        cause: what is likely behind it.
        log: where to read on.
        server_log: the engine's own log, if there is one.
    """

    rule: str
    name: str
    state: str
    message: str
    cause: str | None
    log: str
    server_log: str | None = None

    @property
    def job(self) -> Job:
        """The job that it is about."""
        return self.rule, self.name


class Outputs:
    """The file (the first, of several) that each job makes, and when it was written.

    Args:
        config: the validated study.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.paths = Paths(config)
        self.files = _outputs(config, self.paths)
        self._times: dict[str, float | None] = {}

    def time(self, *job: str) -> float | None:
        """Return when a job's output was written (seconds since 1970); None if it is not there."""
        path = self.files[job[0], job[1]]
        if path not in self._times:
            self._times[path] = modified(path)
        return self._times[path]

    def log(self, rule: str, name: str) -> Path:
        """Return a job's log."""
        return Path(f"{self.paths.logs}/{rule}/{name}.log" if name else f"{self.paths.logs}/{rule}.log")

    def failures(self) -> dict[Job, Trouble]:
        """Return the jobs whose log ends with an error; of those whose output is known, if it is missing."""
        found: dict[Job, Trouble] = {}
        for rule, name in self.files:
            if self.time(rule, name) is None and (trouble := failure(rule, name, self.log(rule, name))):
                found[rule, name] = trouble
        known = {rule for rule, _ in self.files} | {*LOADS}
        for entry in sorted(Path(self.paths.logs).glob("*")):
            rule = entry.name.removesuffix(".log")
            for log in [] if rule in known else sorted(entry.rglob("*.log")) if entry.is_dir() else [entry]:
                name = str(log.relative_to(entry)).removesuffix(".log") if log != entry else ""
                if trouble := failure(rule, name, log):
                    found[rule, name] = trouble
        return found


def failure(rule: str, name: str, log: Path) -> Trouble | None:
    """Return what a job's log says of its failure, if it ends with one."""
    told = error_and_cause(tail(log))
    return Trouble(rule, name, FAILED, *told, shown(log)) if told else None


def damaged(rule: str, name: str, path: str | Path, error: Exception) -> Trouble:
    """Return the trouble with a file that cannot be used; the file itself stands for the log."""
    return Trouble(rule, name, FAILED, clean(str(error)), None, shown(path))


def modified(path: str | Path) -> float | None:
    """Return when a file was last written (seconds since 1970); None if it is not there."""
    try:
        return Path(path).stat().st_mtime
    except OSError:
        return None


def shown(path: str | Path) -> str:
    """Return a path as it is shown: relative to the working folder when it lies below it."""
    return str(shown_path(path))


def rows_jobs(entry: Mapping[str, Any], cache: str) -> list[Job]:
    """Return the job that fetches the rows of a split or of gold; none for local files."""
    source = entry["source"]
    if source["kind"] not in FETCHED_KINDS:
        return []
    return [("fetch_rows", fetched_path(source, cache).removeprefix(f"{cache}/rows/"))]


def engine_jobs(name: str, entry: Mapping[str, Any]) -> list[Job]:
    """Return the jobs that make an engine's identity file."""
    if not entry.get("weights"):
        return [("identify_engine", name)]
    kind, place = entry["weights"]["kind"], weights_id(entry["weights"])
    fetch = {"hub": "fetch_tokenizer", "folder": None}.get(kind, "fetch_weights")
    return [("identify_engine", name), *([(fetch, place)] if fetch else [])]


def _outputs(config: Mapping[str, Any], paths: Paths) -> dict[Job, str]:
    results, cache = paths.results, paths.cache
    cells = [f"{model}/{split}" for model in config["models"] for split in config["splits"]]
    golds = [f"{GOLD}/{gold}" for gold in config["gold"]]
    files: dict[Job, str] = {}
    for entry in [*config["split_entries"].values(), *config["gold_entries"].values()]:
        for job in rows_jobs(entry, cache):
            files[job] = fetched_path(entry["source"], cache)
    for engine, entry in config["engine_entries"].items():
        weights = entry.get("weights") or {"kind": "folder"}
        if weights["kind"] == "hub":
            files["fetch_tokenizer", weights_id(weights)] = paths.tokenizer_manifest(weights)
        if weights["kind"] != "folder":
            files["fetch_weights", weights_id(weights)] = paths.weights_manifest(weights)
        files["identify_engine", engine] = paths.engine(engine)
    files |= {("prompts", split): f"{results}/prompts/{split}.jsonl" for split in config["splits"]}
    files |= {("gold", gold): f"{results}/answers/{GOLD}/{gold}.jsonl" for gold in config["gold"]}
    files |= {("check_judge", judge): f"{results}/judges/{judge}.json" for judge in llm_judges(config)}
    files |= {(rule, cell): f"{results}/{rule}/{cell}.jsonl" for cell in cells for rule in ("requests", "answers")}
    for judge in config["judges"]:
        for cell in [*cells, *golds]:
            if judge in llm_judges(config):
                files["judge_requests", f"{judge}/{cell}"] = f"{results}/judge_requests/{judge}/{cell}.jsonl"
            files["verdicts", f"{judge}/{cell}"] = f"{results}/verdicts/{judge}/{cell}.jsonl"
        files |= {("score", f"{judge}/{cell}"): f"{results}/scores/{judge}/{cell}.json" for cell in cells}
        files |= {("judge_card", f"{judge}/{g}"): f"{results}/judge_cards/{judge}/{g}.json" for g in config["gold"]}
    return files
