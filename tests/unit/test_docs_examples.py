"""The examples of the how-to pages and of the tutorial are studies that load."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from refusal_eval.config.load_study import load_study

ROOT = Path(__file__).resolve().parents[2]


def blocks(page: str) -> list[str]:
    """Return the YAML blocks of a page."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)


@pytest.fixture
def entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the entries of a model and of prompts, with the files that they name, and go there."""
    monkeypatch.chdir(tmp_path)
    Path("my_entries.yaml").write_text(blocks("how-to/own_model.md")[0])
    Path("my_prompts.yaml").write_text(blocks("how-to/own_prompts.md")[0])
    Path("my_prompts.jsonl").write_text('{"question": "How?", "topic": "a"}\n')
    folder = tmp_path / "weights" / "my-finetune"
    folder.mkdir(parents=True)
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (folder / name).write_text("{}")


def loaded(study: str, **changes: Any) -> dict[str, Any]:
    values = yaml.safe_load(study) | changes
    Path("my_study.yaml").write_text(yaml.safe_dump(values))
    return load_study(values, "my_study.yaml", str(ROOT), open_pins=True)


def test_a_study_of_the_entries_and_judges_that_are_shown(entries: None) -> None:
    parts = "study: mine\nmodels: [my-finetune, qwen]\nsplits: [my_questions, should_decline]\nsamples: 5\n"
    config = loaded(parts + blocks("how-to/choose_a_judge.md")[0], catalogue=["my_entries.yaml", "my_prompts.yaml"])
    assert config["primary_judge"] == "gpt-oss-20b-label"


def test_the_nine_splits_are_those_of_the_papers_study(entries: None) -> None:
    config = loaded(blocks("how-to/nine_splits.md")[0])
    assert config["splits"] == yaml.safe_load((ROOT / "config" / "studies" / "paper.yaml").read_text())["splits"]


def test_the_study_of_the_tutorial(entries: None) -> None:
    config = loaded(blocks("start/tutorial.md")[0], catalogue=["my_entries.yaml"])
    assert config["models"] == ["my-finetune", "smollm2-plain"] and config["samples"] == 3
