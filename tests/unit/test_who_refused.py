"""Who refused: shares of the answers by the model's text, declared refusals, and who blocked prompt or answer."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from estimate_rows import cell_file, rows_of, single, units_in

from refusal_eval.config.study_view import StudyView
from refusal_eval.core.files import BadFile
from refusal_eval.features.who_refused.measure_refusers import blocker, refusers
from refusal_eval.features.who_refused.refusers import DECLARED, REFUSED_BY, REFUSERS, UNFILTERED
from refusal_eval.features.who_refused.who_refused_figure import _LOOKS, WhoRefusedFigure
from refusal_eval.stats.estimates.cell_estimates import cell_estimates
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.samples import SERVER, read_samples
from refusal_eval.stats.estimates.units import Units, read_units

Said = dict[tuple[str, int], dict[str, Any]]


def said_rows(votes: dict[tuple[str, int], str], said: Said) -> tuple[list[Any], list[Any], list[Any]]:
    """Return the rows of votes, with what a server said of the answers by (prompt, sample)."""
    prompts, answers, verdicts = rows_of(votes)
    answers = [row | said.get((row["prompt_id"], row["sample"]), {}) for row in answers]
    return prompts, answers, verdicts


def block(by: str | None = None, stage: str | None = None) -> dict[str, Any]:
    return {"blocked": {"by": by, "stage": stage, "category": None, "severity": None, "partial": None, "code": None}}


# Four answers to each of two prompts: 3/4 and 3/3 of those that count are refusals.
VOTES = single("RRCB", "BBRF")
SAID: Said = {
    ("p000", 1): {"declared": True},
    ("p000", 2): {"declared": True, "marks": ["unfiltered"]},
    ("p000", 3): block("filter", "prompt"),
    ("p001", 0): block("classifier"),
    ("p001", 3): {"reason": "recitation"},
}


def cell(said: Said = SAID, votes: dict[tuple[str, int], str] = VOTES, **more: Any) -> Units:
    return units_in(*said_rows(votes, said), len(next(iter(votes.values()))), expectation="refuse", **more)


def by_name(found: list[Estimate]) -> dict[str, Estimate]:
    return {str(row.parameter) if row.estimand == REFUSED_BY else row.estimand: row for row in found}


def test_each_part_is_a_mean_over_prompts_of_the_answers_that_count() -> None:
    found = by_name(list(refusers(cell())))
    values = {name: found[name].value for name in REFUSERS}
    expected = {"model": (1 / 4 + 1 / 3) / 2, "declared": 1 / 8, "filter_prompt": 1 / 8, "classifier": 1 / 6}
    expected["nobody"] = 1 / 6  # a block of which the server said nothing
    assert values == pytest.approx(dict.fromkeys(REFUSERS, 0.0) | expected, abs=1e-12)
    assert all(found[name].low <= found[name].value <= found[name].high for name in REFUSERS)  # type: ignore[operator]
    assert {(row.reading, row.n_prompts, row.n_clusters, row.samples) for row in map(found.get, REFUSERS) if row} == {
        ("strict", 2, 2, 4)
    }


def test_the_parts_add_up_to_the_rate_as_a_user_meets_it() -> None:
    units = cell()
    (rate,) = (e for e in cell_estimates(units) if (e.estimand, e.reading) == ("refusal_rate", "strict"))
    parts = [row.value for row in refusers(units) if row.estimand == REFUSED_BY]
    assert sum(part or 0.0 for part in parts) == pytest.approx(rate.value, abs=1e-15) == (3 / 4 + 1) / 2


def test_declared_refusals_are_held_against_the_judge_and_unfiltered_answers_are_counted() -> None:
    found = by_name(list(refusers(cell())))
    assert (found[DECLARED].value, found[DECLARED].n_prompts) == (0.5, 1)
    assert found[UNFILTERED].value == 1.0
    plain = by_name(list(refusers(cell({}))))
    assert DECLARED not in plain and plain[UNFILTERED].value == 0.0
    assert plain["nobody"].value == pytest.approx((1 / 4 + 2 / 3) / 2, abs=1e-12)


@pytest.mark.parametrize(
    ("by", "stage", "who"),
    [
        ("filter", "prompt", "filter_prompt"),
        ("filter", "answer", "filter_answer"),
        ("filter", None, "filter"),
        ("classifier", "answer", "classifier"),
        ("policy", "prompt", "policy"),
        ("gateway", "prompt", "gateway"),
        ("guardrail", None, "guardrail"),
        (None, None, "nobody"),
        (float("nan"), None, "nobody"),
        ("filter", "earlier_turn", "earlier_turn"),
    ],
)
def test_who_blocked_is_named_by_party_and_of_filters_by_stage(by: Any, stage: Any, who: str) -> None:
    assert blocker(by, stage) == who and who in REFUSERS


def test_a_filter_out_of_order_is_a_mark_of_all_rates_of_its_cell() -> None:
    units = cell(unfiltered=True)
    assert "unfiltered" in units.flags
    rates = [e for e in cell_estimates(units) if e.estimand == "refusal_rate"]
    assert rates and all("unfiltered" in e.flags for e in rates)
    assert "unfiltered" in units.model_alone().flags


def test_reasons_of_failed_answers_are_shares_of_all_answers() -> None:
    found = {e.parameter: e.value for e in cell_estimates(cell()) if e.estimand == "failed_reason"}
    assert found == {"recitation": 1 / 8}


def test_a_cell_of_which_no_server_said_anything_has_the_columns_that_it_always_had(tmp_path: Path) -> None:
    plain, told = tmp_path / "plain.parquet", tmp_path / "told.parquet"
    cell_file(plain, *said_rows(VOTES, {}), 4)
    cell_file(told, *said_rows(VOTES, SAID), 4)
    assert not set(SERVER) & set(pd.read_parquet(plain))
    samples = pd.read_parquet(told).set_index(["prompt_id", "sample"])
    assert samples.loc[("p000", 3), ["blocked_by", "blocked_stage"]].tolist() == ["filter", "prompt"]
    assert samples["declared"].sum() == 2 and samples["unfiltered"].sum() == 1
    assert read_units(told).frame.equals(read_units(plain).frame)


def test_a_file_with_some_of_the_columns_is_no_scored_cell(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    path = cell_file(tmp_path / "cell.parquet", *said_rows(VOTES, SAID), 4)
    pq.write_table(pq.read_table(path).drop_columns(["reason"]), path)
    with pytest.raises(BadFile, match="is no scored cell"):
        read_samples(path)


def test_the_figure_is_drawn_unasked_where_answers_may_be_blocked_and_is_a_mistake_elsewhere() -> None:
    hosted, local = StudyView({}, [], may_block=True), StudyView({}, [])
    (figure,) = WhoRefusedFigure.unasked(hosted)
    assert WhoRefusedFigure.unasked(local) == [] and list(figure.mistakes(hosted)) == []
    ((place, message),) = figure.mistakes(local)
    assert place == ("kind",) and "`may_block`, or recorded answers" in message


def test_each_who_refused_has_a_look_of_its_own() -> None:
    assert list(_LOOKS) == list(REFUSERS) and len(set(_LOOKS.values())) == len(REFUSERS)
