"""How far errors of the judge move rates and differences, as the table of refusal rates says it."""

from pathlib import Path
from typing import Any

import pytest
from table_rows import score

from refusal_eval.core.files import write_json
from refusal_eval.report.paper.judge_error_tables import judge_error_tables, missing, overcalling
from refusal_eval.report.paper.table_data import TableData
from refusal_eval.stats.estimates.estimate import Estimate


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
    # .4 / .95 and .4 / .9; (.4 - .05) / .95 and (.4 - .1) / .9.
    assert rates.rows[0][5:] == ["2.1", "4.4", "\u22123.2", "\u22126.7"]
    assert rates.rows[0][2] == "40.0*" and {note[0] for note in rates.notes} >= {"†", "*"}
    # One model less another, not one judge less another: 20 of 40 % missed, or 20 of 80 % overcalled.
    assert [list(row) for row in differences.rows] == [["safe", "a", "b", "20.0", "±4.2", "±8.9", "50.0", "25.0"]]
    assert "judge rules reads K = 1 answers" in " ".join(differences.notes)


def test_a_difference_moves_by_the_most_that_an_error_on_either_model_would_do() -> None:
    # Overcalling takes .02 of the lower rate at most, and (.08 - .05) / .95 - .08 = -.048 of the higher one.
    cells = {m: score("rules", m, "safe", "comply", ["R"] * n + ["C"] * (100 - n)) for m, n in (("a", 8), ("b", 2))}
    data = TableData({"labels": {}, "primary_judge": "rules"})
    about: dict[str, Any] = {"judge": "rules", "model": "a", "split": "safe", "reading": "broad"}
    data.results = [Estimate("rate_difference", 0.06, parameter="minus b", **about, flags=("few_clusters",))]
    _, differences = judge_error_tables(data, {(m, "safe"): s for m, s in cells.items()}, ["a", "b"], ["safe"])
    assert differences.rows[0][4] == "±4.8"
    assert differences.rows[0][-2:] == ["75.0", "6.1"]
    data.results = [Estimate("rate_difference", 0.5, parameter="minus b", **about)]  # on fewer prompts than the rates
    _, unlike = judge_error_tables(data, {(m, "safe"): s for m, s in cells.items()}, ["a", "b"], ["safe"])
    assert unlike.rows[0][3] == "50.0" and unlike.rows[0][-2:] == ["\u2013", "\u2013"]
    assert differences.rows[0][3] == "6.0*" and any(note.startswith("*") for note in differences.notes)


def test_what_explains_a_difference_is_a_share_of_the_rates_on_the_prompts_that_it_is_over(tmp_path: Path) -> None:
    # Over all prompts 40 and 20 %; over those on which both have a rate 50 and 30 %.
    cells = {m: score("rules", m, "safe", "comply", ["R"] * n + ["C"] * (20 - n)) for m, n in (("a", 8), ("b", 4))}
    row = {"kind": "models", "held": "rules", "first": "a", "second": "b", "split": "safe"}
    other = row | {"held": "llm", "rate_first": 0.9, "rate_second": 0.1}
    path = tmp_path / "comparisons.json"
    write_json(path, {"comparisons": [other, row | {"rate_first": 0.5, "rate_second": 0.3}]})
    data = TableData({"labels": {}, "primary_judge": "rules"}, {"comparisons": [str(path)]})
    about: dict[str, Any] = {"judge": "rules", "model": "a", "split": "safe", "reading": "broad"}
    data.results = [Estimate("rate_difference", 0.2, parameter="minus b", **about)]
    _, differences = judge_error_tables(data, {(m, "safe"): s for m, s in cells.items()}, ["a", "b"], ["safe"])
    # .2 / .5 missed, .2 / .7 overcalled; .5 / .9 - .5 = .056, and .3 - (.3 - .1) / .9 = .078.
    assert differences.rows[0][-3:] == ["±7.8", "40.0", "28.6"]
