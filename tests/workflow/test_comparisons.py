"""Comparisons in the DAG: a new model, a new family and a new level rerun what they must and nothing else."""

import csv

import pytest
from project import Project

pytestmark = pytest.mark.full  # two whole studies and a third model


def rows(project: Project) -> dict[tuple[str, ...], dict[str, str]]:
    """Return the comparisons of a finished study by split or pool and sides."""
    with open(project.results / "tables" / "comparisons.csv", newline="", encoding="utf-8") as handle:
        found = list(csv.DictReader(handle))
    return {(row["split"] or row["pool"], row["first"], row["second"]): row for row in found}


def test_a_model_added_to_a_finished_study_reruns_the_comparisons_and_no_other_models_cells(finished: Project) -> None:
    before = rows(finished)
    assert set(before) == {("one", "plain", "terse"), ("two", "plain", "terse")}
    finished.study(models=["plain", "terse", "third"])
    planned, reported = finished.planned_and_said()
    assert planned["analysis"] >= 1 and planned["score"] == 4 and planned["requests"] == 2
    cells = [message for message in reported if message.startswith(("Rendering", "Scoring", "Collecting"))]
    assert cells and all("third" in message for message in cells)
    for kind in ("requests", "judge_requests"):
        finished.snakemake("--until", kind)
        finished.answer_everything(kind)
    finished.snakemake()
    after = rows(finished)
    assert len(after) == 6
    for pair, row in before.items():
        # The family is larger, so Holm's correction is; everything else about the two models stays as it was.
        same = [name for name in row if name != "p_holm"]
        assert {name: after[pair][name] for name in same} == {name: row[name] for name in same}


def test_splits_of_one_expectation_are_pooled(finished: Project) -> None:
    finished.catalogue("datasets", "own", splits=_all_comply(finished))
    finished.snakemake()
    found = rows(finished)
    assert ("comply", "plain", "terse") in found and found["comply", "plain", "terse"]["n"] == "11"


def _all_comply(project: Project) -> dict[str, dict[str, object]]:
    return {
        name: {"source": {"kind": "file", "path": f"{name}.jsonl"}, "expectation": "comply"}
        for name in ("one", "two", "extra")
    }
