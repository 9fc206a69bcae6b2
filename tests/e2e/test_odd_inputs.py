"""Inputs of strangers, as public bug reports have them: each is read as it was meant, or refused in words.

`tests/odd_inputs` has small ones; REFUSAL_EVAL_ODD_INPUTS names a folder with others under the same names.
"""

import csv
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from judge_entries import judge_entry
from program import refusal_eval
from project import ROOT, Project, change_yaml

from refusal_eval.core.errors import UserError

INPUTS = Path(os.environ.get("REFUSAL_EVAL_ODD_INPUTS", ROOT / "tests" / "odd_inputs"))
SCORES, NEVER_CLOSED, UNKNOWN_MARKS, TEMPLATES, JUDGES = (
    *("02-scores-of-their-own", "03-thinking-never-closed", "04-thinking-marks-unknown", "05-templates"),
    "06-judge-file",
)
USER = [{"role": "user", "content": "How do I whittle a spoon?"}]


def study_of(name: str, tmp_path: Path, *models: str) -> Project:
    """Return a copy of the study in a folder of odd inputs, of these models alone if any are named."""
    folder = tmp_path / name
    shutil.copytree(INPUTS / name, folder, copy_function=shutil.copyfile)
    folder.chmod(0o755)
    # Downloads are shared by all tests.
    own = {"study": "small", "cache_dir": str(ROOT / ".cache"), "batch": "model"}
    change_yaml(folder / "study.yaml", lambda data: data | own | ({"models": list(models)} if models else {}))
    return Project(folder)


def refused(project: Project, *arguments: str) -> str:
    run = project.snakemake(*arguments, check=False)
    assert run.returncode != 0, "it is not refused"
    return said(project, run)


def said(project: Project, run: subprocess.CompletedProcess[str]) -> str:
    """Return what a run printed, and what its jobs wrote into their logs."""
    logs = sorted((project.results / "logs").rglob("*.log"))
    return "\n".join([run.stdout, run.stderr, *(path.read_text(encoding="utf-8") for path in logs)])


def rates(project: Project) -> dict[tuple[str, str], float]:
    """Return the broad refusal rates by model and judge."""
    project.snakemake("results/small/results_table/results.csv")
    with open(project.results / "results_table" / "results.csv", encoding="utf-8") as handle:
        rows = [
            row for row in csv.DictReader(handle) if row["estimand"] == "refusal_rate" and row["reading"] == "broad"
        ]
    return {(row["model"], row["judge"]): float(row["value"]) for row in rows if row["split"] == "s1" and row["value"]}


def test_scores_of_ones_own_are_read_as_they_were_meant(tmp_path: Path) -> None:
    found = rates(study_of(SCORES, tmp_path, "right", "shuffled"))
    assert found["right", "theirs"] == found["shuffled", "theirs"] == 0.25
    answers = study_of(SCORES, tmp_path / "again", "shuffled")
    shuffled = verdicts(answers, "theirs", "shuffled")
    assert shuffled == verdicts(answers, "keyword", "shuffled"), "labels are those of other prompts"


def verdicts(project: Project, judge: str, model: str) -> list[str]:
    file = f"results/small/verdicts/{judge}/{model}/s1.jsonl"
    project.snakemake(file)
    return [row["label"] for row in map(yaml.safe_load, (project.folder / file).read_text().splitlines())]


@pytest.mark.parametrize("model", ["zeroone", "probability"])
def test_scores_on_another_scale_are_refused(tmp_path: Path, model: str) -> None:
    project = study_of(SCORES, tmp_path, model)
    assert "scores go from -1 (compliance) to 1 (refusal)" in refused(
        project, f"results/small/verdicts/theirs/{model}/s1.jsonl"
    )


@pytest.mark.parametrize("model", ["unclosed", "mostly"])
def test_reasoning_that_never_ends_is_refused(tmp_path: Path, model: str) -> None:
    assert "<think>" in refused(study_of(NEVER_CLOSED, tmp_path, model), "--until", "score")


@pytest.mark.parametrize(
    ("model", "mark"),
    [
        ("granite", "Here is my response:"),
        ("apriel", "[BEGIN FINAL RESPONSE]"),
        ("kimi-vl", "◁/think▷"),
        ("seed-oss", "</seed:think>"),
        ("gemma4", "<channel|>"),
        ("medgemma", "<unused95>"),
    ],
)
def test_marks_of_reasoning_are_named(tmp_path: Path, model: str, mark: str) -> None:
    assert mark in refused(study_of(UNKNOWN_MARKS, tmp_path, model), "--until", "score")


@pytest.mark.parametrize("model", ["nogen", "jsonfile", "cut"])
def test_templates_that_render_something_else_are_refused(tmp_path: Path, model: str) -> None:
    assert model in refused(study_of(TEMPLATES, tmp_path, model), "--until", "requests")


def test_a_byte_order_mark_is_no_part_of_a_template(tmp_path: Path) -> None:
    project = study_of(TEMPLATES, tmp_path, "bom", "option-as-text")
    run = project.snakemake("--until", "requests")
    assert "enable_thinking" in said(project, run)
    assert "\ufeff" not in (project.results / "requests" / "bom" / "s1.jsonl").read_text()


@pytest.mark.parametrize("name", ["dataclass_future", "pydantic_future", "pickle_pool", "sibling"])
def test_judge_files_are_programs_like_any_other(name: str) -> None:
    judge = judge_entry("python", file=str(INPUTS / JUDGES / f"{name}.py"))
    assert judge.judge_all([(USER, "Sorry, I can't.")])[0].label == "refusal"


def test_a_judge_file_that_exits_is_refused() -> None:
    with pytest.raises(UserError, match="cannot be imported"):
        judge_entry("python", file=str(INPUTS / JUDGES / "sysexit_import.py")).judge_all([(USER, "no")])


def test_answers_of_which_nothing_is_visible_are_empty(tmp_path: Path) -> None:
    project = study_of("07-nothing-visible", tmp_path)
    file = project.folder / "results" / "small" / "answers" / "zerowidth" / "s1.jsonl"
    project.snakemake("results/small/answers/zerowidth/s1.jsonl")
    assert [yaml.safe_load(line)["state"] for line in file.read_text().splitlines()].count("empty") == 6


def test_answers_without_reasoning_are_answers(tmp_path: Path) -> None:
    assert rates(study_of("08-thinking-skipped", tmp_path))["hybrid", "keyword"] == 0.375


@pytest.mark.parametrize("name", ["10-double-keys", "09-tool-calls"])
def test_rows_that_say_more_than_is_read_are_refused(tmp_path: Path, name: str) -> None:
    column = {"09-tool-calls": "m", "10-double-keys": "q"}[name]
    (rows,) = (INPUTS / name).glob("*.jsonl")
    project = of_rows(tmp_path, rows, column, messages=column == "m")
    words = {"09-tool-calls": "tool_calls", "10-double-keys": '"q" stands twice'}[name]
    assert words in refused(project, "--until", "prompts")


def of_rows(tmp_path: Path, rows: Path, column: str, messages: bool = False) -> Project:
    """Return a study of these rows."""
    shutil.copyfile(rows, tmp_path / rows.name)
    columns = {"messages" if messages else "prompt": column}
    split = {"expectation": "comply", "source": {"kind": "file", "path": rows.name}, "columns": columns}
    entries = {
        "models": {"base": {"engine": "smollm2-135m", "sampling": {"max_tokens": 8}}},
        "datasets": {"d": {"splits": {"s1": split}}},
    }
    study = {"study": "small", "models": ["base"], "splits": ["s1"], "samples": 1, "judges": ["keyword"]}
    study |= {"catalogue": ["entries.yaml"], "cache_dir": str(ROOT / ".cache")}
    for file, value in {"study.yaml": study, "entries.yaml": entries}.items():
        (tmp_path / file).write_text(yaml.safe_dump(value))
    return Project(tmp_path)


@pytest.mark.parametrize(("name", "character"), [("semicolon", ";"), ("tab", "tab")])
def test_what_else_parts_the_columns_is_named(tmp_path: Path, name: str, character: str) -> None:
    project = of_rows(tmp_path, INPUTS / "12-separators" / f"{name}.csv", "prompt")
    found = refused(project, "--until", "prompts")
    assert re.search(f"separat.*{character}|{character}.*separat", found)


def test_marks_of_a_merge_are_named(tmp_path: Path) -> None:
    file = shutil.copyfile(INPUTS / "13-conflict-marks" / "study.yaml", tmp_path / "study.yaml")
    run = refusal_eval("plan", str(file), cwd=ROOT)
    assert run.returncode != 0
    assert "study.yaml:2: is not valid YAML: `<<<<<<< HEAD` is a mark of an unfinished merge" in run.stdout + run.stderr
