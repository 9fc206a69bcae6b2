"""How much there is to do: the requests of every cell and the sizes of engines, as far as config and files tell.

Before a first run prompts may not be fetched and requests not rendered; then they are estimated, and it is said so. So
are those that an earlier run made and that the next run makes again: `snakemake --summary` tells which.
"""

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refusal_eval.ask.requests import read_requests
from refusal_eval.config.engine_entry import engine_of_entry
from refusal_eval.config.kinds import JUDGES
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_jsonl
from refusal_eval.data.rows import read_rows
from refusal_eval.study.batches import GOLD, Cell
from refusal_eval.study.dialogues import asked_turns
from refusal_eval.study.paths import Paths
from refusal_eval.study.study import Study
from refusal_eval.tools.plan.workload import (
    ASSUMED,
    COUNTED,
    ELSEWHERE,
    MISSING,
    CellWork,
    Pace,
    answer_tokens,
    pace_of,
)
from refusal_eval.tools.snakemake_summary import summary
from refusal_eval.weights.engine_size import engine_billions
from refusal_eval.workflow.data_stage import rows_file
from refusal_eval.workflow.weights_stage import weights_files

# Assumed where nothing tells.
ASSUMED_PROMPTS = 300  # of a split or gold
ASSUMED_PROMPT_TOKENS = 60.0
ASSUMED_TURNS = 3.0  # of a dialogue
GOLD_ANSWER_TOKENS = 200.0
CHARACTERS_PER_TOKEN = 4.0
JUDGE_FRAME_TOKENS = 30.0  # of a judge's prompt beside rubric, question and answer; the rubric is read once


@dataclass(frozen=True)
class Current:
    """What holds of the files in a study's folder."""

    files: Collection[str] = ()  # files that the next run would leave as they are, if the study had the K below
    samples: int = 0  # K of the request files; a file holds for the samples of it that another K shares


@dataclass(frozen=True)
class Texts:
    """The prompts of a split, or the rows of a gold."""

    count: int  # how many
    tokens: float  # mean tokens of one
    turns: float  # mean turns that the model is asked; 0 where a row is one question
    known: str  # COUNTED or ASSUMED


def current_files(config: Mapping[str, Any], study_file: Path, root: Path) -> Current:
    """Return which files the next run would leave as they are; none before a first run or if it cannot be planned."""
    results = Path(Paths(config).results)
    if not any((results / folder).is_dir() for folder in ("prompts", "gold", "requests", "judge_requests")):
        return Current()
    samples = int(config["samples"])
    for file in sorted((results / "requests").rglob("*.jsonl"))[:1]:
        try:
            _header, first = (row for row, _ in zip(read_jsonl(file), range(2), strict=False))
            samples = len(first["samples"])
        except (UserError, OSError, KeyError, TypeError, ValueError):
            break
    try:
        made = summary(study_file, root, {"samples": samples})
    except UserError:
        return Current()
    return Current({file.path for file in made if file.current}, samples)


def whole_work(config: Mapping[str, Any], root: Path, current: Current) -> dict[Cell, CellWork]:
    """Return what there is to execute for every cell of generation and of judging by an engine, with an empty store."""
    results, study, samples = Path(Paths(config).results), Study(config), int(config["samples"])
    judges = {judge: config["judge_entries"][judge] for judge in study.judges_by("engine")}
    texts = {}
    for split in config["splits"]:
        entry, file = config["split_entries"][split], results / "prompts" / f"{split}.jsonl"
        sizes = [sample["size"] for sample in (entry["sample"], config["prompts_per_split"]) if sample]
        texts[split] = _texts(file, current, entry, rows_file(study, study.splits[split].source, root), sizes)
    work: dict[Cell, CellWork] = {}
    for model in config["models"]:
        entry = config["model_entries"][model]
        most = int(entry["sampling"]["max_tokens"])
        for split, own in texts.items():
            generated = _generation(own, samples, most, answer_tokens(most, entry["reasoning"] is not None))
            if entry.get("recorded"):
                generated = dataclasses.replace(generated, requests=0, prompts=0)
            work[Cell(model, split)] = generated
            scored = _scored(own, samples, config["split_entries"][split].get("dialogue"))
            for judge, asked in judges.items():
                judged = _judging(own, scored, answer_tokens(most), asked)
                work[Cell(model, split, judge)] = dataclasses.replace(judged, longer=most - answer_tokens(most))
    for judge, asked in judges.items():
        for name in config["gold"]:
            entry, file = config["gold_entries"][name], results / "gold" / f"{name}.jsonl"
            rows = _texts(file, current, entry, rows_file(study, study.gold[name].source, root))
            work[Cell(GOLD, name, judge)] = _judging(rows, rows.count, GOLD_ANSWER_TOKENS, asked)
    return work


def work_left(config: Mapping[str, Any], whole: Mapping[Cell, CellWork], current: Current) -> dict[Cell, CellWork]:
    """Return the same without what the store has already, wherever request files are there that hold."""
    paths, work = Paths(config), dict(whole)
    for cell, estimate in whole.items():
        file = Path(paths.results, "requests", cell.model, f"{cell.split}.jsonl")
        holds, answered, samples = True, True, config["samples"]
        if cell.judge is not None:
            file = Path(paths.results, "judge_requests", cell.judge, cell.model, f"{cell.split}.jsonl")
            samples = None  # an answer is judged as it is, and gold has one per prompt
            if cell.model != GOLD:
                holds = current.samples == config["samples"]
                # Answers that are still to come will be judged, and no file knows of them yet.
                answered = work[Cell(cell.model, cell.split)].requests == 0
        elif config["model_entries"][cell.model].get("recorded"):
            continue
        if file.is_file():
            if not holds or str(file) not in current.files:
                work[cell] = dataclasses.replace(estimate, outdated=True)
            elif answered:
                work[cell] = _missing(file, paths.store, estimate, samples)
    return work


def engine_paces(config: Mapping[str, Any], root: Path) -> tuple[dict[str, Pace], dict[str, str]]:
    """Return the pace of every engine, and in words its size and what told it."""
    paces, sizes = {}, {}
    study = Study(config)
    for name, entry in config["engine_entries"].items():
        engine = engine_of_entry(entry)
        kind = engine.device_here(root)
        if kind is None:
            paces[name], sizes[name] = ELSEWHERE, "computes elsewhere"
            continue
        devices = engine.gpus(kind) or 1
        billions, told = engine_billions(entry, weights_files(study, name), kind, devices)
        paces[name] = pace_of(entry, kind, devices, billions, config["determinism"] == "strict")
        total, active = billions
        sizes[name] = f"{total:.3g}B" + (f", {active:.3g}B active" if active != total else "") + f" {told}"
    return paces, sizes


def _generation(texts: Texts, samples: int, most: int, mean: float) -> CellWork:
    turns = texts.turns or 1.0
    requests = round(texts.count * samples * turns)
    # The turns of a dialogue follow the model's own replies: no two samples share one.
    prompts = requests if texts.turns else texts.count
    return CellWork(requests, prompts, texts.tokens / turns, mean, most, texts.known)


def _scored(texts: Texts, samples: int, dialogue: Mapping[str, Any] | None) -> int:
    """Return how many answers of a cell are judged."""
    turns = 1.0
    if dialogue is not None:
        scored = dialogue["scored"] or ("all" if dialogue["mode"] == "cumulative" else "last")
        turns = {"all": texts.turns, "last": 1.0, "after_first": texts.turns - 1}[scored]
    return round(texts.count * samples * turns)


def _judging(texts: Texts, answers: int, answer: float, judge: Mapping[str, Any]) -> CellWork:
    """Return the work of judging answers of a mean length; the votes on one answer share its reading."""
    entry = JUDGES.entry(judge)
    mean, most = entry.verdict_tokens()
    read = texts.tokens + answer + (JUDGE_FRAME_TOKENS if most else 0)  # a classifier has no instructions
    return CellWork(answers * entry.votes_asked().votes, answers, read, mean, most, texts.known)


def _missing(file: Path, store_dir: str, estimate: CellWork, samples: int | None) -> CellWork:
    """Return what the store lacks of a request file. Of a dialogue the first turn tells whether it is to be executed.

    Args:
        file: the request file, as the last run left it.
        store_dir: folder of the store.
        estimate: the cell's work with nothing in the store.
        samples: the study's K, where the file may have been made for another.

    Raises:
        UserError: if it is not a request file.
    """
    from refusal_eval.ask.store import StoreReader

    requests = read_requests(file)
    rows = read_jsonl(file)
    next(rows)  # the header
    tokens: dict[str, int] = {}
    prompts: dict[str, str] = {}
    new = 0  # samples that a larger K will add
    for row in rows:
        for sample in row["samples"]:
            if sample["key"] is not None and (samples is None or sample["sample"] < samples):
                tokens[sample["key"]], prompts[sample["key"]] = len(row["token_ids"]), row["prompt_id"]
        new += max((samples or 0) - len(row["samples"]), 0)
    missing = StoreReader(store_dir, requests.header["engine_id"]).missing(tokens)
    dialogue = requests.dialogue is not None
    turns = estimate.requests / max(len(tokens) + new, 1) if dialogue else 1.0
    count, stored = round((len(missing) + new) * turns), round((len(tokens) - len(missing)) * turns)
    different = estimate.prompts if new else len({prompts[key] for key in missing})
    return dataclasses.replace(
        estimate,
        requests=count,
        prompts=count if dialogue else min(count, different),
        tokens_per_prompt=sum(tokens.values()) / max(len(tokens), 1),
        known=MISSING,
        stored=stored,
    )


def _texts(made: Path, current: Current, entry: Mapping[str, Any], rows: str, sizes: Iterable[int] = ()) -> Texts:
    """Return what there is to ask: by the file of an earlier run if it holds, else by the entry or its rows."""
    if made.is_file() and str(made) in current.files:
        return _read_texts(read_jsonl(made))
    texts = _estimated(entry, *_rows(entry, rows))
    return dataclasses.replace(texts, count=min([texts.count, *sizes]))


def _estimated(entry: Mapping[str, Any], rows: int, known: str) -> Texts:
    """Return the prompts that rows of a split give, before any sample is taken of them (see `data.prompts`)."""
    if not entry.get("dialogue"):
        return Texts(rows, ASSUMED_PROMPT_TOKENS, 0.0, known)
    columns = entry["columns"].get("turns")
    turns = float(len(columns)) if columns else ASSUMED_TURNS
    known = known if columns else ASSUMED
    if entry["dialogue"]["mode"] == "independent" and turns > 1:
        # Each turn after the first is a prompt of its own, asked after the first one and its reply.
        rows, turns = round(rows * (turns - 1)), 2.0
    return Texts(rows, ASSUMED_PROMPT_TOKENS * turns, turns, known)


def _read_texts(rows: Iterable[Mapping[str, Any]]) -> Texts:
    count = characters = turns = 0
    dialogue = False
    for row in rows:
        count += 1
        characters += sum(len(message["content"]) for message in row["messages"])
        turns += len(asked_turns(row))
        dialogue = dialogue or bool(row.get("dialogue"))
    tokens = characters / CHARACTERS_PER_TOKEN / max(count, 1)
    return Texts(count, tokens, turns / max(count, 1) if dialogue else 0.0, COUNTED)


def _rows(entry: Mapping[str, Any], file: str) -> tuple[int, str]:
    if entry.get("expected_kept"):
        return int(entry["expected_kept"]), COUNTED
    if entry["expected_rows"]:
        # How many rows `where` leaves nobody knows yet: at most all.
        return int(entry["expected_rows"]), ASSUMED if entry.get("where") else COUNTED
    try:
        return len(read_rows(file, entry["source"].get("skip_lines", 0))), COUNTED
    except UserError:  # not fetched yet; what is wrong with it, the rule that reads it will tell
        return ASSUMED_PROMPTS, ASSUMED
