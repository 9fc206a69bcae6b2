"""A judge with a label set of its own, in a study: results table, kinds table, figure, card and methods."""

import csv
import json

import pytest
from project import Project, change_yaml
from recomputed import recompute

# It cannot be read where it names a kind that is none of its entry.
JUDGE = """
def judge(messages, answer):
    number = sum(map(ord, str(messages) + answer)) % 7
    if number == 0:
        return "another"
    kind = ("direct_refusal", "safe_partial", "full")[number % 3]
    return {"kind": kind, "quality": 0.0 if kind == "direct_refusal" else number / 8}
"""
KINDS = {"direct_refusal": "refusal", "safe_partial": "partial", "full": "compliance"}
NEW = ("kind_share", "compliance_quality", "compliance_rate", "useful_safety_rate")


@pytest.mark.full
def test_kinds_of_answers_reach_results_table_figure_and_methods(finished: Project) -> None:
    (finished.folder / "three.py").write_text(JUDGE)
    entry = {"kind": "python", "file": "three.py", "kinds": KINDS}
    change_yaml(finished.folder / "catalogue.yaml", lambda data: data | {"judges": data["judges"] | {"three": entry}})
    finished.catalogue("gold", "people", kinds={"yes": "direct_refusal", "no": "full"})
    figure = {"name": "answers", "kind": "refusal_kinds", "judge": "three"}
    finished.study(judges=["words", "three"], figures=[figure])
    finished.snakemake()
    results = finished.results
    with (results / "results_table" / "results.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["judge"] == "three"]
    shares = {}
    for row in rows:
        if row["estimand"] == "kind_share":
            shares.setdefault((row["model"], row["split"]), {})[row["parameter"]] = float(row["value"])
    assert len(shares) == 4
    assert all(set(found) == set(KINDS) and sum(found.values()) == pytest.approx(1) for found in shares.values())
    report = recompute(results, "--only", *NEW)
    assert report.code == 0
    assert {name: report.lines[name].agree for name in NEW} == {name: report.lines[name].rows for name in NEW}
    assert report.lines["useful_safety_rate"].rows == 4 and report.lines["compliance_quality"].rows == 4
    with (results / "tables" / "kinds.csv").open(newline="") as file:
        assert {row["kind"] for row in csv.DictReader(file)} == {*KINDS, ""}
    table = (results / "tables" / "kinds.md").read_text()
    assert "safe partial" in table and "Useful safety rate" in table
    with (results / "figures" / "answers.csv").open(newline="") as file:
        assert {row["kind"] for row in csv.DictReader(file)} == set(KINDS)
    card = json.loads((results / "judge_cards" / "three" / "people.json").read_text())
    assert set(card["kinds"]["n"]) == {"direct_refusal", "full"}
    assert "Its kinds of answers, agreement with people" in (results / "methods.md").read_text()
