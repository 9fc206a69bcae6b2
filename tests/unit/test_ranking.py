"""ROC area and average precision of judges: scikit-learn's values, intervals, and what has none."""

import random
import time
from typing import Any

import numpy as np
import pytest
from judge_rows import rows, soft_gold, verdict
from sklearn.metrics import average_precision_score, roc_auc_score
from table_rows import data_of

from refusal_eval.features.judge_cards.calibration_figure import reliability_text
from refusal_eval.features.judge_cards.card_estimates import card_estimates
from refusal_eval.features.judge_cards.judge_card import judge_card
from refusal_eval.features.judge_cards.judge_cards_table import cards_frame, cards_table
from refusal_eval.report.paper.markup import markdown
from refusal_eval.stats.agreement.compared import join_verdicts
from refusal_eval.stats.agreement.soft import ranking, soft_measures
from refusal_eval.stats.agreement.weighting import normalise


def card(gold_rows: Any, verdicts: Any) -> dict[str, Any]:
    return judge_card(gold_rows, verdicts, judge="j", gold="g")


def made(p: Any, refused: Any, weight: Any = None, codes: Any = None) -> dict[str, Any]:
    p, refused = np.asarray(p, dtype=float), np.asarray(refused, dtype=float)
    weight = np.ones(len(p)) if weight is None else weight
    return ranking(p, refused, weight, np.arange(len(p)) if codes is None else codes, 0.95, 1)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("digits", [9, 1, 0])
def test_values_are_those_of_scikit_learn_with_ties_and_weights(digits: int, weighted: bool) -> None:
    rng = np.random.default_rng(digits)
    for _ in range(10):
        refused = rng.random(150) < 0.4
        p = np.round(np.clip(rng.normal(0.4 + 0.2 * refused, 0.25), 0, 1), digits)
        weight = np.array(normalise(rng.uniform(0.2, 5, 150).tolist())) if weighted else np.ones(150)
        found = made(p, refused, weight, rng.integers(60, size=150))
        for name, score in (("roc_auc", roc_auc_score), ("average_precision", average_precision_score)):
            value, (low, high) = found[name], found[f"{name}_interval"]
            assert value == pytest.approx(score(refused, p, sample_weight=weight), abs=1e-12)
            assert 0 <= low < value < high <= 1


def test_a_card_measures_the_broad_reading_of_answers_with_a_probability() -> None:
    gold, verdicts = soft_gold()
    verdicts[3] = verdict(verdicts[3]["prompt_id"], "refusal")
    heavy = [row | {"weight": 1.0 + i % 4} for i, row in enumerate(gold)]
    found = card(heavy, verdicts)["soft"]
    known = [(g["label"] != "compliance", v["p_refusal"], g["weight"]) for g, v in zip(heavy, verdicts, strict=True)]
    y, p, w = zip(*(row for row in known if row[1] is not None), strict=True)
    assert found["n"] == 239
    assert found["roc_auc"] == pytest.approx(roc_auc_score(y, p, sample_weight=w), abs=1e-6)  # weights have six digits
    assert found["average_precision"] == pytest.approx(average_precision_score(y, p, sample_weight=w), abs=1e-6)
    assert found["base_rate"] == pytest.approx(np.average(y, weights=w), abs=1e-6)


def test_where_no_error_is_seen_the_interval_is_what_clusters_allow() -> None:
    refused = np.arange(70) < 30
    for p, low, high in ((refused, 0.025 ** (1 / 30), 1), (1 - refused, 0, 1 - 0.025 ** (1 / 30))):
        found = made(np.where(p, 0.9, 0.1), refused)
        assert found["roc_auc"] == float(p[0]) and found["roc_auc_interval"] == pytest.approx([low, high])
    perfect = made(np.linspace(1, 0, 70), refused)
    assert perfect["average_precision"] == 1
    assert perfect["average_precision_interval"] == perfect["roc_auc_interval"]
    # Of six rows that always go together only one counts.
    alike = made(np.linspace(1, 0, 70), refused, codes=np.arange(70) // 6)
    assert alike["roc_auc_interval"] == pytest.approx([0.025 ** (1 / 5), 1])
    weight = np.array(normalise(np.linspace(1, 9, 70).tolist()))
    assert made(np.linspace(1, 0, 70), refused, weight)["roc_auc"] == 1


def test_a_judge_that_says_the_same_of_everything_knows_nothing() -> None:
    found = made([0.5] * 100, np.arange(100) < 40)
    assert found["roc_auc"] == 0.5 and found["average_precision"] == 0.4
    low, high = found["roc_auc_interval"]
    assert low < 0.4 and high > 0.6


@pytest.mark.parametrize("refusals", [0, 19, 81, 100])
def test_no_numbers_of_a_class_with_few_rows(refusals: int) -> None:
    assert set(made(np.linspace(0, 1, 100), np.arange(100) < refusals).values()) == {None}


def test_no_numbers_of_a_class_with_few_clusters() -> None:
    refused = np.arange(100) < 40
    assert set(made(np.linspace(0, 1, 100), refused, codes=np.where(refused, 0, np.arange(100))).values()) == {None}


def test_the_order_of_rows_changes_nothing() -> None:
    gold, verdicts = soft_gold(150)
    gold = [row | {"weight": 1 + i % 3} for i, row in enumerate(gold)]
    first = card(gold, verdicts)["soft"]
    found = join_verdicts(gold, verdicts, "g")
    mixed = [soft_measures(rows_, 0.95, 7) for rows_ in (found, found.sample(frac=1, random_state=3))]
    random.Random(1).shuffle(gold)
    assert card(gold, verdicts)["soft"] == first
    for name in ("roc_auc", "average_precision"):
        for key in (name, f"{name}_interval"):
            assert mixed[0] and mixed[1] and mixed[0][key] == mixed[1][key]


def test_tables_results_and_captions_have_them() -> None:
    found = card(*soft_gold())
    of_cards = cards_frame([found])
    own = of_cards[of_cards["measure"] == "roc_auc"]
    assert len(own) == 4 and own["value"].iloc[0] == found["soft"]["roc_auc"] and set(own["reading"]) == {"broad"}
    estimate = next(e for e in card_estimates(found) if e.estimand == "judge_average_precision")
    assert estimate.value == found["soft"]["average_precision"] and "Wilson" in str(estimate.method)
    assert [estimate.low, estimate.high] == found["soft"]["average_precision_interval"]
    words = f"ROC area {found['soft']['roc_auc']:.2f} "
    assert words in markdown(cards_table(data_of(cards=[found]))) and words in reliability_text(found)[0]


def test_a_judge_without_probabilities_has_none() -> None:
    found = card(*rows({("refusal", "refusal"): 30, ("compliance", "compliance"): 40, ("refusal", "compliance"): 5}))
    assert found["soft"] is None and "ROC" not in markdown(cards_table(data_of(cards=[found])))
    assert not {"roc_auc", "average_precision"} & set(cards_frame([found])["measure"])


def test_a_large_gold_set_takes_seconds() -> None:
    rng = np.random.default_rng(1)
    start = time.process_time()
    made(rng.random(5000), rng.random(5000) < 0.4)
    assert time.process_time() - start < 10
