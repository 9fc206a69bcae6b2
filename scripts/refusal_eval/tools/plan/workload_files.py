"""The amount of work: the requests of every cell and the sizes of engines, as far as config and files show.

Before a first run prompts may not be fetched and requests not rendered; then they are estimated, and marked so. So are
files of an earlier run that the next run makes again, by `snakemake --summary`.
"""

import contextlib
import dataclasses
import itertools
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from refusal_eval.ask.requests import Request, read_requests
from refusal_eval.config.feature_keys import PromptRequests
from refusal_eval.config.kinds import PROGRAM_LOADS
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_jsonl
from refusal_eval.data.rows import read_rows
from refusal_eval.data.selection import kept_rows
from refusal_eval.program.program_load import ProgramLoad
from refusal_eval.program.snakemake_summary import summary
from refusal_eval.study.batches import GOLD, Cell
from refusal_eval.study.dialogues import asked_turns
from refusal_eval.study.files import file_of
from refusal_eval.study.study import Study
from refusal_eval.tools.plan.workload import ASSUMED, COUNTED, MISSING, CellWork, answer_tokens
from refusal_eval.workflow.activations_stage import uses
from refusal_eval.workflow.data_stage import answer_files, rows_file

LOG = logging.getLogger(__name__)

CaptureCell = tuple[str, str, str]  # positions, model, split

# Assumed if unknown.
UNKNOWN_LONGEST = 1024  # tokens of an answer
ASSUMED_PROMPTS = 300  # of a split or gold
ASSUMED_PROMPT_TOKENS = 60.0
ASSUMED_TURNS = 3.0  # of a dialogue
GOLD_ANSWER_TOKENS = 200.0
CHARACTERS_PER_TOKEN = 4.0
JUDGE_FRAME_TOKENS = 30.0  # of a judge's prompt besides rubric, question and answer; the rubric is read once


@dataclass(frozen=True)
class StudyNow:
    """What holds of the files in a study's folder."""

    files: Collection[str] = ()  # files that the next run would leave as they are, if the study had the K below
    samples: int = 0  # K of the request files; a file holds for the samples of it that another K shares


@dataclass(frozen=True)
class Texts:
    """The prompts of a split, or the rows of a gold."""

    count: int  # how many
    tokens: float  # mean tokens of one
    turns: float  # mean turns of the model; 0 if a row is one question
    known: str  # COUNTED or ASSUMED


def current_files(study: Study, study_file: Path, root: Path) -> StudyNow:
    """Return which files the next run would leave as they are; none before a first run or if it cannot be planned."""
    results = Path(study.paths.results)
    if not any((results / file_of(noun).folder).is_dir() for noun in ("prompts", "gold", "requests", "judge_requests")):
        return StudyNow()
    samples = study.settings.samples
    with contextlib.suppress(UserError, OSError, LookupError, TypeError):  # as long as there are such files
        evaluated = (study.paths.of("requests", model=m, split=s) for m in study.asked_models for s in study.splits)
        first = min((Path(path) for path in evaluated if Path(path).is_file()), default=results)
        samples = len(list(itertools.islice(read_jsonl(first), 2))[1]["samples"])
    try:
        made = summary(study_file, root, {"samples": samples})
    except UserError as error:
        LOG.warning("%s", error)
        return StudyNow()
    return StudyNow({file.path for file in made if file.current}, samples)


def whole_work(study: Study, root: Path, current: StudyNow) -> dict[Cell, CellWork]:
    """Return what there is to execute for every cell of generation and of judging by an engine, with an empty store."""
    judges = study.engine_judges
    further = set(study.further_cells)  # beyond what the study evaluates
    splits = [*study.splits, *sorted({cell.split for cell in further})]
    texts = {split: _texts(study, "split", split, root, current) for split in splits}
    entries = study.settings.split_entries
    work: dict[Cell, CellWork] = {}
    for name, model in study.every_model.items():
        most = int(model.longest or UNKNOWN_LONGEST)
        mean, judged = answer_tokens(most, model.reasoning is not None), answer_tokens(most)
        for split, own in texts.items():
            evaluated, samples = name in study.models and split in study.splits, study.samples_of(split)
            if not evaluated and Cell(name, split) not in further:
                continue
            turns = own.turns or 1.0
            requests = round(own.count * samples * turns) if model.asks_engine else 0
            # The turns of a dialogue follow the model's own replies: no two samples share one.
            prompts = requests if own.turns else own.count
            tokens = own.tokens / turns
            if model.asks_engine and study.engines[model.engine_name].device_here(root) is None:
                # Another party bills what was said before, without its reasoning, and the system prompt each time.
                tokens += (turns - 1) / 2 * (tokens + judged) + len(model.system_prompt or "") / CHARACTERS_PER_TOKEN
            work[Cell(name, split)] = CellWork(requests, prompts, tokens, mean, most, own.known)
            scored = entries[split].scored_turns or "last"
            answers = own.count * samples * {"all": own.turns, "last": 1.0, "after_first": own.turns - 1}[scored]
            for judge, entry in judges.items():
                own_cell = evaluated and (judge, name) in study.read_pairs
                if own_cell or Cell(name, split, judge) in further:
                    work[Cell(name, split, judge)] = _judging(own, round(answers), judged, entry, most - judged)
    for name, probe in study.probes.items():
        for split in probe.splits:
            # One token behind each prompt, whatever K is.
            work[Cell(name, split)] = _probe_work(study, split, texts[split], probe.number, current)
    for gold in study.gold if judges else ():
        own = _texts(study, "gold", gold, root, current)
        measured = {name: judge for name, judge in judges.items() if name in study.judges}
        work |= {Cell(GOLD, gold, n): _judging(own, own.count, GOLD_ANSWER_TOKENS, one) for n, one in measured.items()}
    return work


def states_captured(study: Study, root: Path, current: StudyNow) -> dict[CaptureCell, CellWork]:
    """Return what is read for the activations that the study needs, a request for each of their states per layer.

    That is one for each prompt, or for each answer; those of an earlier run that hold count as stored.
    """
    found: dict[CaptureCell, CellWork] = {}
    for (positions, model, split), _ in uses(study):
        texts, of_answers = _texts(study, "split", split, root, current), positions == "answer_mean"
        states = texts.count * (study.settings.samples if of_answers else 1)
        entry = study.models[model]
        most = int(entry.longest or 0) if of_answers else 0
        read = answer_tokens(most, entry.reasoning is not None)
        work = CellWork(states, states, texts.tokens + read, 0.0, 0, texts.known, longer=most - read)
        file = study.paths.of("activations", positions=positions, model=model, split=split)
        if file in current.files and not (of_answers and current.samples != study.settings.samples):
            work = dataclasses.replace(work, requests=0, prompts=0, stored=states)
        found[positions, model, split] = work
    return found


def program_work(study: Study, root: Path, current: StudyNow) -> list[tuple[ProgramLoad, CellWork]]:
    """Return what each load of a feature's own program reads; nothing of those whose results are there and hold."""
    found = []
    for load in (one for name in PROGRAM_LOADS.names() for one in PROGRAM_LOADS.get(name)(study)):
        texts = _texts(study, "split", load.split, root, current)
        work = _probe_work(study, load.split, texts, load.reads, current)
        tokens = work.tokens_per_prompt if load.tokens is None else load.tokens
        read = dataclasses.replace(work, tokens_per_prompt=tokens, answer_tokens=0.0, most_tokens=0)
        if load.makes in current.files:
            read = dataclasses.replace(read, requests=0, prompts=0, stored=read.requests)
        found.append((load, read))
    return found


def work_left(study: Study, whole: Mapping[Cell, CellWork], current: StudyNow) -> dict[Cell, CellWork]:
    """Return the same without what the store has already, wherever request files are there that hold.

    Of files that cannot be used the log warns.
    """
    work = dict(whole)
    for cell, estimate in whole.items():
        samples = study.settings.samples if cell.model == GOLD else study.samples_of(cell.split)
        file, of_answers = Path(study.request_file(cell)), cell.judge is not None and cell.model != GOLD
        asked = cell.judge is not None or cell.model in study.probes or study.every_model[cell.model].asks_engine
        if not file.is_file() or not asked:
            continue
        if str(file) not in current.files or (of_answers and current.samples != study.settings.samples):
            work[cell] = dataclasses.replace(estimate, outdated=True)
        # Answers that are still to come will be judged, and no file knows of them yet.
        elif not (of_answers and work[Cell(cell.model, cell.split)].requests):
            once = cell.judge is not None or cell.model in study.probes
            receipts = study.paths.receipts("judge" if cell.judge else "generate", study.batch_of[cell])
            # An answer is judged as it is, and gold has one per prompt: K says nothing of these files.
            try:
                work[cell] = _missing(file, study.paths.store, receipts, estimate, None if once else samples)
            except UserError as error:  # `status` and the next run report it, too
                LOG.warning("%s; what the store has of %s is not counted", error, cell)
    return work


def _probe_work(study: Study, split: str, texts: Texts, number: PromptRequests | None, current: StudyNow) -> CellWork:
    """Return the work of what a feature asks or reads besides answers: counted where the prompts are here."""
    made, requests, known = Path(study.paths.of("prompts", split=split)), texts.count, texts.known
    if number is not None and made.is_file() and str(made) in current.files:
        requests = sum(map(number.of_prompt, read_jsonl(made)))
    elif number is not None:
        requests, known = round(texts.count * number.of_tokens(texts.tokens)), ASSUMED
    return CellWork(requests, requests, texts.tokens + (number.longer if number else 0.0), 1.0, 1, known)


def _judging(texts: Texts, answers: int, answer: float, judge: Any, longer: float = 0.0) -> CellWork:
    """Return the work of judging answers of a mean length; the votes on one answer share its reading."""
    mean, most = judge.verdict_tokens()
    read = texts.tokens + answer + (JUDGE_FRAME_TOKENS if most else 0)  # a classifier has no instructions
    return CellWork(answers * judge.votes_asked().votes, answers, read, mean, most, texts.known, longer=longer)


def _missing(path: Path, store_dir: str, receipts: Iterable[str], estimate: CellWork, samples: int | None) -> CellWork:
    """Return the work that the store lacks of a request file. A dialogue counts as missing if its first turn is.

    Args:
        path: the request file, as the last run left it.
        store_dir: folder of the store.
        receipts: of its batch, which list rejected requests.
        estimate: the cell's work with nothing in the store.
        samples: the study's K; the file may have another.

    Raises:
        UserError: if it is not a request file, or a receipt is not a receipt.
    """
    from refusal_eval.ask.store import StoreReader, rejections

    file, columns = read_requests(path), ["prompt", "sample", "key", "tokens"]
    rows = [(one.prompt_id, one.sample, one.key, _own_tokens(one)) for one in file.requests()]
    asked, new = pd.DataFrame(rows, columns=columns), 0  # new: samples that a larger K will add
    if samples is not None:
        new = int((samples - asked.groupby("prompt").size()).clip(lower=0).sum())
        asked = asked[asked["sample"] < samples]
    asked = asked.dropna(subset="key").drop_duplicates("key")
    without = asked["key"].isin(StoreReader(store_dir, file.header["engine_id"]).missing(asked["key"]))
    rejected = without & asked["key"].isin(rejections(receipts).keys())
    lost = without & ~rejected
    turns = estimate.requests / max(len(asked) + new, 1) if file.dialogue else 1.0
    count = round((int(lost.sum()) + new) * turns)
    different = estimate.prompts if new else asked["prompt"][lost].nunique()
    return dataclasses.replace(
        estimate,
        requests=count,
        prompts=count if file.dialogue else min(count, different),
        # The file has first turns alone, and what comes before later ones is billed.
        tokens_per_prompt=estimate.tokens_per_prompt if file.dialogue else asked["tokens"].sum() / max(len(asked), 1),
        known=MISSING,
        stored=round(int((~without).sum()) * turns),
        rejected=int(rejected.sum()),
    )


def _own_tokens(request: Request) -> float:
    """Return the tokens of a prompt without those that its whole file shares; estimated for messages."""
    if request.messages is None:
        return len(request.own_ids)
    return sum(len(message["content"]) for message in request.messages) / CHARACTERS_PER_TOKEN


def _texts(study: Study, noun: str, name: str, root: Path, current: StudyNow) -> Texts:
    """Return what there is to ask: by the file of an earlier run if it holds, else by the entry or its rows."""
    made = Path(study.paths.of("prompts" if noun == "split" else "gold", **{noun: name}))
    if made.is_file() and str(made) in current.files:
        return _read_texts(read_jsonl(made))
    entry, source = study.config[f"{noun}_entries"][name], study.entries(noun)[name].source
    if source.made_of is not None:
        return _made_texts(study, name, root, current)
    rows, known = _rows(entry, rows_file(study, source, root))
    tokens, turns = ASSUMED_PROMPT_TOKENS, 0.0
    if entry.get("dialogue"):
        columns = entry["columns"].get("turns")
        turns, known = (float(len(columns)), known) if columns else (ASSUMED_TURNS, ASSUMED)
        if entry["dialogue"]["mode"] != "cumulative" and turns > 1:
            # Each turn after the first is a prompt of its own, asked after the first one and its reply or alone.
            rows, turns = round(rows * (turns - 1)), 2.0 if entry["dialogue"]["mode"] == "independent" else 0.0
        tokens *= turns or 1.0
    sizes = [sample["size"] for sample in (entry.get("sample"), study.config["prompts_per_split"]) if sample]
    return Texts(min([rows, *(sizes if noun == "split" else [])]), tokens, turns, known)


def _made_texts(study: Study, split: str, root: Path, current: StudyNow) -> Texts:
    """Return the prompts that are made of those of another split: counted where these are here, else estimated."""
    entry, source = study.config["split_entries"][split], study.entries("split")[split].source
    read = answer_files(study, split)
    made_from = rows_file(study, source, root, split)
    of = _texts(study, "split", source.made_of, root, current)
    rows, known = round(of.count * source.rows_of_each(of.tokens / max(of.turns, 1.0))), ASSUMED
    if entry["expected_kept"] or entry["expected_rows"]:
        rows, known = _rows(entry, "")
    elif {made_from, *read} <= set(current.files):
        with contextlib.suppress(UserError):
            made = source.own_rows(made_from, *read)
            rows, known = len(kept_rows(made, entry.get("where"), None, "")[0]), of.known
    size = entry["sample"]["size"] if entry.get("sample") else rows
    return Texts(min(rows, size), of.tokens, of.turns, known)


def _read_texts(rows: Iterable[Mapping[str, Any]]) -> Texts:
    count = characters = turns = 0
    dialogue = False
    for count, row in enumerate(rows, 1):  # noqa: B007
        characters += sum(len(message["content"]) for message in row["messages"])
        turns += len(asked_turns(row))
        dialogue = dialogue or bool(row.get("dialogue"))
    tokens = characters / CHARACTERS_PER_TOKEN / max(count, 1)
    return Texts(count, tokens, turns / max(count, 1) if dialogue else 0.0, COUNTED)


def _rows(entry: Mapping[str, Any], file: str) -> tuple[int, str]:
    if entry.get("expected_kept"):
        return int(entry["expected_kept"]), COUNTED
    if entry["expected_rows"]:
        # The rows that `where` leaves are unknown yet: at most all.
        return int(entry["expected_rows"]), ASSUMED if entry.get("where") else COUNTED
    try:
        source = entry["source"]
        rows = read_rows(file, source.get("skip_lines", 0), encoding=source.get("encoding"))
        return len(kept_rows(rows, entry.get("where"), None, file)[0]), COUNTED
    except UserError:  # not fetched yet, or wrong, which the rule that reads it reports
        return ASSUMED_PROMPTS, ASSUMED
