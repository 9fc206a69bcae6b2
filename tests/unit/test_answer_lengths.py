"""A study whose models may write answers of different length says so before it runs, and runs."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from config_project import BASE, CATALOGUE, STUDY, Project

from refusal_eval.__main__ import main
from refusal_eval.study.study import Study
from refusal_eval.workflow.answer_lengths import about_lengths

LONG = {"like": "plain", "sampling": {"max_tokens": 500}}
LONGER = {"like": "thinker", "sampling": {"max_tokens": 900}}
IN_FILE = {"like": "plain", "sampling": {"max_tokens": 7}, "recorded": "../../answers"}
MODELS = {"long": LONG, "long-too": LONG, "longer": LONGER, "in-file": IN_FILE, "as-short": {"like": "plain"}}


def said(project: Project, models: list[str], **changes: Any) -> str | None:
    project.write(BASE, CATALOGUE | {"models": CATALOGUE["models"] | MODELS})
    return about_lengths(Study(project.load(STUDY | {"models": models} | changes)))


def test_models_of_different_length_are_named_with_their_lengths(project: Project) -> None:
    text = said(project, ["long", "plain", "long-too"])
    assert text is not None and "different `max_tokens`" in text
    assert [line.strip() for line in text.splitlines()[1:]] == ["64: plain", "500: long, long-too"]


def test_reasoning_takes_tokens_so_such_models_are_compared_among_themselves(project: Project) -> None:
    assert said(project, ["plain", "thinker", "as-short"]) is None
    text = said(project, ["plain", "thinker", "longer"])
    assert text is not None
    assert [line.strip() for line in text.splitlines()[1:]] == [
        "512 with reasoning: thinker",
        "900 with reasoning: longer",
    ]


@pytest.mark.parametrize("models", [["plain"], ["plain", "as-short"]])
def test_equal_lengths_are_no_news(project: Project, models: list[str]) -> None:
    assert said(project, models) is None


def test_a_plan_says_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, caplog: Any) -> None:
    monkeypatch.chdir(tmp_path)
    entry = {"like": "smollm2-plain", "label": "Longer", "sampling": {"max_tokens": 500}}
    Path("own.yaml").write_text(yaml.safe_dump({"models": {"longer": entry}}))
    study = {"study": "lengths", "samples": 1, "judges": ["keyword"], "splits": ["alarming_but_safe"]}
    study |= {"models": ["smollm2-plain", "longer"], "catalogue": ["own.yaml"]}
    Path("study.yaml").write_text(yaml.safe_dump(study))
    assert main(["plan", "study.yaml"]) == 0
    assert "different `max_tokens`" in caplog.text + capsys.readouterr().err
