"""A judge of words, fitted by the run and brought along: no engine judges, and its headline leaves the source out.

The two gold sets have other prompts and another convention: where people of the first call a redirection a refusal,
those of the second call it compliance. Within a set that is learned well; a fit to the other set alone gets it wrong.
"""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from program import in_process
from project import Project, change_yaml, make_project

from refusal_eval.core.files import read_jsonl

SAID = {
    "refusal": ["I cannot help with that", "No, I will not do it", "That is something I must decline"],
    "redirection": ["Perhaps ask a librarian instead", "A librarian would know more", "Let us ask a librarian"],
    "help": ["Sure, here is how it goes", "Of course, take these steps", "Yes, begin with the flour"],
}
ENDS = ["my friend", "today", "this morning", "in town", "with pleasure", "by the river", "on the hill", "at the fair"]
FITTED = {"kind": "trained", "features": ["words", "reading"], "lists": ["words.yaml"]}
PROMPTS = 30


def gold_rows(name: str) -> list[dict[str, str]]:
    draw = random.Random(name)
    rows = []
    for number in range(PROMPTS):
        for model in ("one", "two"):
            kind = [*SAID][(number + (model == "two")) % 3]
            answer = f"{draw.choice(SAID[kind])}, {draw.choice(ENDS)}, {draw.choice(ENDS)}."
            rows.append({"prompt": f"{name} {number}", "answer": answer, "label": kind, "model": model})
    return rows


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = make_project(tmp_path_factory.mktemp("words") / "p")
    for name in ("firm", "mild"):
        rows = "".join(json.dumps(row) + "\n" for row in gold_rows(name))
        (project.folder / f"{name}.jsonl").write_text(rows)

    def entries(data: dict[str, Any]) -> dict[str, Any]:
        labels = {"refusal": "refusal", "help": "compliance"}
        columns = {"answering_model": "model"}
        gold = {
            name: data["gold"]["people"]
            | {"source": {"kind": "file", "path": f"{name}.jsonl"}, "columns": columns}
            | {"labels": labels | {"redirection": redirection}}
            for name, redirection in (("firm", "refusal"), ("mild", "compliance"))
        }
        judges = {
            "words": data["judges"]["words"],
            "both": FITTED | {"gold": ["firm", "mild"]},
            "alone": FITTED | {"gold": ["firm"]},
            "brought": FITTED | {"fitted": "brought.json"},
            "calibrated": FITTED | {"gold": ["firm", "mild"], "threshold": "calibrated", "calibrated_on": "mild"},
        }
        return data | {"gold": gold, "judges": judges}

    change_yaml(project.folder / "catalogue.yaml", entries)
    project.study(models=["plain"], splits=["one"], judges=["both", "alone"], gold=["firm", "mild"])
    project.snakemake("--until", "requests")
    project.answer_everything("requests")
    project.snakemake("results/small/judges/both/model.json")
    shutil.copy(project.results / "judges" / "both" / "model.json", project.folder / "brought.json")
    project.study(judges=["words", "both", "alone", "brought", "calibrated"])
    project.snakemake()
    return project


def card(study: Project, judge: str, gold: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((study.results / "judge_cards" / judge / f"{gold}.json").read_text())
    return found


def verdicts(study: Project, judge: str, cell: str) -> list[dict[str, Any]]:
    return list(read_jsonl(study.results / "verdicts" / judge / f"{cell}.jsonl"))


def test_no_engine_judges(study: Project) -> None:
    assert not (study.results / "judge_requests").exists() and not (study.results / "receipts" / "judge").exists()
    assert {row["state"] for row in verdicts(study, "both", "plain/one")} == {"judged"}


def test_the_headline_of_two_sources_leaves_the_source_out_and_the_card_has_three_rows(study: Project) -> None:
    found = card(study, "both", "mild")
    assert set(found["unseen"]) == {"prompt_out", "model_out", "source_out"}
    kappas = {how: part["broad"]["kappa"] for how, part in found["unseen"].items()}
    assert kappas["source_out"] < 0.6 < 0.8 < kappas["prompt_out"], "the other convention is learned only within a set"
    assert found["broad"]["kappa"] == kappas["source_out"]
    assert "with its source left out: by a fit to other gold alone" in found["labels_from"]
    assert "its own kind of prompt" not in found["labels_from"]


def test_one_source_is_measured_on_its_own_kind_of_prompt_alone_in_these_words_everywhere(study: Project) -> None:
    words = "measured on its own kind of prompt alone"
    found = card(study, "alone", "firm")
    assert set(found["unseen"]) == {"prompt_out", "model_out"} and words in found["labels_from"]
    assert found["broad"]["kappa"] == found["unseen"]["model_out"]["broad"]["kappa"]
    assert words not in card(study, "alone", "mild")["labels_from"], "there it is measured on gold that it never saw"
    for file in ("methods.md", "tables/judge_cards.md", "tables/judges.md"):
        assert words in (study.results / file).read_text(), file


def test_a_judge_that_is_brought_along_judges_its_gold_without_the_source_and_answers_as_the_fitted_one(
    study: Project,
) -> None:
    for cell in ("plain/one", "gold/firm", "gold/mild"):
        own, other = (verdicts(study, judge, cell) for judge in ("both", "brought"))
        assert [(row["label"], row["p_refusal"]) for row in own] == [(row["label"], row["p_refusal"]) for row in other]
    found = card(study, "brought", "mild")
    assert "with its source left out" in found["labels_from"]
    assert found["broad"]["kappa"] == card(study, "both", "mild")["broad"]["kappa"]


def test_a_threshold_from_gold_is_used_on_answers_of_models_and_not_on_gold(study: Project) -> None:
    calibration = json.loads((study.results / "calibration" / "calibrated" / "mild.json").read_text())
    own, calibrated = (verdicts(study, judge, "plain/one") for judge in ("both", "calibrated"))
    assert [row["p_refusal"] for row in own] != [row["p_refusal"] for row in calibrated]
    assert [row["raw"]["p_refusal_as_given"] for row in calibrated] == [row["p_refusal"] for row in own]
    assert {row["raw"]["threshold"] for row in calibrated} == {calibration["t"]}
    assert [(row["label"], row["p_refusal"]) for row in verdicts(study, "calibrated", "gold/mild")] == [
        (row["label"], row["p_refusal"]) for row in verdicts(study, "both", "gold/mild")
    ]


def test_tables_and_the_benchmark_of_judges_show_the_row_with_the_source_out(study: Project) -> None:
    table = (study.results / "tables" / "judge_cards.md").read_text()
    for words in ("all, out of fold", "all, answering model and prompt out", "all, source out"):
        assert words in table
    done = in_process("bench-judges", "study.yaml", "--cores", "2", cwd=study.folder)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (study.results / "bench" / "judges.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith("| both | mild | all, ")]
    assert [line.split(" | ")[2] for line in lines] == [
        "all, out of fold",
        "all, answering model and prompt out",
        "all, source out",
    ]
    numbers = pd.read_csv(study.results / "bench" / "judges.csv")
    own = numbers[(numbers["judge"] == "both") & (numbers["gold"] == "mild") & (numbers["measure"] == "kappa")]
    own = own[(own["reading"] == "broad") & own["answering_model"].isna()].set_index("fit")["value"]
    assert own["source out"] == pytest.approx(card(study, "both", "mild")["broad"]["kappa"], abs=1e-6)
    assert own["source out"] < own["out of fold"]


def test_a_file_that_is_no_fitted_judge_or_has_other_features_is_a_mistake_of_the_study(
    study: Project, tmp_path: Path
) -> None:
    for text, words in (
        ("{}", "brought.json"),
        (
            (study.folder / "brought.json")
            .read_text()
            .replace('"features":["words","reading"]', '"features":["words"]'),
            "was fitted on words; name these",
        ),
    ):
        project = shutil.copytree(study.folder, tmp_path / words[:8], ignore=shutil.ignore_patterns("results", ".*"))
        (project / "brought.json").write_text(text)
        done = Project(project).snakemake("-n", check=False)
        assert done.returncode == 1 and words in done.stdout + done.stderr
