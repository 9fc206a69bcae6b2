"""The browser's page as an output of a run: made where a study asks for it, made again with what it shows."""

import os
from pathlib import Path

import pytest
from packed_page import unpacked
from program import in_process
from project import Project, copy_of
from test_recorded import recorded_project

from refusal_eval.core.files import read_jsonl

pytestmark = pytest.mark.feature("browser")


@pytest.fixture(scope="module")
def finished_once(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a finished study without the key; do not change it."""
    project: Project = recorded_project(tmp_path_factory.mktemp("browser") / "p")
    project.snakemake()
    return project


@pytest.fixture
def finished(finished_once: Project, tmp_path: Path) -> Project:
    return copy_of(finished_once, tmp_path / "p")


def test_a_study_that_does_not_ask_has_no_such_job_and_one_that_asks_has_this_one(finished: Project) -> None:
    assert finished.planned("--forceall").get("browser") is None
    assert finished.planned() == {}
    finished.study(browser=True)
    assert finished.planned() == {"browser": 1}
    finished.snakemake()
    assert finished.planned() == {}
    found = unpacked((finished.results / "browser.html").read_text("utf-8"))
    texts = {text for part in found["texts"] for text in part["answers"]}
    assert texts == {row["answer"] for path in finished.results.glob("answers/*/*.jsonl") for row in read_jsonl(path)}
    assert len(found["head"]["rates"]) == 2 * 2  # judges, splits
    assert all(rate[3] is not None for rate in found["head"]["rates"])
    # It is the page of the verb, and what is there counts as made.
    before = (finished.results / "browser.html").read_bytes()
    run = in_process("browse", "study.yaml", cwd=finished.folder)
    assert run.returncode == 0, run.stderr
    assert (finished.results / "browser.html").read_bytes() == before
    assert finished.planned() == {}
    assert in_process("verify", "study.yaml", cwd=finished.folder).returncode == 0


def test_it_is_made_again_where_what_it_shows_changes_and_when_it_is_deleted(finished: Project) -> None:
    finished.study(browser=True)
    finished.snakemake()
    finished.catalogue("models", "theirs", label="Their model")
    assert finished.planned()["browser"] == 1
    finished.snakemake()
    head = unpacked((finished.results / "browser.html").read_text("utf-8"))["head"]
    assert head["models"] == [{"name": "theirs", "label": "Their model"}]
    os.remove(finished.results / "browser.html")
    assert finished.planned() == {"browser": 1}
