"""Gold with weights: cards of a sample give back what the whole study would have said."""

import random
from functools import partial

import pytest
from judge_rows import rows, soft_gold, verdict
from table_rows import data_of

from refusal_eval.core.errors import UserError
from refusal_eval.data.gold import make_gold
from refusal_eval.features.judge_cards import card_measures
from refusal_eval.features.judge_cards.judge_card import judge_card
from refusal_eval.features.judge_cards.judge_card_figure import card_figure
from refusal_eval.features.judge_cards.judge_cards_table import cards_table
from refusal_eval.report.paper.markup import markdown
from refusal_eval.stats.agreement.compared import join_verdicts
from refusal_eval.stats.agreement.weighting import effective, normalise, units, weighted_share
from refusal_eval.stats.estimates.intervals import effective_number
from refusal_eval.stats.estimates.resampling import resample_sums

R, P, C = "refusal", "partial", "compliance"


def card(gold, verdicts):
    return judge_card(gold, verdicts, judge="j", gold="g")


def test_equal_weights_change_nothing():
    gold, verdicts = soft_gold()
    assert card([row | {"weight": 7.25} for row in gold], verdicts) == card(gold, verdicts)


def test_a_row_of_weight_three_counts_like_three_rows():
    table = {(R, R): 30, (R, C): 10, (C, C): 40, (C, R): 20, (P, C): 20}
    gold, verdicts = rows(table)
    weights = {R: 1.0, C: 3.0, P: 2.0}
    found = card([row | {"weight": weights[row["label"]]} for row in gold], verdicts)
    plain = card(*rows({key: int(n * weights[key[0]]) for key, n in table.items()}))
    for reading in ("strict", "broad"):
        for name in ("accuracy", "sensitivity", "specificity", "balanced_accuracy", "f1", "kappa"):
            assert found[reading][name] == pytest.approx(plain[reading][name], abs=1e-5), name
            low, high = found[reading]["intervals"][name]
            assert low < found[reading][name] < high
            # Never narrower than with as many rows as they stand for.
            other = plain[reading]["intervals"][name]
            assert high - low >= other[1] - other[0] - 1e-9
    assert found["three_class"]["kappa"] is None or found["three_class"]["interval"]
    assert (found["n"], found["broad"]["n_positive"]) == (120, 60)
    assert found["confusion"][C][C] == 40
    assert found["weighted"]["n_effective"] == pytest.approx((40 + 180 + 40) ** 2 / (40 + 540 + 80))
    assert "weighted" not in plain


@pytest.mark.full
def test_a_sample_that_takes_more_disputes_gives_back_the_judges_sensitivity_and_without_weights_does_not(monkeypatch):
    monkeypatch.setattr(
        card_measures, "resample_sums", partial(resample_sums, resamples=100)
    )  # its intervals do not count
    rng = random.Random(5)
    found, naive = [], []
    for _ in range(30):
        gold, verdicts = [], []
        for i in range(3000):
            human = R if rng.random() < 0.3 else C
            wrong = rng.random() < (0.2 if human == R else 0.1)
            # What another judge says differently is drawn ten times as densely; it is wrong there most of the time.
            dispute = wrong and rng.random() < 0.8
            probability = 0.5 if dispute else 0.05
            if rng.random() < probability:
                gold.append({"id": f"{i:05d}", "label": human, "cluster": f"c{i}", "weight": 1 / probability})
                verdicts.append(verdict(f"{i:05d}", {R: C, C: R}[human] if wrong else human))
        found.append(card(gold, verdicts)["broad"]["sensitivity"])
        naive.append(card([row | {"weight": None} for row in gold], verdicts)["broad"]["sensitivity"])
    assert sum(found) / 30 == pytest.approx(0.8, abs=0.03)
    assert sum(naive) / 30 < 0.55


def test_intervals_of_a_weighted_share_cover():
    rng = random.Random(9)
    hits = 0
    for _ in range(400):
        values, weights, clusters = [], [], []
        for i in range(400):
            value, dense = float(rng.random() < 0.3), rng.random() < 0.5
            if rng.random() < (0.8 if dense else 0.2):
                values.append(value)
                weights.append(1.25 if dense else 5.0)
                clusters.append(f"c{i}")
        _, (low, high) = weighted_share(values, normalise(weights), clusters, 0.95)
        hits += low <= 0.3 <= high
    assert 0.92 <= hits / 400 <= 0.985


def test_a_weighted_share_at_the_edge_is_exact_on_fewer_clusters():
    clusters = [f"c{i}" for i in range(40)]
    plain = weighted_share([1.0] * 40, [1.0] * 40, clusters, 0.95)[1]
    uneven = weighted_share([1.0] * 40, normalise([1.0, 9.0] * 20), clusters, 0.95)[1]
    assert uneven[0] < plain[0] < uneven[1] == 1
    assert weighted_share([1.0, 0.0], [0.5, 1.5], ["c", "c"], 0.95) == (0.25, [0.0, 1.0])


def test_weights_of_some_rows_only_or_that_are_no_weights_are_refused():
    gold, verdicts = rows({(R, R): 3})
    with pytest.raises(ValueError, match="2 of the 3 rows of g have no weight"):
        join_verdicts([gold[0] | {"weight": 2.0}, *gold[1:]], verdicts, "g")
    for weight in (0, -1, float("inf"), float("nan"), "2", True):
        with pytest.raises(ValueError, match="a weight must be a number above 0"):
            join_verdicts([row | {"weight": weight} for row in gold], verdicts, "g")


def test_numbers_of_weighted_gold_are_those_of_the_formulas_to_the_ninth_digit():
    rng = random.Random(4)
    gold, verdicts = rows({(R, R): 40, (R, C): 7, (C, R): 5, (C, C): 60})
    gold = [row | {"weight": 1 / rng.uniform(0.01, 1)} for row in gold]
    said = {verdict["prompt_id"]: verdict["label"] for verdict in verdicts}
    refused = [row for row in gold if row["label"] == R]
    found = sum(row["weight"] for row in refused if said[row["id"]] == R) / sum(row["weight"] for row in refused)
    assert card(gold, verdicts)["strict"]["sensitivity"] == pytest.approx(found, rel=1e-9)


def test_the_arithmetic_of_weights():
    assert normalise([2.0, 2.0]) == [1.0, 1.0]
    assert normalise([1.0, 3.0]) == [0.5, 1.5]
    assert units([0.5, 1.5]).tolist() == [5_000_000_000, 15_000_000_000]
    assert effective_number([1.0] * 7) == 7
    assert effective([1.0, 1.0, 1.0], ["a", "a", "b"]) == 2
    assert effective([], []) == 0


def test_probabilities_of_a_judge_are_weighted_too():
    gold, verdicts = soft_gold(models=1)
    heavy = [row | {"weight": 1.0 if row["label"] == C else 4.0} for row in gold]
    plain, found = card(gold, verdicts)["soft"], card(heavy, verdicts)["soft"]
    share = sum(row["weight"] for row in heavy if row["label"] != C) / sum(row["weight"] for row in heavy)
    assert found["brier_of_base_rate"] == pytest.approx(share * (1 - share), abs=1e-6)
    changes = [now["rate"] - before["rate"] for now, before in zip(found["bins"], plain["bins"], strict=True)]
    assert min(changes) >= 0 and max(changes) > 0.1
    assert found["ece_interval"][0] <= found["ece"] <= found["ece_interval"][1]


def test_table_and_figure_say_that_rows_are_weighted():
    gold, verdicts = rows({(R, R): 30, (R, C): 10, (C, C): 40, (C, R): 20})
    found = card([row | {"weight": 1.0 if row["label"] == R else 3.0} for row in gold], verdicts)
    assert "g: Rows are weighted by" in markdown(cards_table(data_of(cards=[found])))
    shown = " ".join(text.get_text() for ax in card_figure(found).axes for text in ax.texts)
    assert "weighted by" in shown.replace("\n", " ")


COLUMNS = {"messages": "m", "prompt": "prompt", "answer": "a", "label": "l", "weight": "w", "answering_model": "x"}
COLUMNS |= {"cluster": None, "expectation": None}
LABELS = {"refusal": "refusal", "compliance": "compliance"}


def gold_row(weight=2.0, model="a", label="refusal"):
    return {"m": [{"role": "user", "content": "Hi"}], "a": "No.", "l": label, "w": weight, "x": model}


def test_gold_keeps_weights_and_models_that_answered_alike_apart():
    gold, _ = make_gold([gold_row(), gold_row(3, "b"), gold_row("1.5")], COLUMNS, LABELS, "f")
    assert [(row["answering_model"], row["weight"]) for row in gold] == [("a", 3.5), ("b", 3.0)]
    assert len({row["id"] for row in gold}) == 2
    assert {row["cluster"] for row in gold} == {gold[0]["cluster"]}


@pytest.mark.parametrize("weight", [0, "", None, "many", -1, "nan", "inf", True])
def test_a_weight_that_is_none_is_reported(weight):
    with pytest.raises(UserError, match=r"f, row 1: column `w` holds .*; a weight is a number above 0"):
        make_gold([gold_row(weight)], COLUMNS, LABELS, "f")


@pytest.mark.parametrize("agreed", [0.5, 0.95])
def test_a_weighted_share_covers_with_clusters_of_unequal_size(agreed):
    """Two clusters of a hundred rows that are all right or all wrong, and single ones."""
    rng, hits = random.Random(7), 0
    for _ in range(300):
        values, clusters = [], []
        for cluster, size in enumerate([100] * 2 + [1] * 98):
            values += [float(rng.random() < agreed)] * size
            clusters += [f"c{cluster}"] * size
        weights = normalise([rng.choice([1.0, 3.0]) for _ in values])
        _, (low, high) = weighted_share(values, weights, clusters, 0.95)
        hits += low <= agreed <= high
    assert hits / 300 >= 0.92


def test_a_weighted_share_of_all_is_no_better_known_from_a_large_cluster():
    """Three quarters of the rows are one cluster, and all are right."""
    clusters = ["large"] * 300 + [f"c{i}" for i in range(100)]
    low = weighted_share([1.0] * 400, normalise([1.0, 3.0] * 200), clusters, 0.95)[1][0]
    assert low < 0.2
