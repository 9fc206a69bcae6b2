"""Rates corrected by gold of other models."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from judge_rows import verdict
from rate_rows import rates_of

from refusal_eval.features.corrected.transfer import (
    ErrorRates,
    Observed,
    corrected_value,
    error_rates,
    judged_gold,
    method_of,
    observed_rates,
    resampled_rates,
    transfer_rate,
)
from refusal_eval.stats.estimates.intervals import cluster_wilson


def rows_of(people: Any, judge: Any, clusters: Any = None, models: Any = "", weights: Any = 1.0) -> pd.DataFrame:
    """Gold rows of which people and the judge call these refusals."""
    human, machine = (np.where(said, "refusal", "compliance") for said in (people, judge))
    names = np.arange(len(human)) if clusters is None else clusters
    about = {"cluster": [f"c{name:04d}" for name in names], "answering_model": models, "weight": weights}
    return pd.DataFrame({"human": human, "machine": machine, **about})


def gold(se: list[float], sp: list[float], rows: int = 100) -> pd.DataFrame:
    """So many refusals and others of each answering model, read with just these shares."""
    people, judge, models = [], [], []
    for i, shares in enumerate(zip(se, sp, strict=True)):
        for positive, share in zip((True, False), shares, strict=True):
            right = round(rows * share)
            people += [positive] * rows
            judge += [positive] * right + [not positive] * (rows - right)
            models += [f"m{i}" if len(se) > 1 else ""] * rows
    return rows_of(people, judge, models=models)


@pytest.mark.parametrize(("rate", "blocked", "value"), [(0.25, 0.0, 0.05 / 0.7), (0.4, 0.2, 0.2 + 0.8 * 0.05 / 0.7)])
def test_rogan_gladen_by_hand(rate: float, blocked: float, value: float) -> None:
    """Where a fifth is blocked and 40 % are refusals, a quarter of the others is."""
    observed = Observed(rate, 0.0, 1.0, np.array([rate]), 100, 100, blocked)
    assert corrected_value(observed, 0.9, 0.8) == pytest.approx(value)


def test_errors_of_one_model_have_jeffreys_intervals() -> None:
    errors = error_rates(gold([0.9], [1.0]), "strict", 1)
    assert errors.spread is None
    assert (errors.sensitivity, errors.specificity) == (0.9, 1.0)
    # Beta(90.5, 10.5) and Beta(100.5, 0.5).
    assert np.quantile(errors.drawn[0], [0.025, 0.975]) == pytest.approx([0.8299, 0.9466], abs=0.01)
    assert np.quantile(errors.drawn[1], 0.025) == pytest.approx(0.9752, abs=0.006)


@pytest.mark.parametrize("nameless", ["", None])
def test_answers_that_name_no_model_are_not_those_of_one(nameless: str | None) -> None:
    both = gold([0.95, 0.75], [0.95, 0.85])
    one, none = (both.assign(answering_model=["m0"] * 200 + [name] * 200) for name in ("m0", nameless))
    found, wanted = error_rates(none, "strict", 1), error_rates(one, "strict", 1)
    assert found.spread is None and [own["answering_model"] for own in found.by_model] == ["m0"]
    assert (found.drawn == wanted.drawn).all()  # no weight of a model that they would share
    three = pd.concat([gold([0.9, 0.9], [0.9, 0.9]), none.iloc[200:]], ignore_index=True)
    three["cluster"] = [f"c{i:04d}" for i in range(len(three))]
    alone = error_rates(three, "strict", 1)
    assert [own["answering_model"] for own in alone.by_model] == ["m0", "m1"] and alone.spread == (0.0, 0.0)


def test_models_that_differ_make_a_new_one_uncertain() -> None:
    alike = error_rates(gold([0.9] * 5, [0.9] * 5), "strict", 1)
    apart = error_rates(gold([0.75, 0.85, 0.9, 0.95, 1.0], [0.9] * 5), "strict", 1)
    assert alike.spread == (0.0, 0.0)
    assert apart.spread[0] == pytest.approx(0.09, abs=0.02) and apart.spread[1] < 0.02
    wide, narrow = (np.quantile(e.drawn[0], 0.975) - np.quantile(e.drawn[0], 0.025) for e in (apart, alike))
    assert wide > 3 * narrow
    assert [entry["sensitivity"] for entry in apart.by_model] == [0.75, 0.85, 0.9, 0.95, 1.0]


def test_gold_of_one_class_says_nothing() -> None:
    rows = gold([0.9], [0.9])
    assert error_rates(rows[rows["human"] == "refusal"], "strict", 1) is None


def test_the_correction_finds_the_true_rate_and_its_interval_holds_it() -> None:
    errors = error_rates(gold([0.8], [0.9], rows=400), "strict", 1)
    rng = np.random.default_rng(1)
    truth = 0.3
    rates = rng.binomial(5, truth * 0.8 + (1 - truth) * 0.1, size=400) / 5
    found = transfer_rate(observed_rates([rates_of([rates.tolist()])], 0.95)[0], errors, 0.95)
    assert not found.at_odds and found.value == pytest.approx(truth, abs=0.04)
    assert found.low < truth < found.high
    assert found.margin == pytest.approx(0.7)


def test_a_judge_that_hardly_tells_apart_identifies_nothing() -> None:
    errors = error_rates(gold([0.65], [0.65]), "strict", 1)
    found = transfer_rate(observed_rates([rates_of([[0.5] * 40])], 0.95)[0], errors, 0.95)
    assert found.value is None and found.margin_low < 0.3 and not found.at_odds


@pytest.mark.parametrize(("rate", "se", "sp"), [(0.0, 0.9, 0.8), (1.0, 0.8, 0.9)])
def test_a_rate_that_no_rate_of_refusals_explains_is_at_odds_with_gold(rate: float, se: float, sp: float) -> None:
    errors = error_rates(gold([se], [sp]), "strict", 1)
    found = transfer_rate(observed_rates([rates_of([[rate] * 40])], 0.95)[0], errors, 0.95)
    assert found.at_odds
    assert (found.value, found.low, found.high) == (None, None, None)
    assert not 0 <= found.unclipped <= 1


@pytest.mark.parametrize("false_alarms", [0.0, 0.02, 0.04, 0.06, 0.08])
def test_the_less_the_gold_explains_the_study_the_interval_stays_as_wide_as_the_judges_own(false_alarms: float) -> None:
    # 1 refusal of 200, and gold with ever more false positives: the interval shrank from 7 points to less than 1.
    rates = [[0.2] + [0.0] * 39]
    observed = observed_rates([rates_of(rates, draws=5)], 0.95)[0]
    errors = error_rates(gold([0.8], [1 - false_alarms], rows=50), "strict", 1)
    found = transfer_rate(observed, errors, 0.95)
    own = observed.high - observed.rate
    assert found.low == 0.0 and found.high is not None and found.value is not None
    assert found.high - found.value >= min(own / found.margin, observed.high / 0.8 - found.value) - 1e-12
    assert found.high > own


def test_the_method_claims_a_spread_of_answering_models_only_where_gold_tells_them_apart() -> None:
    one, several = error_rates(gold([0.9], [0.9]), "strict", 1), error_rates(gold([0.9] * 3, [0.9] * 3), "strict", 1)
    assert "spread" not in method_of(one.spread) and "spread of answering models" in method_of(several.spread)


def test_splits_are_pooled_with_the_same_weight_and_a_rate_of_nought_is_not_certain() -> None:
    drawn = resampled_rates([rates_of([[0.0] * 10], "a"), rates_of([[1.0] * 200], "b")])
    assert drawn.shape == (9523, 1) and drawn.mean() == pytest.approx(0.52, abs=0.01)
    assert 0 < drawn.std() < 0.05


def known_errors(se: float, sp: float) -> ErrorRates:
    """A judge whose errors are known for certain."""
    return ErrorRates(se, sp, np.tile([[se], [sp]], 2000), None, (), 1000, 1000, 1000)


@pytest.mark.parametrize("refusing", [0, 1, 2, 16, 31, 32])
def test_the_interval_is_never_narrower_than_the_judges_own_mapped_by_the_gold(refusing: int) -> None:
    rates = [1.0] * refusing + [0.0] * (32 - refusing)
    own = cluster_wilson(rates, list(range(32)), draws=320)
    found = transfer_rate(observed_rates([rates_of([rates])], 0.95)[0], known_errors(1.0, 1.0), 0.95)
    assert found.value == refusing / 32
    assert found.low <= own.low + 1e-12 and found.high >= own.high - 1e-12


def test_a_rate_of_nought_has_no_false_positives_that_could_explain_refusals_away() -> None:
    own = cluster_wilson([0.0] * 32, list(range(32)))
    found = transfer_rate(observed_rates([rates_of([[0.0] * 32])], 0.95)[0], known_errors(0.9, 0.97), 0.95)
    assert found.value == 0.0 == found.low
    assert found.high == pytest.approx(own.high / 0.9)
    ones = transfer_rate(observed_rates([rates_of([[1.0] * 32])], 0.95)[0], known_errors(0.97, 0.9), 0.95)
    assert ones.low == pytest.approx(1 - own.high / 0.9) and ones.high == 1.0


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 1.0])
def test_blocked_answers_are_refusals_that_no_judge_misread(share: float) -> None:
    blocked = np.array([[1.0] * int(200 * share) + [0.0] * (200 - int(200 * share))])
    rates = np.where(blocked > 0, 1.0, 0.1)  # the rest: false positives of a judge with Sp = .9, and no refusal
    observed = observed_rates([rates_of(rates.tolist(), blocked=blocked.tolist())], 0.95)[0]
    found = transfer_rate(observed, known_errors(0.9, 0.9), 0.95)
    assert observed.blocked == share
    assert found.value == pytest.approx(share)
    assert found.low <= share <= found.high
    assert found.high - found.low < 0.25


def test_gold_with_many_rows_to_a_cluster_tells_as_little_as_its_clusters() -> None:
    clusters = np.repeat(np.arange(20), 25)
    people = clusters % 2 == 0
    errors = error_rates(rows_of(people, people, clusters), "strict", 1)
    assert errors.sensitivity == 1.0
    # Ten clusters without an error: Beta(10.5, .5) has its 2.5 % quantile at .78, Clopper-Pearson at .69.
    assert 0.65 < np.quantile(errors.drawn[0], 0.025) < 0.84


def test_the_sensitivity_on_gold_with_many_rows_to_a_cluster_is_covered() -> None:
    rng = np.random.default_rng(4)
    clusters, inside, runs = np.repeat(np.arange(40), 25), 0, 150
    people = clusters % 2 == 0
    for seed in range(runs):
        right = rng.random(1000) < rng.beta(0.95, 0.05, size=40)[clusters]  # correlation .5 within a cluster
        judge = np.where(right, people, ~people)
        errors = error_rates(rows_of(people, judge, clusters), "strict", seed, 500)
        low, high = np.quantile(errors.drawn[0], [0.025, 0.975])
        inside += low <= 0.95 <= high
    assert inside / runs > 0.89  # with half a row put in, not half a cluster: .79


def test_unequal_weights_leave_less_of_the_difference_between_models_to_their_spread() -> None:
    rows = gold([0.8, 0.9], [0.9, 0.9])
    uneven = rows.assign(weight=np.where(np.arange(len(rows)) % 2 == 0, 10.0, 1.0))
    even_errors, uneven_errors = error_rates(rows, "strict", 1), error_rates(uneven, "strict", 1)
    assert even_errors.sensitivity == pytest.approx(uneven_errors.sensitivity)
    assert uneven_errors.spread[0] < 0.95 * even_errors.spread[0]


def gold_row(number: int, label: str, model: str = "a") -> dict[str, object]:
    names = {"id": f"g{number:03d}", "cluster": f"c{number}", "expectation": None, "answering_model": model}
    return names | {"label": label, "messages": [], "answer": ""}


def with_probabilities(seed: int, models: int, positive: Any, mean: Any, sd: float) -> tuple[list[Any], list[Any]]:
    """Gold of 120 answers and verdicts that are no refusal as given; whether each is one, and the mean of its p."""
    rng, rows, verdicts = np.random.default_rng(seed), [], []
    for i in range(120):
        p = float(np.clip(rng.normal(mean(i), sd), 0.01, 0.99))
        rows.append(gold_row(i, "refusal" if positive(i) else "compliance", f"m{i % models}"))
        verdicts.append(verdict(f"g{i:03d}", "compliance") | {"p_refusal": p})
    return rows, verdicts


def test_labels_of_a_calibrated_judge_come_from_other_rows() -> None:
    rows, verdicts = with_probabilities(2, 3, lambda i: i % 2 == 0, lambda i: 0.15 if i % 2 else 0.35, 0.08)
    as_given, fitted = judged_gold(rows, verdicts, "g"), judged_gold(rows, verdicts, "g", "out_of_fold")
    assert set(as_given["machine"]) == {"compliance"}
    assert (fitted["machine"] == fitted["human"]).mean() > 0.8 and set(fitted["answering_model"]) == {"m0", "m1", "m2"}


def test_unjudged_gold_is_left_out_and_readings_differ() -> None:
    rows = [gold_row(1, "refusal"), gold_row(2, "partial"), gold_row(3, "compliance")]
    verdicts = [verdict("g001", "refusal"), verdict("g002", "compliance"), verdict("g003", None)]
    judged = judged_gold(rows, verdicts, "g")
    assert judged["human"].tolist() == ["refusal", "partial"]
    assert error_rates(judged, "strict", 1) is not None and error_rates(judged, "broad", 1) is None


def test_the_margin_is_the_lower_end_of_a_two_sided_interval() -> None:
    drawn = np.stack([np.linspace(0.5, 1.0, 2000), np.full(2000, 0.9)])
    observed = observed_rates([rates_of([[0.5] * 40])], 0.95)[0]
    found = transfer_rate(observed, ErrorRates(0.75, 0.9, drawn, None, (), 100, 100, 100), 0.95)
    assert found.margin == pytest.approx(0.65) and found.margin_low == pytest.approx(0.4 + 0.025 * 0.5, abs=1e-3)


def test_labels_of_a_calibrated_judge_come_from_other_models_where_gold_names_them() -> None:
    # The judge is 0.3 higher on one model: only a calibration without that model's rows is taken in by it.
    means = (0.45, 0.25)
    rows, verdicts = with_probabilities(5, 3, lambda i: i % 2 == 0, lambda i: means[i % 2] + 0.3 * (i % 3 == 0), 0.03)
    found = judged_gold(rows, verdicts, "g", "out_of_fold")
    said = found["machine"].groupby(found["answering_model"])
    assert set(said.get_group("m0")) == {"refusal"}  # by the others' threshold all of them are refusals
    assert (found["machine"] == found["human"])[found["answering_model"] == "m1"].mean() < 1


def test_labels_of_a_calibrated_judge_cover_all_gold_where_a_model_cannot_be_left_out() -> None:
    # Model m1 complies with everything: without m0 there is one class, and no calibration for m0's rows.
    rows, verdicts = with_probabilities(6, 2, lambda i: i % 4 == 0, lambda i: 0.15 if i % 4 else 0.35, 0.03)
    found = judged_gold(rows, verdicts, "g", "out_of_fold")
    assert len(found) == 120 and set(found["answering_model"]) == {"m0", "m1"}
    assert (found["machine"] == "refusal")[found["human"] == "refusal"].mean() > 0.9


def test_the_spread_of_three_models_rests_on_two_degrees_of_freedom() -> None:
    errors = error_rates(gold([0.65, 0.7, 0.75], [0.9, 0.9, 0.9], rows=2000), "strict", 1)
    assert errors.spread[0] == pytest.approx(0.05, abs=0.002)
    # 4.3 standard deviations, and not 1.96.
    low, high = np.quantile(errors.drawn[0], [0.025, 0.975])
    assert low < 0.7 - 3.5 * 0.05 and high > 0.7 + 3.5 * 0.05
