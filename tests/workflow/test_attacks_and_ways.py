"""Attacks that fail and ways of asking through the workflow: recorded answers, and numbers counted by hand."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from project import CATALOGUE, Project, make_project

pytestmark = pytest.mark.feature("tradeoff", "ways_of_asking", "recorded_logs")
# The first word of an answer says what a judge reads in it.
JUDGE = """\
LABELS = {"R": "refusal", "H": "compliance", "N": "compliance"}


def judge(messages, answer):
    return LABELS[answer.split()[0]]


def harm(messages, answer):
    return {"H": "harmful", "N": "harmless", "R": "harmless"}[answer.split()[0]]
"""
SCENES, QUESTIONS = 8, 3
SAFE = {"one": "RRNNNNNNNN", "two": "RNNNNNNNNN"}
ATTACKED = {"one": "RRRRHNNNRR", "two": "HHHHHHNNRR"}
IN_SCENE = {"one": lambda s, q: "R" if s % 2 else "N", "two": lambda s, q: "N"}
ALONE = {"one": lambda s, q: "R" if q else "N", "two": lambda s, q: "R" if (s, q) == (0, 0) else "N"}


def talk(scene: int, question: int) -> list[dict[str, str]]:
    said = (("user", f"Scene {scene}."), ("assistant", "Yes."), ("user", f"Question {scene}.{question}?"))
    return [{"role": role, "content": text} for role, text in said]


def rows_of(model: str) -> list[dict[str, Any]]:
    found = [{"prompt": f"Safe {i}?", "answer": f"{letter} {i}"} for i, letter in enumerate(SAFE[model])]
    found += [{"prompt": f"Attack {i}!", "answer": f"{letter} {i}"} for i, letter in enumerate(ATTACKED[model])]
    for scene in range(SCENES):
        for question in range(QUESTIONS):
            messages = talk(scene, question)
            found.append({"messages": messages, "answer": f"{IN_SCENE[model](scene, question)} {scene}{question}"})
            found.append({"messages": messages[2:], "answer": f"{ALONE[model](scene, question)} {scene}{question}"})
    return found


def jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = make_project(tmp_path_factory.mktemp("attacks") / "p")
    folder = project.folder
    (folder / "own_judge.py").write_text(JUDGE)
    scripts = [
        {"id": str(s), "talk": [*talk(s, 0), *(talk(s, q)[2] for q in range(1, QUESTIONS))]} for s in range(SCENES)
    ]
    jsonl(folder / "talks.jsonl", scripts)
    jsonl(folder / "safe.jsonl", [{"prompt": f"Safe {i}?"} for i in range(10)])
    jsonl(folder / "attacks.jsonl", [{"prompt": f"Attack {i}!"} for i in range(10)])
    for model in SAFE:
        jsonl(folder / f"{model}.jsonl", rows_of(model))
    talks = {"source": {"kind": "file", "path": "talks.jsonl"}, "expectation": "varies"}
    talks |= {"columns": {"messages": "talk", "id": "id", "cluster": "id"}}
    splits = {
        "safe": {
            "source": {"kind": "file", "path": "safe.jsonl"},
            "expectation": "comply",
            "weighed_against": "1 - ASR",
        },
        "attacked": {"source": {"kind": "file", "path": "attacks.jsonl"}, "expectation": "refuse"},
        "in-scene": talks | {"dialogue": {"mode": "independent"}},
        "by-itself": talks | {"dialogue": {"mode": "alone"}},
    }
    entries = {
        name: {"engine": "tiny", "sampling": {"max_tokens": 300}, "recorded": {"file": f"{name}.jsonl"}}
        for name in SAFE
    }
    own = {"kind": "python", "file": "own_judge.py"}
    kinds = {"harmful": "compliance", "harmless": "compliance"}
    judges = {"own": own, "harm": own | {"function": "harm", "kinds": kinds}}
    catalogue = CATALOGUE | {"models": entries, "judges": judges, "gold": {}, "datasets": {"d": {"splits": splits}}}
    (folder / "catalogue.yaml").write_text(yaml.safe_dump(catalogue))
    project.study(
        models=list(SAFE),
        splits=list(splits),
        samples=1,
        judges=["own", "harm"],
        gold=[],
        attacks={"splits": ["attacked"], "judge": "harm", "succeeds": ["harmful"]},
        ways_of_asking=[["in-scene", "by-itself"]],
        figures=[{"name": "attacks", "kind": "tradeoff", "axes": "attacks"}, {"name": "plain", "kind": "tradeoff"}],
    )
    project.snakemake()
    return project


def results(study: Project, estimand: str) -> dict[str, dict[str, str]]:
    """Return the rows of an estimand under the judge of refusals, by model."""
    with (study.results / "results_table" / "results.csv").open(encoding="utf-8", newline="") as file:
        found = [row for row in csv.DictReader(file) if (row["estimand"], row["judge"]) == (estimand, "own")]
    assert len(found) == len(SAFE)
    return {row["model"]: row for row in found}


def test_attacks_that_fail_are_in_results_table_figure_and_pages(study: Project) -> None:
    for model, row in results(study, "attacks_failed").items():
        assert float(row["value"]) == pytest.approx(1 - ATTACKED[model].count("H") / 10)
        assert float(row["low"]) < float(row["value"]) < float(row["high"]) and row["n_prompts"] == "10"
    table = (study.results / "tables" / "tradeoff.md").read_text()
    shown = [
        line for line in table[table.index("Attacks that fail") :].splitlines() if line.startswith(("| one", "| two"))
    ]
    assert ["90.0" in shown[0], "40.0" in shown[1]] == [True, True]
    assert "In the paper of safe the other axis is 1 - ASR: another quantity" in table
    attacks, plain = (
        " ".join((study.results / "figures" / f"{name}.caption_long.md").read_text().split())
        for name in ("attacks", "plain")
    )
    assert "Attacks on attacked succeed where harm finds an answer harmful" in attacks
    assert "another quantity" in plain and "another quantity" not in attacks


def test_what_the_way_of_asking_changes_is_in_results_table_and_methods(study: Project) -> None:
    for model, row in results(study, "way_difference").items():
        pairs = [(IN_SCENE[model](s, q), ALONE[model](s, q)) for s in range(SCENES) for q in range(QUESTIONS)]
        by_hand = sum((one == "R") - (other == "R") for one, other in pairs) / len(pairs)
        assert float(row["value"]) == pytest.approx(by_hand, abs=1e-9)
        assert (row["split"], row["parameter"]) == ("in-scene", "minus by-itself")
        assert (row["n_prompts"], row["n_clusters"]) == (str(SCENES * QUESTIONS), str(SCENES))
        assert float(row["low"]) <= float(row["value"]) <= float(row["high"])
    table = (study.results / "tables" / "ways_of_asking.md").read_text()
    assert "in-scene" in table and "not adjusted for the number of comparisons" in table
    assert "turn by turn of the same rows" in " ".join((study.results / "methods.md").read_text().split())
