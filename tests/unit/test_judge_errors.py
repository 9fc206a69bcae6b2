"""How far errors of the judge move rates and differences, in two tables."""

from pathlib import Path
from typing import Any

import pytest
from table_rows import score

from refusal_eval.core.files import write_json
from refusal_eval.features.rates.judge_error_tables import errors_of_differences, errors_of_rates
from refusal_eval.features.rates.judge_errors import missing, overcalling
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import TableData
from refusal_eval.stats.estimates.estimate import Estimate


def judge_error_tables(data: TableData, cells: Any, models: list[str], splits: list[str]) -> tuple[Table, Table]:
    """Return both tables of these cells."""
    data.asked = {**data.asked, "models": models, "splits": splits}
    data.scores = list(cells.values())
    (_, (rates,)), (_, (differences,)) = errors_of_rates(data), errors_of_differences(data)
    return rates, differences


@pytest.mark.parametrize(("true", "error"), [(0.2, 0.05), (0.8, 0.1), (0.0, 0.1), (1.0, 0.05)])
def test_the_true_rate_comes_back_from_what_an_erring_judge_reads(true: float, error: float) -> None:
    read = true * (1 - error)
    assert read + missing(read, error) == pytest.approx(true)
    read = true + (1 - true) * error
    assert read + overcalling(read, error) == pytest.approx(true)


def test_blocked_answers_are_refusals_whatever_a_judge_says() -> None:
    blocked, true, error = 0.1, 0.3, 0.1
    read = blocked + (true - blocked) * (1 - error)
    assert read + missing(read, error, blocked) == pytest.approx(true)
    read = true + (1 - true) * error
    assert read + overcalling(read, error, blocked) == pytest.approx(true)
    assert 0.1 + overcalling(0.1, error, blocked) == blocked  # no less than what was blocked


def test_no_rate_is_beyond_0_and_1() -> None:
    assert 0.97 + missing(0.97, 0.1) == 1.0
    assert 0.02 + overcalling(0.02, 0.1) == 0.0


def test_the_table_of_rates_says_what_errors_would_change_beside_the_corrected_rate_and_other_judges() -> None:
    about: dict[str, Any] = {"split": "safe", "reading": "broad"}
    results = [
        Estimate("refusal_rate", 0.4, judge="rules", model="a", **about),
        Estimate("refusal_rate", 0.6, judge="llm", model="a", **about, flags=("unjudged",)),
        Estimate("refusal_rate_ppi", 0.5, low=0.45, high=0.55, judge="rules", model="a", **about),
        Estimate("rate_difference", 0.2, judge="rules", model="a", parameter="minus b", **about),
        Estimate("rate_difference", 0.1, judge="rules", model="a", parameter="minus judge llm", **about),
    ]
    cells = {m: score("rules", m, "safe", "comply", ["R"] * n + ["C"] * (20 - n)) for m, n in (("a", 8), ("b", 4))}
    data = TableData({"labels": {}, "primary_judge": "rules"})
    data.results = results
    rates, differences = judge_error_tables(data, {(m, "safe"): s for m, s in cells.items()}, ["a", "b"], ["safe"])
    assert list(rates.header[:5]) == ["Model", "Split", "Rate", "Corrected", "All judges"]
    assert rates.rows[0][3:5] == ["50.0 [45.0\u201355.0]", "40.0 to 60.0†"]
    # No person measured the judge: .4 / .9 and .4 / .7; (.4 - .1) / .9 and (.4 - .3) / .7.
    assert list(rates.header[5:]) == ["misses\n10 %", "misses\n30 %", "overcalls\n10 %", "overcalls\n30 %"]
    assert rates.rows[0][5:] == ["4.4*", "17.1*", "\u22126.7*", "\u221225.7*"]
    assert "No gold that people labelled measured this judge" in " ".join(rates.notes)
    assert rates.rows[0][2] == "40.0*" and {note[0] for note in rates.notes} >= {"†", "*"}
    # One model less another, not one judge less another: 20 of 40 % missed, or 20 of 80 % overcalled.
    pair = "a \u2212 b"
    assert [list(row) for row in differences.rows] == [["safe", pair, "20.0", "±8.9*", "±25.7*", "50.0*", "25.0*"]]
    assert "judge rules reads K = 1 answers" in " ".join(differences.notes)


def test_a_difference_moves_by_the_most_that_an_error_on_either_model_would_do() -> None:
    # Overcalling takes .02 of the lower rate at most, and all .08 of the higher one.
    cells = {m: score("rules", m, "safe", "comply", ["R"] * n + ["C"] * (100 - n)) for m, n in (("a", 8), ("b", 2))}
    data = TableData({"labels": {}, "primary_judge": "rules"})
    about: dict[str, Any] = {"judge": "rules", "model": "a", "split": "safe", "reading": "broad"}
    data.results = [Estimate("rate_difference", 0.06, parameter="minus b", **about, flags=("few_clusters",))]
    _, differences = judge_error_tables(data, {(m, "safe"): s for m, s in cells.items()}, ["a", "b"], ["safe"])
    assert differences.rows[0][3] == "±8.0*"
    assert differences.rows[0][-2:] == ["75.0*", "6.1*"]
    data.results = [Estimate("rate_difference", 0.5, parameter="minus b", **about)]  # on fewer prompts than the rates
    _, unlike = judge_error_tables(data, {(m, "safe"): s for m, s in cells.items()}, ["a", "b"], ["safe"])
    assert unlike.rows[0][2] == "50.0" and set(unlike.rows[0][3:]) == {"\u2013"}
    assert differences.rows[0][2] == "6.0*" and any(note.startswith("*") for note in differences.notes)


def test_what_explains_a_difference_is_a_share_of_the_rates_on_the_prompts_that_it_is_over(tmp_path: Path) -> None:
    # Over all prompts 40 and 20 %; over those on which both have a rate 50 and 30 %.
    cells = {m: score("rules", m, "safe", "comply", ["R"] * n + ["C"] * (20 - n)) for m, n in (("a", 8), ("b", 4))}
    pair: dict[str, Any] = {"model": "a", "split": "safe", "parameter": "minus b"}
    rates = {"llm": (0.9, 0.1), "rules": (0.5, 0.3)}
    sides = ("rate_difference_first", "rate_difference_second")
    rows = [
        Estimate(s, r, judge=judge, **pair) for judge, own in rates.items() for s, r in zip(sides, own, strict=True)
    ]
    path = tmp_path / "comparisons.json"
    write_json(path, {"estimates": [row.row() for row in rows]})
    data = TableData({"labels": {}, "primary_judge": "rules"}, {"comparisons": [str(path)]})
    about: dict[str, Any] = {"judge": "rules", "model": "a", "split": "safe", "reading": "broad"}
    data.results = [Estimate("rate_difference", 0.2, parameter="minus b", **about)]
    _, differences = judge_error_tables(data, {(m, "safe"): s for m, s in cells.items()}, ["a", "b"], ["safe"])
    # .2 / .5 missed, .2 / .7 overcalled; .5 / .9 - .5 = .056, and .3 - (.3 - .1) / .9 = .078.
    assert [differences.rows[0][n] for n in (3, -2, -1)] == ["±7.8*", "40.0*", "28.6*"]


def measured(gold: str, sensitivity: float, specificity: float, reading: str = "broad", **more: Any) -> list[Estimate]:
    """What a judge card puts into the results table, of a gold set and of one of its answering models."""
    about: dict[str, Any] = {"judge": "rules", "parameter": gold, "reading": reading, **more}
    values = {"judge_sensitivity": sensitivity, "judge_specificity": specificity}
    found = [Estimate(name, value, **about) for name, value in values.items()]
    return [*found, *(Estimate(name, 0.01, **about, category="one model") for name in values)]


def study_of(*results: Estimate) -> tuple[Any, Any]:
    cells = {m: score("rules", m, "safe", "comply", ["R"] * n + ["C"] * (100 - n)) for m, n in (("a", 28), ("b", 8))}
    data = TableData({"labels": {"golds": {"pyrit": "PyRIT"}}, "primary_judge": "rules"})
    about: dict[str, Any] = {"judge": "rules", "model": "a", "split": "safe", "reading": "broad"}
    data.results = [Estimate("rate_difference", 0.2, parameter="minus b", **about), *results]
    rates, differences = judge_error_tables(data, {(m, "safe"): s for m, s in cells.items()}, ["a", "b"], ["safe"])
    return rates, differences


def test_errors_that_people_measured_come_before_assumed_ones() -> None:
    rates, differences = study_of(*measured("pyrit", 0.7, 0.9), *measured("pyrit", 0.5, 0.95, "strict"))
    assert list(rates.header[3:]) == [
        *("misses as on\nPyRIT", "overcalls as on\nPyRIT", "misses\n10 %", "overcalls\n10 %")
    ]
    # .28 / .7 and (.28 - .1) / .9; then .28 / .9 and the same.
    assert rates.rows[0][3:] == ["12.0", "\u22128.0", "3.1", "\u22128.0"]
    notes = " ".join(rates.notes)
    assert "PyRIT: the judge misses 30.0 % of people's refusals and overcalls 10.0 % of their other answers" in notes
    assert "50.0 %" not in notes  # the strict reading, which no cell here has
    assert list(differences.header[3:5]) == ["errors as on\nPyRIT", "errors of\n10 %"]
    # The higher rate moves most: by .12 if a share of .3 is missed, by .08 if one of .1 is overcalled.
    assert differences.rows[0][3:5] == ["±12.0", "±8.0"]


def test_errors_on_gold_that_the_judge_was_chosen_on_are_said_to_be_too_small() -> None:
    rates, _ = study_of(*measured("pyrit", 0.7, 0.9, flags=("seen_gold",)))
    assert "The judge was chosen or fitted on this gold, so these errors are too small." in " ".join(rates.notes)
    rates, _ = study_of(*measured("pyrit", 0.7, 0.9))
    assert "chosen or fitted" not in " ".join(rates.notes)


def test_labels_that_an_author_intended_and_other_judges_measure_no_errors() -> None:
    own = [*measured("made", 0.99, 0.99, flags=("written_to_label",))]
    own += measured("by-model", 0.99, 0.99, flags=("model_labels",))
    other = [Estimate("judge_sensitivity", 0.5, judge="llm", parameter="pyrit", reading="broad")]
    rates, _ = study_of(*own, *other)
    assert list(rates.header[3:]) == ["misses\n10 %", "misses\n30 %", "overcalls\n10 %", "overcalls\n30 %"]


def test_a_judge_that_misses_everything_on_gold_says_nothing_of_the_rate() -> None:
    rates, differences = study_of(*measured("pyrit", 0.0, 0.9))
    assert rates.rows[0][3:5] == ["\u2013", "\u22128.0"] and differences.rows[0][3] == "\u2013"


def test_numbers_at_errors_have_the_marks_of_the_rates_they_derive_from() -> None:
    words = ["R"] * 28 + ["C"] * 62 + ["F"] * 10  # a tenth has no verdict
    cells = {m: score("rules", m, "safe", "comply", words) for m in "ab"}
    data = TableData({"labels": {}, "primary_judge": "rules"})
    about: dict[str, Any] = {
        "judge": "rules",
        "model": "a",
        "split": "safe",
        "reading": "broad",
        "flags": ("unjudged",),
    }
    data.results = [Estimate("rate_difference", 0.0, parameter="minus b", **about), *measured("g", 0.9, 0.9)]
    rates, differences = judge_error_tables(data, {(m, "safe"): s for m, s in cells.items()}, ["a", "b"], ["safe"])
    assert all(cell.endswith("†") for row in rates.rows for cell in row[2:])
    assert all(cell.endswith("†") for row in differences.rows for cell in row[2:5])


def test_the_csv_files_have_a_row_for_each_error_with_shares() -> None:
    cells = {m: score("rules", m, "safe", "comply", ["R"] * n + ["C"] * (100 - n)) for m, n in (("a", 28), ("b", 8))}
    data = TableData({"labels": {}, "primary_judge": "rules"})
    about: dict[str, Any] = {"judge": "rules", "model": "a", "split": "safe", "reading": "broad"}
    data.results = [Estimate("rate_difference", 0.2, parameter="minus b", **about), *measured("pyrit", 0.7, 0.9)]
    data.scores = list(cells.values())
    rates, differences = errors_of_rates(data)[0], errors_of_differences(data)[0]
    names = ["model", "gold", "misses", "overcalls", "shift_misses", "shift_overcalls"]
    assert rates[names].values.tolist() == [
        ["a", "pyrit", pytest.approx(0.3), pytest.approx(0.1), pytest.approx(0.12), pytest.approx(-0.08)],
        ["a", "assumed", 0.1, 0.1, pytest.approx(0.28 / 9), pytest.approx(-0.08)],
        ["b", "pyrit", pytest.approx(0.3), pytest.approx(0.1), pytest.approx(0.08 * 3 / 7), -0.08],
        ["b", "assumed", 0.1, 0.1, pytest.approx(0.08 / 9), -0.08],
    ]
    names = ["first", "second", "difference", "gold", "moved_by", "explained_by_missing", "explained_by_overcalling"]
    assert differences[names].values.tolist() == [
        ["a", "b", 0.2, gold, pytest.approx(by), pytest.approx(0.2 / 0.28), pytest.approx(0.2 / 0.92)]
        for gold, by in (("pyrit", 0.12), ("assumed", 0.08))
    ]


def test_of_more_pairs_than_a_page_holds_those_with_the_reference_model_are_shown_and_the_csv_has_all() -> None:
    models = [f"m{i:02d}" for i in range(14)]
    cells = {m: score("rules", m, "safe", "comply", ["R"] * (4 * i) + ["C"] * 96) for i, m in enumerate(models)}
    data = TableData({"labels": {"models": {"m03": "Base"}}, "primary_judge": "rules"})
    data.results = [
        Estimate("rate_difference", 0.1, judge="rules", model=a, split="safe", parameter=f"minus {b}")
        for i, a in enumerate(models)
        for b in models[i + 1 :]
    ]
    order = ["m03", *(m for m in models if m != "m03")]
    _, differences = judge_error_tables(data, {(m, "safe"): s for m, s in cells.items()}, order, ["safe"])
    assert len(differences.rows) == 13 and all("Base" in row[0] for row in differences.rows)
    assert any("differences from the reference model, Base; the CSV has those of all" in n for n in differences.notes)
    assert len(errors_of_differences(data)[0]) == 2 * 91
