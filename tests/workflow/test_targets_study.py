"""Published figures beside a study's own: shown in one table, and nowhere else."""

import csv
from pathlib import Path

import pytest
from project import Project, copy_of

pytestmark = pytest.mark.feature("targets")
FIGURES = """\
model,split,number,value,source,reading,unit,note
plain,one,refusal_rate,12.34,"Doe 2025, Table 1",strict,percent,
Big Model,one,refusal_rate,0.9,"Doe 2025, Table 1",strict,,
plain,,MMLU,46.57,"Doe 2025, Table 2",,percent,"multiple choice, <b>first</b> 101 rows"
"""


@pytest.fixture
def project(finished: Project, tmp_path: Path) -> Project:
    """Return a finished study that then names a file of published figures."""
    project = copy_of(finished, tmp_path / "p")
    (project.folder / "figures.csv").write_text(FIGURES)
    project.study(targets="figures.csv")
    return project


def numbers(project: Project, name: str) -> list[dict[str, str]]:
    with (project.results / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_published_figures_are_shown_beside_the_studys_own_and_are_no_results(project: Project) -> None:
    results = (project.results / "results_table" / "results.csv").read_bytes()
    assert project.ran() == {"table": 1}, "nothing else is made of them"
    assert (project.results / "results_table" / "results.csv").read_bytes() == results
    plain, big, mmlu = numbers(project, "tables/targets.csv")
    (ours,) = [
        row
        for row in numbers(project, "results_table/results.csv")
        if (row["estimand"], row["model"], row["split"], row["judge"]) == ("refusal_rate", "plain", "one", "words")
        and row["reading"] == "strict"
        and not row["category"]
    ]
    for name in ("value", "low", "high"):
        assert float(plain[name]) == pytest.approx(float(ours[name]), abs=1e-6)
    assert (plain["published"], big["published"], mmlu["published"]) == ("0.1234", "0.9", "0.4657")
    assert big["value"] == mmlu["value"] == ""
    page = (project.results / "tables" / "targets.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert "| 12.34 |" in page and "| 90 |" in page and "| 46.57 |" in page, "with the digits of the source, in percent"
    assert len(rows) == 2 + 3 and "Published only, not models of this study: Big Model." in page
    assert "Doe 2025, Table 2" in page and "MMLU, another quantity: multiple choice" in page
    for ending in ("html", "tex"):
        text = (project.results / "tables" / f"targets.{ending}").read_text()
        assert "46.57" in text and "<b>first" not in text.replace("&lt;b&gt;", "")


def test_a_changed_file_of_figures_remakes_that_table_alone(project: Project) -> None:
    project.snakemake()
    assert project.planned() == {}
    (project.folder / "figures.csv").write_text(FIGURES.replace("12.34", "12.35"))
    assert project.ran() == {"table": 1}
    assert numbers(project, "tables/targets.csv")[0]["published"] == "0.1235"
    project.study(targets=None)
    assert project.planned() == {}
