"""Judges ranked on one gold set: who is shown to be better, and who cannot be told apart."""

import random
from typing import Any

import pytest
from judge_rows import rows as gold_and_verdicts
from judge_rows import verdict

from refusal_eval.features.judge_cards.judge_card import judge_card
from refusal_eval.report.paper.display import Labels
from refusal_eval.stats.agreement.compared import join_verdicts
from refusal_eval.stats.agreement.judge_ranks import judge_ranks
from refusal_eval.tools.bench.bench_page import Benchmark, page


def labelled(errors: float, rows: int = 200, seed: int = 0) -> Any:
    """Gold in clusters of two, and a judge that errs at this rate."""
    gold, verdicts, rng = [], [], random.Random(seed)
    for i in range(rows):
        human = "refusal" if i % 4 < 2 else "compliance"
        other = "compliance" if human == "refusal" else "refusal"
        gold.append({"id": f"{i:03d}", "label": human, "cluster": f"c{i // 2}"})
        verdicts.append(verdict(f"{i:03d}", other if rng.random() < errors else human))
    return join_verdicts(gold, verdicts, "g")


def test_a_coin_is_last_and_like_judges_share_a_group() -> None:
    rows = {"good": labelled(0.08, seed=1), "as-good": labelled(0.1, seed=2), "coin": labelled(0.5, seed=3)}
    found = judge_ranks(rows, "g", "broad", 0.95)
    assert [one["judge"] for one in found][2] == "coin" and found[2]["rank"] == [3, 3]
    assert [one["rank"] for one in found[:2]] == [[1, 2], [1, 2]]
    assert [one["groups"] for one in found] == [[0], [0], [1]]
    assert found[0]["kappa"] >= found[1]["kappa"] > 0.7


def test_who_is_between_two_that_differ_may_belong_to_both_groups() -> None:
    rows = {f"j{i}": labelled(errors, seed=7) for i, errors in enumerate((0.02, 0.06, 0.12))}
    found = judge_ranks(rows, "g", "broad", 0.95)
    first, middle, last = (set(one["groups"]) for one in found)
    assert [one["judge"] for one in found] == ["j0", "j1", "j2"] and not first & last
    assert all(low <= place <= high for place, (low, high) in enumerate((one["rank"] for one in found), 1))
    assert first & middle or found[1]["rank"][0] == 2


@pytest.mark.parametrize(("rows", "apart"), [(60, True), (8, False)])
def test_a_judge_without_an_error_and_one_that_is_blind_differ_where_there_are_answers_enough(
    rows: int, apart: bool
) -> None:
    perfect = labelled(0, rows=rows)
    found = judge_ranks({"perfect": perfect, "blind": perfect.assign(machine="compliance")}, "g", "broad", 0.95)
    assert [one["rank"] for one in found] == ([[1, 1], [2, 2]] if apart else [[1, 2], [1, 2]])


@pytest.mark.parametrize("judges", [1, 20])
def test_equal_judges_are_one_group_however_many_they_are(judges: int) -> None:
    rows = {f"j{i:02d}": labelled(0.1, seed=i) for i in range(judges)}
    found = judge_ranks(rows, "g", "broad", 0.95)
    assert {tuple(one["rank"]) for one in found} == {(1, judges)} and {tuple(one["groups"]) for one in found} == {(0,)}


def test_with_few_refusals_in_gold_nobody_is_told_apart() -> None:
    rare = {name: labelled(errors, rows=40, seed=3)[4:] for name, errors in (("good", 0.0), ("coin", 0.5))}
    assert [one["rank"] for one in judge_ranks(rare, "g", "broad", 0.95)] == [[1, 2], [1, 2]]
    assert rare["good"]["human"].eq("refusal").sum() < 20


def test_on_the_page_models_with_few_answers_of_a_class_follow_the_others() -> None:
    counts = {"few": (2, 2, 90), "good": (30, 0, 30), "weak": (20, 10, 30)}  # refusals found and missed, others
    gold, verdicts = [], []
    for model, (found, missed, others) in counts.items():
        table = {("refusal", "refusal"): found, ("refusal", "compliance"): missed, ("compliance", "compliance"): others}
        own = gold_and_verdicts(table, answering_model=model)
        gold, verdicts = gold + own[0], verdicts + own[1]
    shown = page(Benchmark("s", Labels(), [judge_card(gold, verdicts, judge="j", gold="g")], {}, {}, [], {}))
    places = [shown.index(f"answering model: {model}") for model in ("weak", "good", "few")]
    assert places == sorted(places)
