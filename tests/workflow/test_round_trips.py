"""A study with dialogues, blocks and declared refusals goes out and comes back equal, turn by turn."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from blocking_study import hosted
from program import in_process
from project import Project

from refusal_eval.core.files import read_jsonl
from refusal_eval.core.states import BLOCKED, NOBODY

pytestmark = pytest.mark.feature("exports", "recorded_logs", "rates", "who_refused")
FORMS = ("hf", "inspect")
JUDGE, MODELS = "keyword", ["strict"]
Place = tuple[Any, ...]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a finished study, with its exports in folders of their own."""
    project = hosted(tmp_path_factory.mktemp("round") / "project")
    project.study(models=MODELS, splits=["one", "talks"], judges=[JUDGE, "words"], failure_limit=0.2)
    project.snakemake("--until", "results_table")
    for form in FORMS:
        order = ("export", "study.yaml", "--as", form, "--level", "answers", "--output", f"../{form}")
        run = in_process(*order, cwd=project.folder)
        assert run.returncode == 0, run.stderr
    return project


def read_back(folder: Path, export: Path) -> Project:
    """Write a study by hand that reads the models of an export, its splits and its labels; return it finished."""
    folder.mkdir()
    models = {name: {"recorded": {"file": str(export), "model": name}} for name in MODELS}
    judges = {"came": {"kind": "recorded", "by": "words"}}
    (folder / "entries.yaml").write_text(yaml.safe_dump({"models": models, "judges": judges}))
    own = {"study": "small", "models": MODELS, "judges": [JUDGE, "came"], "samples": 3}
    (folder / "study.yaml").write_text(yaml.safe_dump(own | {"catalogue": ["entries.yaml"]}))
    project = Project(folder)
    project.snakemake("--until", "results_table")
    return project


@pytest.fixture(scope="module", params=FORMS)
def back(study: Project, request: pytest.FixtureRequest) -> Project:
    return read_back(study.folder.parent / f"by-hand-{request.param}", study.folder.parent / request.param)


def places(results: Path, kind: str, judge: str = "") -> dict[Place, dict[str, Any]]:
    """Return rows of answers or of a judge's verdicts, by model, split, what the user says, sample and turn."""
    found = {}
    for file in sorted((results / kind / judge).rglob("*.jsonl")):
        prompts = {row["id"]: row["messages"] for row in read_jsonl(results / "prompts" / file.name)}
        asked = {
            name: tuple(m["content"] for m in messages if m["role"] == "user") for name, messages in prompts.items()
        }
        for row in read_jsonl(file):
            found[file.parent.name, file.stem, asked[row["prompt_id"]], row["sample"], row["turn"]] = row
    return found


def numbers(results: Path, judge: str) -> dict[Place, float]:
    """Return every refusal rate of a judge with its interval, and who refused."""
    frame = pd.read_parquet(results / "results_table" / "results.parquet")
    own = frame[(frame["judge"] == judge) & frame["model"].notna()]
    own = own[own["estimand"].str.startswith(("refusal_rate", "refused_by", "declared_called", "unfiltered"))]
    about = ["estimand", "model", "split", "pool", "category", "reading", "parameter"]
    found: dict[Place, float] = {}
    for row in own.to_dict("records"):
        place = tuple(str(row[name]) for name in about)
        found |= {(*place, end): row[end] for end in ("value", "low", "high") if row[end] == row[end]}
    return found


def check_equal(study: Project, results: Path, came: str) -> None:
    kept = ("state", "answer", "reasoning", "blocked", "declared", "marks", "usage", "reason")
    first, again = places(study.results, "answers"), places(results, "answers")
    assert first.keys() == again.keys() and {place[-1] for place in first} == {0, 1, 2}
    for place, row in first.items():
        said = {name: row.get(name) for name in kept}
        if row["state"] == BLOCKED:
            said["blocked"] = said["blocked"] or NOBODY  # nobody said anything
        assert {name: again[place].get(name) for name in kept} == said, place
    for judge, theirs in ((JUDGE, JUDGE), ("words", came)):
        labels = {place: row["label"] for place, row in places(study.results, "verdicts", judge).items()}
        assert {place: row["label"] for place, row in places(results, "verdicts", theirs).items()} == labels
        rates = numbers(study.results, judge)
        assert {place[0] for place in rates} >= {"refusal_rate_turn", "refusal_rate_model_alone", "refused_by"}
        assert numbers(results, theirs) == pytest.approx(rates, abs=1e-12, rel=0)


def test_a_study_by_hand_on_an_export_gives_the_same_answers_labels_and_rates(study: Project, back: Project) -> None:
    check_equal(study, back.results, "came")


def test_it_plans_nothing_again(back: Project) -> None:
    assert back.planned("--until", "results_table") == {}


@pytest.mark.parametrize("form", ["hf"])
def test_judge_on_an_export_gives_the_same_answers_labels_and_rates(study: Project, form: str) -> None:
    folder = study.folder.parent
    run = in_process("judge", form, "--judge", JUDGE, "--into", f"judged-{form}", "--no-run", cwd=folder)
    assert run.returncode == 0, run.stderr
    made = Project(folder / f"judged-{form}")
    splits = yaml.safe_load((made.folder / "entries.yaml").read_text())["datasets"][f"{form}-answers"]["splits"]
    assert splits["talks"]["dialogue"] == {"mode": "cumulative", "scored": "all"} and "dialogue" not in splits["one"]
    entries = yaml.safe_load((made.folder / "entries.yaml").read_text())["judges"]
    [theirs] = [name for name, judge in entries.items() if judge["by"] == "words"]
    config = yaml.safe_load((made.folder / "study.yaml").read_text())
    (made.folder / "study.yaml").write_text(yaml.safe_dump(config | {"results_dir": "results"}))
    made.snakemake("--until", "results_table")
    check_equal(study, made.folder / "results" / config["study"], theirs)


def test_a_file_without_a_block_has_no_table_of_who_refused(tmp_path: Path) -> None:
    def analysed(*answers: dict[str, Any]) -> bool:
        rows = [{"prompt": f"Question {n}?", "model": "m"} | row for n, row in enumerate(answers)]
        (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        entries = {"models": {"m": {"recorded": {"file": "a.jsonl"}}}}
        (tmp_path / "entries.yaml").write_text(yaml.safe_dump(entries))
        study = {"study": "small", "models": ["m"], "judges": [JUDGE], "samples": 1, "catalogue": ["entries.yaml"]}
        (tmp_path / "study.yaml").write_text(yaml.safe_dump(study))
        return any("who_refused" in said for said in Project(tmp_path).planned_and_said()[1])

    sure, blocked = {"answer": "Sure."}, {"answer": "", "finish_reason": "content_filter"}
    assert not analysed(sure, sure)
    assert analysed(sure, blocked)
