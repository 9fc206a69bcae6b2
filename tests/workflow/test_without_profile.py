"""Reruns without profiles/default, as when a Snakefile of one's own takes the workflow as a module."""

from collections.abc import Callable

import pytest
from project import PLAIN, Project


def other_rubric(project: Project) -> None:
    """Change a judge's rubric."""
    (project.folder / "rubric.md").write_text("Another. " + (project.folder / "rubric.md").read_text())


@pytest.mark.full
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(other_rubric, id="a rubric"),
        pytest.param(lambda project: project.study(samples=5), id="more samples"),
        pytest.param(lambda project: project.study(scoring={"tau": 0.5}), id="tau"),
        pytest.param(lambda project: project.study(gold=[]), id="without gold"),
        pytest.param(lambda project: project.study(judges=["label", "words"]), id="order"),
    ],
)
def test_a_change_runs_the_same_jobs_as_with_the_profile(finished: Project, change: Callable[[Project], None]) -> None:
    """As test_reruns.py finds of other changes."""
    change(finished)
    assert finished.planned(*PLAIN) == finished.planned()


def test_another_batching_collects_answers_again_and_asks_for_none(finished: Project) -> None:
    """Snakemake sees other receipts behind a cell; nothing in a workflow can tell it that they make no difference."""
    answers = {path: path.read_bytes() for path in sorted(finished.results.rglob("answers/**/*.jsonl"))}
    finished.study(batch="model", shards=2)
    finished.snakemake(*PLAIN, "--until", "answers")
    assert {path: path.read_bytes() for path in answers} == answers
    assert not finished.missing("requests")
