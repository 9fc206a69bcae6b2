"""Cells of tables lead to the answers behind them, where a study has a page of answers; in its report none does."""

import html
import json
import re
from collections.abc import Mapping

import pytest
from config_project import WHOLE_STUDY

from refusal_eval.core.registry import at_place
from refusal_eval.report.paper.answer_page import AnswerPage, cell_link
from refusal_eval.report.paper.finished_table import finished
from refusal_eval.report.paper.html_page import tables_page, unlinked_page
from refusal_eval.report.paper.markup import Table
from refusal_eval.study.files import asked_files
from refusal_eval.study.study import Study
from refusal_eval.workflow import tables_stage
from refusal_eval.workflow.report_stage import entries

LINK = re.compile(r'<a class="answers" href="([^"]*)">(?:<b>)?(.*?)(?:</b>)?</a>')


class Notes(AnswerPage):
    """A page that is called as a file may be."""

    name = noun = asked_by = "notes"
    shows = "answers"

    @staticmethod
    def fragment(cell: Mapping[str, str]) -> str:
        return json.dumps(cell)


TABLE = Table(
    "rates",
    "Rates.",
    ["Family", "Model", "Nothing", "safe", "bad"],
    [["all", "one", "0.0", "12.5 [8.1\u201318.0]", "\u2013"], ["all", "two", "0.0", "1.0 [0.1\u20132.0]\u2021", "4.0"]],
    ["\u2021 cut."],
    keys=2,
    headings=1,
    bold=frozenset({(1, 3)}),
    about={
        (i, j): {"model": m, "split": s} for i, m in enumerate(("one", "two")) for j, s in ((3, '"safe>'), (4, "bad"))
    },
)


def test_a_cell_leads_to_its_own_answers_whatever_columns_are_left_out() -> None:
    page = tables_page([finished(TABLE)], {}, cell_link({Notes: "../my notes.html"}))
    found = [(html.unescape(address), text) for address, text in LINK.findall(page)]
    assert found == [
        ('../my%20notes.html#{"model": "one", "split": "\\"safe>"}', "12.5"),
        ('../my%20notes.html#{"model": "two", "split": "\\"safe>"}', "1.0"),
        ('../my%20notes.html#{"model": "two", "split": "bad"}', "4.0"),
    ]
    assert "dotted line" in page


def test_without_its_links_the_page_is_the_one_of_a_study_without_such_a_page() -> None:
    linked = tables_page([TABLE], {"rates.csv": b"1"}, cell_link({Notes: "../notes.html"}))
    plain = tables_page([TABLE], {"rates.csv": b"1"})
    assert "<a class" not in plain and "dotted line" not in plain
    assert linked != plain == unlinked_page(linked)


def test_a_table_without_a_cell_about_answers_says_nothing_of_links() -> None:
    table = Table("t", "T.", ["Model", "n"], [["one", "1"]])
    assert tables_page([table], {}, cell_link({Notes: "../notes.html"})) == tables_page([table], {})


@pytest.mark.feature("browser")
def test_the_report_shows_pages_without_links_of_a_study_that_has_a_page_of_answers(project) -> None:
    plain, linked = (Study(project.load(WHOLE_STUDY | changes)) for changes in ({}, {"browser": True}))
    typeset = [name for name, table in linked.tables.items() if table.typeset]
    shown = {study: {one.file.removeprefix(study.paths.results) for one in entries(study)} for study in (plain, linked)}
    for study, folder in ((plain, "/tables"), (linked, "/report_pages")):
        assert {f"{folder}/{name}.html" for name in typeset} <= shown[study]
    assert not any("report_pages" in path for path in asked_files(plain))
    assert sum("report_pages" in path for path in asked_files(linked)) == len(typeset)
    assert tables_stage.params(linked, "refusal")["answer_pages"] == {"browser": "../browser.html"}
    assert "answer_pages" not in tables_stage.params(plain, "refusal")


@pytest.mark.feature("browser")
@pytest.mark.parametrize(
    ("cell", "address"),
    [
        ({"model": "m", "split": "s"}, "split=s&model=m"),
        ({"category": "a, b & c=d/e #1 (x)", "split": "s"}, "split=s&category=a%2C%20b%20%26%20c%3Dd%2Fe%20%231%20(x)"),
        ({"state": "truncated", "judge": "j"}, "judge=j&state=truncated"),
    ],
)
def test_the_browser_takes_the_address_of_a_cell(cell: dict[str, str], address: str) -> None:
    page = at_place("refusal_eval.features.browser.answer_links:BrowserPage")
    assert page.fragment(cell) == address
