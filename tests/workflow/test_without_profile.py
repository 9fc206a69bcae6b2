"""Reruns without profiles/default, as when a Snakefile of one's own takes the workflow as a module."""

import os
from collections.abc import Callable

import pytest
from project import Project

PLAIN = ("--workflow-profile", "none")  # Snakemake's own defaults


def touched(project: Project) -> None:
    """Give input files a new time and leave their content."""
    for name in ("one.jsonl", "rubric.md", "words.yaml", "gold.jsonl"):
        os.utime(project.folder / name)


def longer_split(project: Project) -> None:
    """Add a prompt to a split."""
    with open(project.folder / "two.jsonl", "a") as handle:
        handle.write('{"prompt": "two: one more?"}\n')


def other_rubric(project: Project) -> None:
    """Change a judge's rubric."""
    (project.folder / "rubric.md").write_text("Another. " + (project.folder / "rubric.md").read_text())


def test_nothing_changed_nothing_to_do(finished: Project) -> None:
    assert finished.planned(*PLAIN) == {}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(touched, id="files are touched"),
        pytest.param(longer_split, id="a split's file"),
        pytest.param(other_rubric, id="a rubric", marks=pytest.mark.full),
        pytest.param(
            lambda project: project.catalogue("models", "terse", sampling={"max_tokens": 300, "temperature": 0.7}),
            id="a temperature",
        ),
        pytest.param(lambda project: project.study(samples=5), id="more samples", marks=pytest.mark.full),
        pytest.param(lambda project: project.study(scoring={"tau": 0.5}), id="tau", marks=pytest.mark.full),
        pytest.param(lambda project: project.study(models=["plain"]), id="a model is taken away"),
        pytest.param(lambda project: project.study(splits=["one", "two", "extra"]), id="a new split"),
        pytest.param(lambda project: project.study(gold=[]), id="without gold", marks=pytest.mark.full),
        pytest.param(lambda project: project.study(judges=["label", "words"]), id="order", marks=pytest.mark.full),
    ],
)
def test_a_change_runs_the_same_jobs_as_with_the_profile(finished: Project, change: Callable[[Project], None]) -> None:
    change(finished)
    assert finished.planned(*PLAIN) == finished.planned()


def test_another_batching_collects_answers_again_and_asks_for_none(finished: Project) -> None:
    """Snakemake sees other receipts behind a cell; nothing in a workflow can tell it that they make no difference."""
    answers = {path: path.read_bytes() for path in sorted(finished.results.rglob("answers/**/*.jsonl"))}
    finished.study(batch="model", shards=2)
    finished.snakemake(*PLAIN, "--until", "answers")
    assert {path: path.read_bytes() for path in answers} == answers
    assert not finished.missing("requests")
