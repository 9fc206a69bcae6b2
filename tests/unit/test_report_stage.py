"""What Snakemake's report shows, in the order of a paper."""

import re

import pytest
from config_project import WHOLE_STUDY

from refusal_eval.config.report_sections import in_order
from refusal_eval.study.study import Study
from refusal_eval.workflow.report_stage import ReportEntry, entries


@pytest.fixture
def shown(project) -> list[ReportEntry]:
    return entries(Study(project.load(WHOLE_STUDY)))


def test_sections_begin_with_rates_and_end_with_judges_and_methods() -> None:
    found = in_order(name for name in ("Judges", "Battles", "Methods and accounting", "Refusal rates", "Battles"))
    assert found == ["Refusal rates", "Battles", "Judges", "Methods and accounting"]


def test_snakemake_sorts_entries_as_they_are_listed(shown: list[ReportEntry]) -> None:
    assert [entry.name for entry in shown] == sorted(entry.name for entry in shown)
    assert [entry.section for entry in shown] == sorted(entry.section for entry in shown)
    assert len({entry.name for entry in shown}) == len(shown)
    assert all(entry.name.startswith(f"{re.match(r'[0-9]+', entry.section)[0]}.") for entry in shown)


def test_the_headline_table_and_figure_come_first(shown: list[ReportEntry]) -> None:
    results = shown[0].file.removesuffix("tables/refusal.html")
    assert [entry.file.removeprefix(results) for entry in shown[:2]] == [
        "tables/refusal.html", "figures/refusal_heatmap.html",
    ]  # fmt: skip


def test_every_table_figure_and_card_is_shown(project, shown: list[ReportEntry]) -> None:
    study = Study(project.load(WHOLE_STUDY))
    files = {entry.file.removeprefix(f"{study.paths.results}/") for entry in shown}
    tables = {f"tables/{name}.{'html' if table.typeset else 'csv'}" for name, table in study.tables.items()}
    cards = {f"figures/judge_cards/{judge}/{gold}.html" for judge in study.judges for gold in study.gold}
    others = {"methods.md", "results_table/results.csv", "manifest.json"}
    assert files == tables | {f"figures/{name}.html" for name in study.figures} | cards | others


def test_figures_of_one_kind_are_told_apart(project) -> None:
    figures = [{"name": name, "kind": "heatmap"} for name in ("all_models", "some_models")]
    found = [entry.name for entry in entries(Study(project.load(WHOLE_STUDY | {"figures": figures})))]
    assert {name[name.index(" ") + 1 :] for name in found} >= {
        "Rates by model and split, all_models (figure)", "Rates by model and split, some_models (figure)",
    }  # fmt: skip
