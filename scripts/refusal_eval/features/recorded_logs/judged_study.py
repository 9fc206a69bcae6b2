"""The folder of a study about answers that exist: written whole or not at all, checked as a run checks it."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refusal_eval.config.kinds import ANSWER_PAGES
from refusal_eval.config.load_study import load_study, study_values
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import shown_path, write_jsonl
from refusal_eval.core.states import LABELS
from refusal_eval.features.recorded_logs.answer_set import THINKING, AnswerSet
from refusal_eval.program.study_file import ROOT
from refusal_eval.program.text_templates import render_template

STUDY, ENTRIES, NOTES = "study.yaml", "entries.yaml", "README.md"


@dataclass(frozen=True)
class JudgedStudy:
    """A study about answers.

    Attributes:
        judges: of the catalogue, the first gives the headline.
        gold: answers with labels of people; none if nobody labelled any.
        known: which share of the prompts the catalogue knows, as a sentence.
        again: the command that runs it.
    """

    name: str
    answers: AnswerSet
    judges: Sequence[str]
    gold: Sequence[Mapping[str, Any]]
    files: Sequence[str]
    known: str
    again: str

    @property
    def scorers(self) -> dict[str, str]:
        """The other tools' judges: their names as entries, and as the files call them. No gold can be asked of them."""
        names = {f"theirs-{number}": by for number, by in enumerate(self.answers.scorers, 1)}
        return {} if self.gold else names


def write_study(study: JudgedStudy, folder: Path) -> dict[str, Any]:
    """Write the folder, and return the config, validated as for a run.

    Raises:
        UserError: if the folder is there already, or cannot be written.
        ConfigError: if the study is not valid; then there is no folder.
    """
    if os.path.lexists(folder):
        raise UserError(f"{shown_path(folder)} is there already; choose another folder with `--into`")
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.", suffix=".tmp"))
    except OSError as error:
        raise UserError(f"{folder.parent} cannot be written: {error.strerror}") from error
    try:
        _write(study, temporary, f"{shown_path(folder)}/results")
        load_study(study_values(str(temporary / STUDY)), str(temporary / STUDY), str(ROOT), open_pins=True)
        temporary.chmod(0o755)
        os.rename(temporary, folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return load_study(study_values(str(folder / STUDY)), str(folder / STUDY), str(ROOT), open_pins=True)


def _write(study: JudgedStudy, folder: Path, results: str) -> None:
    answers = study.answers
    for name, rows in answers.models.items():
        write_jsonl(folder / "answers" / f"{name}.jsonl", rows)
    for name, prompts in answers.splits.items():
        write_jsonl(folder / "prompts" / f"{name}.jsonl", prompts)
    if study.gold:
        write_jsonl(folder / "gold" / "people.jsonl", study.gold)
    pages = [ANSWER_PAGES.get(name) for name in ANSWER_PAGES.names()]
    values = {"study": study, "answers": answers, "results": results, "pages": pages}
    (folder / STUDY).write_text(_filled("study.yaml.j2", values), encoding="utf-8")
    (folder / ENTRIES).write_text(_dumped(_entries(study)), encoding="utf-8")
    (folder / NOTES).write_text(_filled("notes.md.j2", values), encoding="utf-8")


def _entries(study: JudgedStudy) -> dict[str, Any]:
    answers = study.answers
    marks = dict(zip(("start", "end"), THINKING, strict=True))
    models = {
        name: {"label": label, "recorded": {"file": f"answers/{name}.jsonl", "model": label}}
        | ({"reasoning": dict(marks)} if answers.thinks(name) else {})
        | ({"system_prompt": answers.systems[name]} if name in answers.systems else {})
        for name, label in answers.labels.items()
    }
    splits = {name: _split(name, prompts, answers.expectations[name]) for name, prompts in answers.splits.items()}
    judges = {name: {"kind": "recorded", "by": by, "label": f"{by} (theirs)"} for name, by in study.scorers.items()}
    found: dict[str, Any] = {"models": models, "datasets": {f"{study.name}-answers": {"splits": splits}}}
    found |= {"judges": judges} if judges else {}
    return found | ({"gold": {f"{study.name}-people": _gold(study.gold)}} if study.gold else {})


def _split(name: str, prompts: Iterable[Mapping[str, Any]], expectation: str) -> dict[str, Any]:
    fields = {field for prompt in prompts for field in prompt}
    columns = {"messages": "messages"} | {key: key for key in ("category", "cluster") if key in fields}
    columns |= {"id": "prompt_id"} if "prompt_id" in fields else {}
    source = {"kind": "file", "path": f"prompts/{name}.jsonl"}
    return {"source": source, "columns": columns, "expectation": expectation}


def _gold(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    columns = {"messages": "messages", "answer": "answer", "label": "label"}
    columns |= {"answering_model": "model"} if all("model" in row for row in rows) else {}
    return {
        "label": "People",
        "description": "Labels that came with `refusal-eval judge --gold`.",
        "source": {"kind": "file", "path": "gold/people.jsonl"},
        "columns": columns,
        "labels": {label: label for label in LABELS},
        "two_labels": "left_out",
        "raters": 1,
    }


def _filled(name: str, values: Mapping[str, Any]) -> str:
    return render_template(
        Path(__file__).with_name(name), values, {"y": lambda text: json.dumps(text, ensure_ascii=False)}
    )


def _dumped(entries: Mapping[str, Any]) -> str:
    import yaml

    head = "# Entries of this study, written by `refusal-eval judge`: config/README.md describes every key.\n\n"
    return head + yaml.safe_dump(dict(entries), sort_keys=False, allow_unicode=True, width=120)
