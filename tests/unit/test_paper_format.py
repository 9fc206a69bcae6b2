"""The format of a paper, which sets how wide figures and tables are."""

import pytest
from config_project import STUDY

from refusal_eval.config.paper_format import format_of, width_in
from refusal_eval.study.study import Study

WORDS = "is not `column`, `page`, the format of a paper (neurips, icml, acl, iclr or nature) or a length such as"
FORM = "must be `neurips`, `icml`, `acl`, `iclr` or `nature` or a mapping of keys to values"
LENGTH = "is not a length with its unit, such as `13.9cm` or `5.5in`"


@pytest.mark.parametrize(
    ("paper", "page", "column", "two"),
    [
        (None, 17.5, 8.5, True),
        ("neurips", 13.97, 13.97, False),
        ("icml", 17.14, 8.25, True),
        ({"width": "13.9cm"}, 13.9, 13.9, False),
        ({"width": "6.5 in", "column": "80mm"}, 16.51, 8.0, True),
    ],
)
def test_a_study_names_the_paper_that_it_is_for(project, paper, page, column, two):
    study = Study(project.load(STUDY | ({} if paper is None else {"paper": paper})))
    assert (study.paper.page, study.paper.column, study.paper.two_columns) == (page, column, two)


@pytest.mark.parametrize(
    ("paper", "message"),
    [
        ("neurps", f"paper: {FORM}, not 'neurps'"),
        (13.9, f"paper: {FORM}, not 13.9"),
        ("13.9cm", f"paper: {FORM}, not '13.9cm': write {{width: '13.9cm'}}"),
        ({}, "paper.width: this key is missing (Width of its text, such as `13.9cm`, `139mm`, `5.5in` or `397pt`)"),
        ({"width": "13.9"}, f"paper.width: '13.9' {LENGTH}"),
        ({"width": "1cm"}, "paper.width: a figure or table is 5 to 60 cm wide, not 1cm"),
        ({"width": "8cm", "column": "9cm"}, "paper.column: a column of 9cm is wider than the text (`width: 8cm`)"),
    ],
)
def test_a_paper_that_is_none_is_refused_with_what_would_be_right(project, paper, message):
    (mistake,) = project.mistakes(STUDY | {"paper": paper})
    assert message in mistake


@pytest.mark.parametrize(
    ("width", "message"),
    [("wide", f"'wide' {WORDS}"), ("14", f"'14' {WORDS}"), ("1in", "a figure or table is 5 to 60 cm wide, not 1in")],
)
def test_a_width_that_is_none_is_refused_with_what_would_be_right(project, width, message):
    study = STUDY | {"figures": [{"name": "a", "kind": "heatmap", "width": width}]}
    (mistake,) = project.mistakes(study)
    assert f"figures[0].width: {message}" in mistake


@pytest.mark.parametrize(
    ("width", "centimetres"),
    [("column", 7.7), ("page", 16.0), ("neurips", 13.97), ("13.9cm", 13.9), ("5.5in", 13.97), ("361.35pt", 12.7)],
)
def test_a_figures_own_width_is_that_of_its_paper_or_any_other(width, centimetres):
    assert width_in(format_of("acl"), width) == pytest.approx(centimetres)
