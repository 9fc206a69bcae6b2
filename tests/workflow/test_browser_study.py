"""The browser's page as an output of a run: made where a study asks for it, made again with what it shows."""

import os
from pathlib import Path
from typing import Any

import pytest
from packed_page import unpacked
from program import in_process
from project import Project, copy_of, make_project
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
    planned = finished.planned()
    tables = planned.pop("table")  # whose cells link to it
    assert planned == {"browser": 1, "report_page": tables, "manifest": 1, "methods": 1}
    finished.snakemake()
    assert finished.planned() == {}
    table = (finished.results / "tables" / "refusal.html").read_text("utf-8")
    assert 'href="../browser.html#split=' in table
    report = (finished.results / "report_pages" / "refusal.html").read_text("utf-8")
    assert "browser.html" not in report
    finished.study(browser=False)
    finished.snakemake()
    # As before, but that the page was asked for: no table has a link, whatever is left over.
    assert "browser.html" not in (finished.results / "tables" / "refusal.html").read_text("utf-8")
    finished.study(browser=True)
    finished.snakemake()
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


def test_tokens_of_the_store_come_along_where_they_are_asked_for(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p")
    project.complete()
    run = in_process("browse", "study.yaml", "--tokens", cwd=project.folder)
    assert run.returncode == 0, run.stderr
    found = unpacked((project.results / "browser.html").read_text("utf-8"))
    texts = [text for part in found["texts"] for text in part["answers"]]
    tokens = {place + part["first"]: own for part in found["texts"] for place, own in by_place(part["tokens"])}
    assert f"The store has tokens of {len(tokens)} answers" in run.stdout
    assert len(tokens) == len(texts)
    for place, (written, hundredths) in tokens.items():
        assert len(written) == len(hundredths) == len(texts[place]) + 1 and written[-1] == "<|im_end|>"
        assert all(-1000 < value < 0 for value in hundredths)
    run = in_process("browse", "study.yaml", "--tokens", "--labels-only", cwd=project.folder)
    assert run.returncode == 1 and "leave one of the two out" in run.stderr


def by_place(part: dict[str, Any]) -> list[tuple[int, Any]]:
    return [(int(place), own) for place, own in part.items()]
