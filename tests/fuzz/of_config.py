"""Studies, catalogues, lock files, keyword lists, rubrics: what users and data sets write as YAML and as templates."""

import functools
import os
from pathlib import Path
from typing import Any

from fuzz.mutations import as_json, as_yaml
from fuzz.targets import file_of, is_text, target
from unit.config_project import BASE, CATALOGUE, COMMIT, FIGURES, SHA256, STUDY, WHOLE_STUDY, Project

from refusal_eval.config.load_study import load_study
from refusal_eval.config.lock_file import read_lock
from refusal_eval.config.problems import ConfigError, Problem
from refusal_eval.config.study_record import recorded_file
from refusal_eval.config.yaml_source import Source
from refusal_eval.core.rubric import Rubric, rubric_mistake
from refusal_eval.core.states import LABELS
from refusal_eval.judges.keyword_judge import KeywordReader

ROOT = Path(__file__).parents[2]


def _loaded(folder: Path, study: bytes, catalogue: bytes) -> dict[str, Any]:
    """Return the validated config of a study whose data, weights and rubrics are there."""
    Project(folder)
    file_of(folder, BASE, catalogue)
    source = Source(str(file_of(folder, "study.yaml", study)))
    config = load_study(source.data, "study.yaml", ".")
    assert is_text(config["study"]) and "/" not in config["study"] and config["samples"] >= 1
    assert all(name in config["model_entries"] for name in config["models"])
    assert all(
        not str(value).startswith("-")
        for e in config["engine_entries"].values()
        for value in e.get("args", {}).values()
    )
    return config


NOT_FITTING = (
    "battles",
    "categories",
    "turns",
    "dose_response",
    "separation",
    "who_refused",
    "refusal_tokens",
    "attributions",
    "generated",
)  # the study has nothing for them
FITTING = [figure for figure in FIGURES if figure["kind"] not in NOT_FITTING]


@target("study", [STUDY, WHOLE_STUDY | {"figures": FITTING}], as_yaml)
def study(data: bytes, folder: Path) -> None:
    _loaded(folder, data, as_yaml(CATALOGUE))


@target("catalogue", [CATALOGUE], as_yaml)
def catalogue(data: bytes, folder: Path) -> None:
    _loaded(folder, as_yaml(WHOLE_STUDY), data)


@target("a YAML file beside the study", [STUDY, CATALOGUE], as_yaml)
def beside(data: bytes, folder: Path) -> None:
    file_of(folder, "other.yaml", data)
    file_of(folder, "config/other.yaml", data)
    _loaded(folder, as_yaml(STUDY), as_yaml(CATALOGUE))


LOCK = {
    "lock_version": 1,
    "models": [
        {
            "repo": "owner/model",
            "commit": COMMIT,
            "date": "2026-01-02",
            "pinned_by": "entry",
            "gated": False,
            "licence": {"hub": "mit", "entry": "MIT", "agrees": True},
            "files": {"config.json": "2 git:" + "1" * 40, "sub/model.safetensors": "5000 sha256:" + SHA256},
        }
    ],
    "urls": [
        {"url": f"https://example.org/{COMMIT}/rows.csv", "sha256": SHA256, "size": 5, "pinned_by": "lock"},
    ],
}


@target("lock file", [LOCK], as_yaml)
def lock(data: bytes, folder: Path) -> None:
    problems: list[Problem] = []
    lock = read_lock(str(file_of(folder, "study.lock.yaml", data)), problems)
    if lock is None:
        raise ConfigError(problems)
    assert not problems
    for repo in lock.content.models:
        for name in repo.files:
            path = os.path.normpath(name)
            assert not os.path.isabs(path) and not path.startswith("..") and "\x00" not in name


LISTS = {
    "refusal_openings": ["i cannot help", "i'm unable to"],
    "hedges": ["no opinion"],
    "rewrites": [["can't", "cannot"]],
}


@target("keyword lists", [LISTS], as_yaml)
def keyword_lists(data: bytes, folder: Path) -> None:
    judge = KeywordReader.from_files([str(file_of(folder, "words.yaml", data))])
    assert judge.judge([], "I cannot help you with that. No.").label in LABELS


@functools.cache
def _keyword_judge() -> KeywordReader:
    return KeywordReader.from_files(
        [str(ROOT / "config" / "keywords" / f"{name}.yaml") for name in ("english", "chinese")]
    )


@target(
    "judge: keyword",
    [
        b"I'm sorry, but I can't help with that. Here's what I *can* do:\n\n1. Listen\n2. Talk",
        b'Dear Ann,\n\nI cannot come.\n\nBest,\nTom\n\n```python\nprint("no")\n```',
        "抱歉,我无法回答这个问题。".encode(),
        "e\u0301\u0315\u0300 I can\u2019t".encode(),
    ],
)
def keyword(data: bytes, folder: Path) -> None:
    assert _keyword_judge().judge([], data.decode(errors="replace")).label in LABELS


@target("rubric", [(ROOT / "config" / "rubrics" / "refusal_labels_short.md").read_bytes()])
def rubric(data: bytes, folder: Path) -> None:
    path = file_of(folder, "rubric.md", data)
    if rubric_mistake(path) is None:
        text = Rubric(path).text([{"role": "user", "content": "Why?"}], "{{ nonce }} Because.")
        assert "Why?" in text and "{{ nonce }} Because." in text


@target("record of a study", [{"file": "/nowhere/study.yaml", "study": "small"}], as_json)
def record(data: bytes, folder: Path) -> None:
    os.path.isfile(recorded_file(file_of(folder, "study.json", data)))
