"""Answers that were drawn elsewhere, in a folder in the published layout, become a study through the real DAG."""

import json
import os

import pandas as pd
import pytest
import yaml
from project import CATALOGUE, make_project

from refusal_eval.__main__ import main
from refusal_eval.core.files import read_jsonl
from refusal_eval.stats.estimates.units import read_units

SCORES = {"one": [1, -1, 0], "two": [1, 1, -1]}
TEXT = {1: "I cannot help with that.", -1: "Sure. Here it is.", 0: "Well, perhaps."}
PROBABILITIES = [0.5, 0.25, 0.125]


def rows_of(project, split):
    return list(read_jsonl(project.folder / f"{split}.jsonl"))


def record(project):
    """Write a folder as the published library leaves it, for every split of the study."""
    for split, scores in SCORES.items():
        folder = project.folder / "theirs" / "run-1" / split
        folder.mkdir(parents=True)
        texts = [f"Hm.\n</think>\n\n{TEXT[score]}" for score in scores]
        prompts = [row["prompt"].strip() for row in rows_of(project, split)]
        drawn = [
            {"text": text, "thinking_prob": 0.5, "answer_prob": p, "cum": p}
            for text, p in zip(texts, PROBABILITIES, strict=True)
        ]
        answers = [{"prompt": prompt, "answers": drawn} for prompt in reversed(prompts)]
        (folder / "answers.json").write_text(json.dumps(answers))
        judged = [[{"label": score, "judge_outputs": []} for score in scores] for _ in prompts]
        (folder / "judge_scores.json").write_text(json.dumps(judged))


def recorded_project(folder, **study):
    project = make_project(folder)
    record(project)
    marks = {"start": "<think>", "end": "</think>"}
    entry = {"engine": "absent", "sampling": {"max_tokens": 300}, "recorded": "theirs", "reasoning": marks}
    weights = {"kind": "hub", "repo": "owner/never-seen", "revision": None}
    absent = {"weights": weights, "max_model_len": 4096}
    catalogue = CATALOGUE | {"engines": CATALOGUE["engines"] | {"absent": absent}}
    catalogue["models"] = CATALOGUE["models"] | {"theirs": entry}
    catalogue["judges"] = CATALOGUE["judges"] | {"their-judge": {"kind": "recorded", "label": "Their judge"}}
    (project.folder / "catalogue.yaml").write_text(yaml.safe_dump(catalogue))
    project.study(**({"models": ["theirs"], "judges": ["their-judge", "words"], "gold": []} | study))
    return project


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Run a whole study on recorded answers; there are no weights, and no engine is asked."""
    project = recorded_project(tmp_path_factory.mktemp("recorded") / "p")
    project.snakemake()
    return project


def test_their_answers_are_the_studys_and_their_reasoning_is_not(recorded):
    rows = list(read_jsonl(recorded.results / "answers" / "theirs" / "one.jsonl"))
    assert len(rows) == 3 * len(rows_of(recorded, "one"))
    assert {(row["state"], row["answer"].strip(), row["reasoning"].strip()) for row in rows} == {
        ("complete", TEXT[score], "Hm.") for score in SCORES["one"]
    }


def test_own_numbers_come_from_their_answers_under_their_judge_and_under_ours(recorded):
    """Of three answers one refuses; their judge could not be read on the third, ours sees two that comply."""
    theirs = read_units(recorded.results / "scores" / "their-judge" / "theirs" / "one.parquet").frame
    weights = [PROBABILITIES[0], PROBABILITIES[1]]  # softmax of log-probabilities at tau 1: the probabilities
    assert theirs["c"].to_list() == pytest.approx([(weights[0] - weights[1]) / sum(weights)] * len(theirs), abs=1e-5)
    ours = read_units(recorded.results / "scores" / "words" / "theirs" / "one.parquet").frame
    assert ours["c"].to_list() == pytest.approx([(0.5 - 0.25 - 0.125) / 0.875] * len(ours), abs=1e-5)
    refusal = pd.read_csv(recorded.results / "tables" / "refusal.csv")
    assert set(refusal["model"]) == {"theirs"} and set(refusal["judge"]) == {"their-judge"}


def test_nothing_claims_that_we_asked_an_engine(recorded):
    manifest = json.loads((recorded.results / "manifest.json").read_text())
    assert manifest["engines"] == {} and manifest["serving"] == {}
    assert not (recorded.results / "requests").exists() and not (recorded.results / "receipts").exists()
    methods = next((recorded.results).rglob("methods.md")).read_text()
    assert "were drawn elsewhere" in methods and "we drew" not in methods


def test_status_and_verify_take_it_for_a_finished_study(recorded, monkeypatch, capsys):
    monkeypatch.chdir(recorded.folder)
    assert main(["status", "study.yaml"]) == 0
    assert "theirs: 2 of 2 splits done" in capsys.readouterr().out
    assert main(["verify", "study.yaml"]) == 0


def test_a_finished_study_stands_and_a_changed_folder_is_read_again(recorded):
    assert recorded.planned() == {}
    file = recorded.folder / "theirs" / "run-1" / "one" / "judge_scores.json"
    before = file.read_text()
    file.write_text(before.replace("-1", "1"))
    try:
        planned = recorded.planned()
        assert planned["recorded_verdicts"] == 1 and "recorded_answers" not in planned and planned["score"] == 1
    finally:
        file.write_text(before)
        os.utime(file, (1, 1))


@pytest.mark.full
def test_under_compat_the_numbers_are_those_that_follow_from_the_folder(tmp_path, capsys):
    from refusal_eval.__main__ import main

    project = recorded_project(tmp_path / "p", protocol="compat", judges=["their-judge"])
    for file in (project.folder / "theirs").rglob("judge_scores.json"):  # of a judge that was asked several times
        file.write_text(file.read_text().replace('"label": 1,', '"label": 0.25,'))
    project.snakemake()
    assert main(["export", "--check", str(project.folder / "theirs")]) == 0
    reported = capsys.readouterr().out
    for split in SCORES:
        published = json.loads((project.results / f"published/scores/their-judge/theirs/{split}.json").read_text())
        assert f"{split}: {len(published['scores'])} of " in reported
        assert f"rejection_pct {published['metrics']['rejection_pct']:.2f}" in reported


def test_recorded_answers_stand_beside_a_model_that_is_asked(tmp_path):
    project = recorded_project(tmp_path / "p", models=["plain", "theirs"], judges=["words", "label"], gold=["people"])
    planned = project.planned()
    assert (planned["recorded_answers"], planned["requests"], planned["answers"]) == (2, 2, 2)
    assert planned["generate"] == 1 and planned["llm_verdicts"] == 4 + 1
