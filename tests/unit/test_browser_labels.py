"""A page with labels only: whatever any program wrote into a free text of the study's files, nothing of it is there."""

import json
from pathlib import Path
from typing import Any

import pytest
from browser_rows import JUDGES, MODELS, page_text, verdict_row, write_browsed
from packed_page import unpacked

from refusal_eval.core.files import read_jsonl, write_jsonl
from refusal_eval.core.label_rows import verdict_without_texts

pytestmark = pytest.mark.feature("browser")

SECRET = "xyzzy"
# Who writes it, and where: a data set, a model, a provider, a server, an engine, a judge, the study file.
BLOCKED = {"by": "filter", "stage": "answer", "category": "hate", "severity": "high", "code": "policy_4", "partial": ""}


def secret(where: str) -> str:
    return f"{SECRET} of {where}, in words of its own"


def verdict(answer: dict[str, Any], number: int) -> dict[str, Any]:
    raw = {name: secret(f"raw {name}") for name in ("analysis", "text", "reason", "rationale", "error", "phrase", "x")}
    row = verdict_row(answer, None if number == 1 else "refusal", 0.9)
    flags, reason = [secret("flags"), "cut"], secret("a judge that failed")
    return row | {
        "raw": raw,
        "kind": secret("kind") if number else "flat",
        "flags": flags,
        "reason": reason,
        "key": SECRET,
    }


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    """The study of the other tests, with something secret in every text that anybody may write."""
    config = write_browsed(tmp_path)
    results = tmp_path / "results" / "browsed"
    config["description"] = secret("description")
    for model in MODELS:
        config["model_entries"][model]["system_prompt"] = secret("system prompt")
    for split in config["splits"]:
        rows = list(read_jsonl(results / "prompts" / f"{split}.jsonl"))
        for row in rows:
            row["messages"] = [{"role": "system", "content": secret("system")}, *row["messages"]]
            row["messages"][-1]["content"] = secret("prompt")
            row["source"] = {"file": f"/home/{SECRET}/rows.jsonl", "row": 1, "id": secret("id")}
            row["reference"] = secret("another column")
        write_jsonl(results / "prompts" / f"{split}.jsonl", rows)
        for model in MODELS:
            path = results / "answers" / model / f"{split}.jsonl"
            answers = list(read_jsonl(path))
            for number, row in enumerate(answers):
                row |= {
                    name: secret(name) for name in ("answer", "reasoning", "reason", "finish_reason", "stop_reason")
                }
                row |= {
                    "key": SECRET,
                    "serving": SECRET,
                    "marks": [secret("marks"), "unfiltered"],
                    "model_version": SECRET,
                }
                row |= {"served_by": {"provider": secret("server"), "request_id": SECRET}}
                if number % 3 == 1:
                    row |= {"state": "blocked", "blocked": {name: secret(name) for name in BLOCKED}}
                if number % 3 == 2:
                    row |= {"state": "blocked", "blocked": BLOCKED | {"partial": secret("partial")}}
                if number == 0:
                    row |= {"state": "failed", "reason": secret("failed reason")}
            write_jsonl(path, answers)
            for judge in JUDGES:
                said = [verdict(answer, number) for number, answer in enumerate(answers)]
                write_jsonl(results / "verdicts" / judge / model / f"{split}.jsonl", said)
    return config


def test_no_text_of_anybody_is_on_it(config: dict[str, Any], tmp_path: Path) -> None:
    page = page_text(config, labels_only=True)
    kept = json.dumps(unpacked(page))
    assert SECRET not in page and SECRET not in kept
    assert str(tmp_path) not in kept and "/home" not in kept and "rows.jsonl" not in kept
    # The same files, on the page with texts: there was something to be left out.
    whole = json.dumps(unpacked(page_text(config)))
    for where in (
        "prompt",
        "answer",
        "reasoning",
        "raw analysis",
        "raw phrase",
        "partial",
        "category",
        "kind",
        "marks",
    ):
        assert secret(where) in whole, where


def test_states_labels_and_names_are(config: dict[str, Any]) -> None:
    head = unpacked(page_text(config, labels_only=True))["head"]
    whole = unpacked(page_text(config))["head"]
    assert set(head["names"]["kinds"]) == {"flat"}
    assert {"by": "filter", "stage": "answer", "category": "hate", "severity": "high", "code": "policy_4"} in head[
        "names"
    ]["blocks"]
    assert head["answers"]["marks"][0] == ["unfiltered"]
    assert [head["names"]["states"][place] for place in head["answers"]["state"]] == [
        whole["names"]["states"][place] for place in whole["answers"]["state"]
    ]
    for of, other in zip(head["verdicts"], whole["verdicts"], strict=True):
        assert of["label"] == other["label"] and of["p"] == other["p"]


def test_a_kind_that_the_judge_s_entry_names_stays_whatever_its_form() -> None:
    row = {"kind": "refuses, and says why", "label": "refusal", "raw": {"text": SECRET}}
    assert verdict_without_texts(row, ["refuses, and says why"]) == row | {"flags": [], "raw": {}}
    assert verdict_without_texts(row, ["other"])["kind"] is None
