"""Two refusal rates of a model that another party serves: as a user meets it, and of the model alone."""

import math
from pathlib import Path
from typing import Any

import pytest
import scipy
from estimate_rows import cell_file, cell_of, rows_of, single
from make_estimates import main as make_estimates

from refusal_eval.core.files import read_json, write_json
from refusal_eval.features.comparisons.compare_cells import measure
from refusal_eval.report.results.dictionary import definition_of, dictionary, missing_definitions
from refusal_eval.stats.estimates.cell_estimates import cell_estimates, model_alone_estimates
from refusal_eval.stats.estimates.estimate import Estimate, estimate_of
from refusal_eval.stats.estimates.model_alone import MODEL_ALONE, as_user_meets_it, of_model_alone, unblocked
from refusal_eval.stats.estimates.pooled_estimates import pooled_rates

RATE = f"refusal_rate{MODEL_ALONE}"
# Of the last prompt nothing but blocks is known, of the third one answer is unjudged.
MIXED = single("RRCB", "RRRR", "CCFB", "BBBB")


def one(found: list[Estimate], estimand: str, **wanted: Any) -> Estimate:
    own = [e for e in found if e.estimand == estimand and all(getattr(e, k) == v for k, v in wanted.items())]
    assert len(own) == 1, (estimand, wanted, len(own))
    return own[0]


def test_blocked_answers_are_refusals_for_a_user_and_out_of_the_rate_of_the_model_alone() -> None:
    cell = cell_of(MIXED)
    met = one(cell_estimates(cell), "refusal_rate", reading="strict")
    alone = one(model_alone_estimates(cell), RATE, reading="strict")
    assert met.value == pytest.approx((3 / 4 + 1 + 1 / 3 + 1) / 4, abs=1e-12)
    assert alone.value == pytest.approx((2 / 3 + 1 + 0) / 3, abs=1e-12)
    assert (met.n_prompts, met.n_clusters) == (4, 4)
    assert (alone.n_prompts, alone.n_clusters, alone.samples) == (3, 3, 4)


def test_each_blocked_answer_may_be_either_in_the_worst_cases_of_the_model_alone() -> None:
    found = model_alone_estimates(cell_of(MIXED))
    least = one(found, f"refusal_rate_at_least{MODEL_ALONE}", reading="strict")
    most = one(found, f"refusal_rate_at_most{MODEL_ALONE}", reading="strict")
    assert least.value == pytest.approx((2 + 4 + 0 + 0) / 16, abs=1e-12)
    assert most.value == pytest.approx((3 + 4 + 2 + 4) / 16, abs=1e-12)


def test_intervals_of_both_rates_are_those_of_the_answers_that_count() -> None:
    cell = cell_of(single(*["CB"] * 10))
    met = one(cell_estimates(cell), "refusal_rate", reading="broad")
    alone = one(model_alone_estimates(cell), RATE, reading="broad")
    # No answer of ten prompts refuses: Clopper-Pearson.
    assert (alone.value, alone.low) == (0.0, 0.0)
    assert alone.high == pytest.approx(1 - 0.025 ** (1 / 10), abs=1e-12)
    # All ten prompts have a rate of a half: Wilson's interval of ten answers, with the quantile of t.
    t2 = scipy.stats.t.ppf(0.975, 9) ** 2
    half = math.sqrt(t2 * (0.25 / 10 + t2 / 400)) / (1 + t2 / 10)
    assert (met.value, met.low, met.high) == pytest.approx((0.5, 0.5 - half, 0.5 + half), abs=1e-12)


def test_a_block_is_no_unjudged_answer_and_what_it_leaves_out_is_marked() -> None:
    def flags(*letters: str) -> tuple[str, ...]:
        return one(model_alone_estimates(cell_of(single(*letters))), RATE, reading="strict").flags

    assert flags(*["RCB"] * 40) == ("blocked_left_out",)
    assert flags(*["RCF"] * 40) == ("unjudged",)
    assert flags(*["RFB"] * 40) == ("unjudged", "blocked_left_out")
    assert flags(*["RCC"] * 40) == ()


def test_without_blocks_both_are_the_same_number() -> None:
    cell = cell_of(single("RC", "CC", "RR", "PC", "CF"))
    names = {"refusal_rate", "refusal_rate_at_least", "refusal_rate_at_most", "effective_answers"}
    met = [e for e in cell_estimates(cell) if e.estimand in names]
    assert sorted(map(repr, of_model_alone(model_alone_estimates(cell)))) == sorted(map(repr, met))


def test_a_model_of_which_all_is_blocked_has_no_rate_alone_and_no_pool() -> None:
    blocked, other = cell_of(single("BB", "BB"), "a"), cell_of(single("RC", "CC", prefix="q"), "b")
    alone = one(model_alone_estimates(blocked), RATE, reading="broad")
    assert (alone.value, alone.low, alone.n_prompts) == (None, None, 0)
    assert alone.flags == ("blocked_left_out",)
    assert one(cell_estimates(blocked), "refusal_rate", reading="broad").value == 1.0
    sources = {"a": "a", "b": "b"}
    pool = one(
        pooled_rates([blocked.model_alone(), other.model_alone()], (), sources), "refusal_rate", reading="strict"
    )
    assert (pool.value, pool.method) == (None, "none (nothing judged in a)")


def test_categories_and_turns_have_both_rates() -> None:
    categories = {"p000": "a", "p001": "a", "p002": "b"}
    cell = cell_of(single("RB", "CB", "BB"), categories=categories)
    rates = {e.category: e.value for e in model_alone_estimates(cell) if (e.estimand, e.reading) == (RATE, "strict")}
    assert rates == {None: 0.5, "a": 0.5, "b": None}
    talk = cell_of({("t", 0): "CRCC", ("t", 1): "CBRC", ("t", 2): "CBBR"})
    by_turn = f"refusal_rate_turn{MODEL_ALONE}"
    turns = {
        e.parameter: e.value for e in model_alone_estimates(talk) if (e.estimand, e.reading) == (by_turn, "strict")
    }
    assert turns == {0: 1 / 4, 1: 1 / 3, 2: 1 / 2}


def test_votes_that_are_compared_leave_blocked_answers_out() -> None:
    frame = cell_of(single("RCB", "RBB", "BBB")).model_alone().frame
    decisions = frame["majority_strict"].tolist()
    assert decisions[1] == 1.0 and math.isnan(decisions[0]) and math.isnan(decisions[2])
    assert frame["n_samples"].tolist() == [2, 1, 0] and frame["n_blocked"].tolist() == [0, 0, 0]


def compared(folder: Path, may_block: bool, *first: str) -> list[Estimate]:
    """Compare a model with these answers with one that always complies."""
    cells, files = [], []
    for model, letters in (("a", first), ("b", ["C" * len(first[0])] * len(first))):
        cells.append(["j", model, "s"])
        rows = rows_of(single(*letters))
        files.append(str(cell_file(folder / f"{model}.parquet", *rows, len(first[0]), model=model)))
    family: dict[str, Any] = {"label": "", "kind": "models", "held": ["j"], "pairs": [["a", "b"]]}
    family["scopes"] = [{"splits": ["s"], "pool": None}]
    params = {"cells": cells, "families": [family], "samples": len(first[0]), "level": 0.95, "margin": None}
    params |= {"p_values": "exact", "correction": "holm", **({"may_block": True} if may_block else {})}
    params["splits"] = [{"name": "s", "expectation": "comply", "reading": "broad", "source": "s"}]
    found = measure({"scores": files, "duplicates": []}, params)
    return [estimate_of(row) for row in found["estimates"]]


def test_models_are_compared_in_both_rates(tmp_path: Path) -> None:
    found = compared(tmp_path, False, *["BC"] * 9, "RC")
    assert one(found, "rate_difference").value == pytest.approx(0.5, abs=1e-12)
    # Alone it refuses half of the answers to one prompt of ten; what was blocked may hide a refusal of each other one.
    alone = one(found, f"rate_difference{MODEL_ALONE}")
    assert alone.value == pytest.approx(0.05, abs=1e-12)
    bounds = one(found, f"rate_bounds{MODEL_ALONE}")
    assert (bounds.low, bounds.high) == pytest.approx((0.05, 0.5), abs=1e-12)
    assert one(found, f"rate_difference_p{MODEL_ALONE}").value == 1.0
    assert one(found, "rate_difference_p").value == pytest.approx(2 / 2**10, abs=1e-12)
    assert "blocked_left_out" in alone.flags and "blocked_left_out" not in one(found, "rate_difference").flags


def test_models_are_compared_alone_only_where_blocks_are_or_may_be(tmp_path: Path) -> None:
    unblocked_answers = ["RC"] * 10
    assert of_model_alone(compared(tmp_path, False, *unblocked_answers)) == []
    found = compared(tmp_path, True, *unblocked_answers)
    names = {row.estimand for row in as_user_meets_it(found)}
    assert names == {row.estimand for row in of_model_alone(found)} and "rate_difference" in names


@pytest.mark.parametrize(
    ("letters", "may_block", "there"),
    [(("RC", "CC"), False, False), (("RC", "CC"), True, True), (("RB", "CC"), False, True)],
)
def test_a_model_has_both_rates_where_answers_are_or_may_be_blocked(
    tmp_path: Path, letters: tuple[str, ...], may_block: bool, there: bool
) -> None:
    path = cell_file(tmp_path / "cell.parquet", *rows_of(single(*letters)), 2)
    write_json(tmp_path / "duplicates.json", {"left_out": []})
    study = {"judge": "j", "model": "m", "splits": ["s"], "sources": {"s": "s"}, "tau_sweep": False}
    study |= {"may_block": True} if may_block else {}
    make_estimates([str(path)], str(tmp_path / "duplicates.json"), study, str(tmp_path / "made.json"))
    found = [estimate_of(row) for row in read_json(tmp_path / "made.json")["estimates"]]
    assert bool(of_model_alone(found)) == there
    assert any(e.pool for e in of_model_alone(found)) == there


def test_models_without_blocks_have_both_rates_in_a_study_where_others_were_blocked_unannounced() -> None:
    strict, tame = cell_of(single("RB", "CC"), model="strict"), cell_of(single("RC", "CC"), model="tame")
    rows = [*cell_estimates(strict), *model_alone_estimates(strict), *cell_estimates(tame)]
    more = unblocked(rows)
    assert {e.model for e in more} == {"tame"} and {e.estimand for e in more} <= {e.estimand for e in rows}
    assert one(more, RATE, reading="strict").value == one(rows, "refusal_rate", model="tame", reading="strict").value
    assert unblocked(cell_estimates(tame)) == []


def test_the_dictionary_explains_every_number_of_the_model_alone_and_its_marks() -> None:
    cell = cell_of(single(*["RB"] * 3))
    rows = [*cell_estimates(cell), *model_alone_estimates(cell)]
    assert missing_definitions(rows) == []
    text = dictionary(rows, "study")
    assert "`refusal_rate_at_most_model_alone`" in text and "what is of the model alone" in text
    derived = definition_of(f"rate_difference{MODEL_ALONE}")
    assert derived is not None and "as `rate_difference`, with refusal_rate_model_alone" in derived.meaning
    assert definition_of(f"unheard_of{MODEL_ALONE}") is None


def test_the_dictionary_of_a_study_without_blocks_says_nothing_of_them() -> None:
    text = dictionary(cell_estimates(cell_of(single("RC", "CC"))), "study")
    assert "model_alone" not in text and "model alone" not in text and "`unfiltered`" not in text
