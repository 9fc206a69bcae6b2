"""Numbers, tables, captions and the data of figures are those of an earlier version, for every number that there is."""

import csv
from pathlib import Path

import pytest
from frozen_results import FROZEN, NUMBERS, differences, thawed
from frozen_study import STUDY, made_frozen

from refusal_eval.report.results.dictionary import DEFINITIONS, FLAGS, pattern_of


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_frozen(tmp_path_factory.mktemp("study")) / "results" / STUDY


def test_results_of_recorded_answers_are_those_of_an_earlier_version(results: Path, tmp_path: Path) -> None:
    assert list(differences(thawed(FROZEN / "study.tar.xz", tmp_path) / "results", results)) == []


def test_every_estimand_is_among_them(results: Path) -> None:
    with (results / NUMBERS).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {pattern_of(row["estimand"]) for row in rows} == set(DEFINITIONS)
    flags = {flag for row in rows for flag in row["flags"].split()}
    assert flags and flags <= set(FLAGS), "the data dictionary explains every mark"
