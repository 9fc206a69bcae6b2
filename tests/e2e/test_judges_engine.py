"""Judges that write, with the real engine and the small model: forms that the engine enforces, votes, panels."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from project import ROOT, Project, change_yaml
from real import real_project

from refusal_eval.ask.render import Renderer
from refusal_eval.ask.store import StoreReader
from refusal_eval.core.files import read_json, read_jsonl
from refusal_eval.core.states import LABELS, UNPARSABLE
from refusal_eval.judges.qwen3guard_judge import three_lines
from refusal_eval.judges.reasoned_judge import FLAGS, KINDS, reasoned_vote
from refusal_eval.judges.wildguard_judge import wildguard_verdict

pytestmark = pytest.mark.full
JUDGES: dict[str, Any] = {
    "writer": {
        "kind": "reasoned",
        "label": "writer",
        "engine": "smollm2-135m",
        "rubric": str(ROOT / "config" / "rubrics" / "refusal_reasoned.md"),
        "sampling": {"max_tokens": 160, "temperature": 1.0},
        "votes": 3,
        "retries": 2,
    },
    "thinker": {
        "kind": "reasoned",
        "label": "thinker",
        "engine": "smollm2-135m",
        "rubric": str(ROOT / "config" / "rubrics" / "refusal_reasoned.md"),
        "reasoning": {"format": "marks", "end": "."},  # the only mark that the small model writes by itself
        "sampling": {"max_tokens": 240, "temperature": 1.0},
        "retries": 1,
    },
    "guard": {"kind": "wildguard", "label": "guard", "engine": "smollm2-135m"},
    "moderator": {"kind": "qwen3guard", "label": "moderator", "engine": "smollm2-135m"},
    "panel": {"kind": "panel", "label": "panel", "members": ["keyword", "writer", "guard"], "least": 2},
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a study whose judges write, run to the table of scores."""
    folder = tmp_path_factory.mktemp("judges") / "project"
    judges = ["keyword", *JUDGES]
    project = real_project(folder, models=["declining"], samples=1, judges=judges, determinism="seeded")
    change_yaml(folder / "catalogue.yaml", lambda data: {**data, "judges": JUDGES})
    project.snakemake("results/small/tables/scores.csv")
    return project


def verdicts(project: Project, judge: str) -> list[dict[str, Any]]:
    return [row for path in sorted((project.results / "verdicts" / judge).rglob("*.jsonl")) for row in read_jsonl(path)]


def stored_responses(project: Project, judge: str) -> list[dict[str, Any]]:
    """Return the responses to the first request of each vote."""
    responses = []
    for file in project.request_files("judge_requests"):
        if judge in file.path.parts:
            records = StoreReader(project.store, file.header["engine_id"]).lookup(file.keys())
            responses += [record["response"] for record in records.values()]
    return responses


def stored_texts(project: Project, judge: str) -> list[str]:
    return [response["text"] for response in stored_responses(project, judge)]


def test_each_answer_has_a_verdict_of_every_judge(project: Project) -> None:
    for judge in ("keyword", *JUDGES):
        rows = verdicts(project, judge)
        assert len(rows) == 8, judge
        assert all(row["label"] in LABELS for row in rows if row["state"] == "judged")
        assert {row["state"] for row in rows} <= {"judged", UNPARSABLE}


def test_the_engine_keeps_to_the_schema(project: Project) -> None:
    texts = stored_texts(project, "writer")
    assert len(texts) == 8 * 3
    whole = [text for text in texts if reasoned_vote({"text": text}).state != UNPARSABLE]
    # What is not whole was cut off by `max_tokens` in the analysis: it is a beginning of the form, and nothing else.
    for text in texts:
        assert text.startswith('{"analysis":"')
    assert whole
    for text in whole:
        said = json.loads(text)
        assert list(said) == ["analysis", "label", "kind", *FLAGS] and said["kind"] in (*KINDS, "none")


def test_votes_are_drawn_apart_and_unreadable_ones_are_asked_again(project: Project) -> None:
    (path,) = (project.results / "receipts" / "judge").rglob("*.json")
    receipt = read_json(path)
    first = [reasoned_vote({"text": text}).state for text in stored_texts(project, "writer")]
    unread = Counter(first)[UNPARSABLE]
    # Each unreadable first try was asked again at least once, and at most twice.
    of_thinker = sum(row["raw"].get("tries", 1) for row in verdicts(project, "thinker"))
    guards = 2 * 8  # one request an answer
    extra = receipt["executed"] - 8 * 3 - guards - of_thinker
    assert unread <= extra <= 2 * unread
    assert receipt["engine"]["counters"]["requests"] == receipt["executed"]
    assert len(set(stored_texts(project, "writer"))) > 8  # the three votes on an answer differ


def test_a_judge_that_reasons_keeps_to_the_schema_behind_its_mark(project: Project) -> None:
    folder = read_json(project.results / "engines" / "smollm2-135m.json")["tokenizer_folder"]
    tokenizer = Renderer(folder).tokenizer
    mark, forms = tokenizer.convert_tokens_to_ids("."), []
    for response in stored_responses(project, "thinker"):
        ids = response["token_ids"]
        if mark in ids:
            forms.append(tokenizer.decode(ids[ids.index(mark) + 1 :], skip_special_tokens=True).strip())
    assert forms
    for form in forms:
        assert re.match(r'\{\s*("analysis"|"\w*$|$)', form), form
    states = [reasoned_vote({"text": form}).state for form in forms]
    judged = [row for row in verdicts(project, "thinker") if row["state"] == "judged"]
    assert judged and len(judged) >= states.count("judged") > 0


def test_wildguards_three_lines_come_out_of_any_model(project: Project) -> None:
    for text in stored_texts(project, "guard"):
        assert wildguard_verdict({"text": text}).state in ("judged", UNPARSABLE)
        assert text.startswith("Harmful request: ") and len(text.strip().splitlines()) == 3


def test_qwen3guards_three_lines_come_out_of_any_model_with_how_likely_the_last_word_was(project: Project) -> None:
    for text in stored_texts(project, "moderator"):
        assert three_lines(text) is not None, text
    for row in verdicts(project, "moderator"):
        likelier = "refusal" if row["p_refusal"] >= 0.5 else "compliance"
        said = "refusal" if row["raw"]["text"].endswith("Yes") else "compliance"
        assert row["state"] == "judged" and row["label"] == likelier == said
    assert any(0 < row["p_refusal"] < 1 for row in verdicts(project, "moderator"))


def test_a_rerun_has_nothing_to_do(project: Project) -> None:
    assert "Nothing to be done" in project.snakemake("results/small/tables/scores.csv").stderr


def test_the_verdicts_of_a_panel_are_those_of_its_members(project: Project) -> None:
    said = {judge: [row["label"] or row["state"] for row in verdicts(project, judge)] for judge in JUDGES}
    said["keyword"] = [row["label"] for row in verdicts(project, "keyword")]
    for number, row in enumerate(verdicts(project, "panel")):
        members = {name: said[name][number] for name in JUDGES["panel"]["members"]}
        assert row["raw"]["members"] == members


def test_scores_of_all_judges_are_in_the_tables(project: Project, tmp_path: Path) -> None:
    text = (project.results / "tables" / "scores.csv").read_text()
    assert all(judge in text for judge in JUDGES)
