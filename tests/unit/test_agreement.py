"""Judge cards against numbers worked out by hand."""

import json
import random
from typing import Any

import pytest

from refusal_eval.stats.agreement.judge_card import judge_card

# (label of people, label of the judge or None): rows
TABLE: dict[tuple[str, str | None], int] = {
    ("refusal", "refusal"): 30,
    ("refusal", "partial"): 6,
    ("refusal", "compliance"): 4,
    ("partial", "refusal"): 2,
    ("partial", "partial"): 3,
    ("partial", "compliance"): 5,
    ("compliance", "refusal"): 1,
    ("compliance", "partial"): 4,
    ("compliance", "compliance"): 25,
    ("compliance", None): 10,
}


def rows(table: dict[tuple[str, str | None], int]) -> tuple[list[Any], list[Any]]:
    gold, verdicts = [], []
    for (human, machine), number in table.items():
        for i in range(number):
            name = f"{human}-{machine}-{i}"
            gold.append({"id": name, "label": human, "cluster": name})
            state = "unparsable" if machine is None else "judged"
            verdicts.append({"prompt_id": name, "sample": 0, "turn": 0, "state": state, "label": machine})
    return gold, verdicts


def test_card_by_hand() -> None:
    gold, verdicts = rows(TABLE)
    card = judge_card(gold, verdicts, judge="rules", gold="people", raters=2)
    assert (card["n"], card["n_judged"], card["coverage"], card["raters"]) == (90, 80, 80 / 90, 2)
    strict = card["strict"]
    # People call 40 refusals, of which the judge finds 30; of the other 40 it leaves 3 + 5 + 4 + 25 = 37 alone.
    assert (strict["n_positive"], strict["n_negative"]) == (40, 40)
    assert (strict["sensitivity"], strict["specificity"]) == (30 / 40, 37 / 40)
    assert strict["accuracy"] == pytest.approx(67 / 80)
    # The judge calls 33 refusals: chance agreement (40 * 33 + 40 * 47) / 80^2 = 0.5, kappa (0.8375 - 0.5) / 0.5.
    assert strict["kappa"] == pytest.approx(0.675)
    broad = card["broad"]
    # 50 refusals or partial ones, found 30 + 6 + 2 + 3 = 41; of 30 others 25 are left alone.
    assert (broad["n_positive"], broad["n_negative"]) == (50, 30)
    assert (broad["sensitivity"], broad["specificity"]) == (41 / 50, 25 / 30)
    # The judge calls 46: chance (50 * 46 + 30 * 34) / 6400 = 0.51875; accuracy 66 / 80 = 0.825.
    assert broad["kappa"] == pytest.approx((0.825 - 0.51875) / (1 - 0.51875))
    assert card["confusion"]["compliance"] == {"refusal": 1, "partial": 4, "compliance": 25, "unjudged": 10}
    low, high = strict["intervals"]["sensitivity"]
    assert low < 0.75 < high
    json.dumps(card, allow_nan=False)


def test_a_missing_verdict_lowers_coverage_only() -> None:
    gold, verdicts = rows(TABLE)
    answered = [row for row in verdicts if row["label"] is not None]
    assert judge_card(gold, answered, judge="j", gold="g") == judge_card(gold, verdicts, judge="j", gold="g")


def test_kappa_needs_twenty_rows_of_both_classes() -> None:
    for positives, shown in ((19, False), (20, True)):
        gold, verdicts = rows({("refusal", "refusal"): positives, ("compliance", "compliance"): 60})
        kappa = judge_card(gold, verdicts, judge="j", gold="g")["strict"]["kappa"]
        assert kappa == (1.0 if shown else None)


def test_a_judge_that_always_says_the_same_agrees_by_chance() -> None:
    gold, verdicts = rows({("refusal", "refusal"): 30, ("compliance", "refusal"): 30})
    strict = judge_card(gold, verdicts, judge="j", gold="g")["strict"]
    assert (strict["kappa"], strict["sensitivity"], strict["specificity"], strict["accuracy"]) == (0.0, 1.0, 0.0, 0.5)


def test_nothing_to_compare() -> None:
    card = judge_card([], [], judge="j", gold="g")
    assert (
        card["coverage"] is None
        and card["strict"]["accuracy"] is None
        and card["strict"]["intervals"]["accuracy"] is None
    )
    gold, verdicts = rows({("compliance", "compliance"): 5})
    strict = judge_card(gold, verdicts, judge="j", gold="g")["strict"]
    assert (strict["sensitivity"], strict["n_positive"], strict["specificity"]) == (None, 0, 1.0)


def test_order_of_the_input_changes_nothing() -> None:
    gold, verdicts = rows(TABLE)
    first = judge_card(gold, verdicts, judge="j", gold="g")
    random.Random(1).shuffle(gold)
    random.Random(2).shuffle(verdicts)
    assert judge_card(gold, verdicts, judge="j", gold="g") == first


def test_wrong_rows_are_refused() -> None:
    gold, verdicts = rows({("refusal", "refusal"): 2})
    for wrong, message in [
        ((gold + gold[:1], verdicts), "occurs twice"),
        ((gold, verdicts + verdicts[:1]), "two verdicts"),
        ((gold[:1], verdicts), "not in g"),
        (([gold[0] | {"label": "maybe"}, gold[1]], verdicts), "unknown label"),
        ((gold, [verdicts[0] | {"label": None}]), "unknown label"),
    ]:
        with pytest.raises(ValueError, match=message):
            judge_card(*wrong, judge="j", gold="g")
