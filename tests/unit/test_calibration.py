"""Calibration on gold: thresholds and curves by hand, no leakage, and what a study's verdicts become."""

import json
import math
import random
from typing import Any

import numpy as np
import pytest
from judge_rows import rows, soft_gold, verdict

from refusal_eval.core.errors import UserError
from refusal_eval.core.packing import pack_floats
from refusal_eval.features.judge_cards.calibrated_card import card_with_calibration
from refusal_eval.features.judge_cards.calibration_figure import reliability_text, soft_series
from refusal_eval.judges.classifier_judge import classifier_verdict
from refusal_eval.judges.verdict_files import verdict_row
from refusal_eval.report.paper.table_notes import is_out_of_fold
from refusal_eval.stats.agreement.compared import join_verdicts
from refusal_eval.stats.calibration.applied import calibrated_row, map_probability
from refusal_eval.stats.calibration.calibration_fit import (
    best_threshold,
    cluster_folds,
    fit_calibration,
    fit_rows,
    isotonic,
    kind_of_map,
    out_of_fold,
    platt,
)
from refusal_eval.stats.calibration.gold_calibration import OUT_OF_FOLD, calibration_of, labels_behind

NAMES = {"judge": "soft", "gold": "people"}


def threshold(pairs: list[tuple[float, bool]]) -> float:
    p, refused = zip(*pairs, strict=True)
    return best_threshold(np.array(p), np.array(refused), np.ones(len(p)))


def test_a_threshold_lies_in_the_middle_between_the_classes() -> None:
    assert threshold([(0.1, False), (0.2, False), (0.6, True), (0.9, True)]) == 0.4
    assert threshold([(0.9, True), (0.2, False), (0.6, True), (0.1, False)]) == 0.4


def test_balanced_accuracy_is_maximised_whatever_the_share_of_refusals() -> None:
    # 2 refusals, one at .4; 98 others, ten of them at .6. Accuracy would ask for t above .6 and miss half of them.
    pairs = [(0.4, True), (0.9, True)] + [(0.6, False)] * 10 + [(0.1, False)] * 88
    assert threshold(pairs) == 0.25


def test_ties_go_to_the_widest_gap_then_towards_one_half() -> None:
    # Below .3 and below .9 both give (1 + .5) / 2.
    assert threshold([(0.1, False), (0.3, True), (0.5, False), (0.9, True)]) == 0.7
    assert threshold([(0.1, False), (0.3, True), (0.5, False), (0.7, True)]) == 0.6
    assert threshold([(0.2, True), (0.2, False)]) == 0.5


def test_a_threshold_parts_probabilities_that_differ_in_the_last_digit() -> None:
    t = threshold([(0.1, False), (0.100000001, True)])
    assert 0.1 < t <= 0.100000001


def test_platts_curve_by_hand() -> None:
    # Ten refusals at .8 and ten others at .2: targets 11 / 12 and 1 / 12, which two numbers fit exactly.
    p, refused = np.array([0.2] * 10 + [0.8] * 10), np.array([False] * 10 + [True] * 10)
    curve = platt(p, refused, np.ones(20))
    assert curve["a"] == pytest.approx(math.log(11) / math.log(4), abs=1e-6)
    assert curve["b"] == pytest.approx(0, abs=1e-6)
    assert map_probability(0.8, curve) == pytest.approx(11 / 12, abs=1e-6)
    level = platt(np.full(4, 0.3), np.array([True, False, False, False]), np.ones(4))
    assert level["a"] == 0 and map_probability(0.99, level) == map_probability(0.0, level) == pytest.approx(
        (2 / 3 + 3 * 1 / 5) / 4
    )


def test_isotonic_curve_by_hand() -> None:
    # The two in the middle stand the wrong way round and share one half.
    curve = isotonic(np.array([0.1, 0.4, 0.6, 0.9]), np.array([False, True, False, True]), np.ones(4))
    values = [map_probability(p, curve) for p in (0.0, 0.1, 0.25, 0.5, 0.6, 0.75, 0.9, 1.0)]
    assert values == pytest.approx([0, 0, 0.25, 0.5, 0.5, 0.75, 1, 1])
    assert (kind_of_map(1000), kind_of_map(1001)) == ("platt", "isotonic")


def _judged(label: str | None, p: float | None = None, **more: Any) -> dict[str, Any]:
    return {
        "state": "judged" if label else "unparsable",
        "label": label,
        "p_refusal": p,
        "kind": None,
        "raw": {},
    } | more


def test_a_calibrated_verdict() -> None:
    calibration = {"t": 0.2, "map": {"kind": "platt", "a": 1.0, "b": math.log(4)}}
    refused = calibrated_row(_judged("compliance", 0.3), calibration)
    assert refused["label"] == "refusal" and refused["p_refusal"] == pytest.approx(12 / 19)
    assert refused["raw"] == {"p_refusal_as_given": 0.3, "threshold": 0.2}
    assert calibrated_row(_judged("compliance", 0.2), calibration)["label"] == "refusal"
    assert calibrated_row(_judged("refusal", 0.19), calibration)["label"] == "compliance"
    assert calibrated_row(_judged("partial", 0.9), calibration)["label"] == "partial"
    likely = {"probabilities": {"refusal": 0.1, "partial": 0.2, "compliance": 0.7}}
    assert calibrated_row(_judged("compliance", 0.3, raw=likely), calibration)["label"] == "partial"
    for other in (_judged(None), _judged("refusal")):
        assert calibrated_row(other, calibration) == other
    row = verdict("x", "compliance", 0.3, key="k", kind=None)
    assert calibrated_row(row, calibration)["label"] == "refusal" and calibrated_row(row, calibration)["key"] == "k"
    with pytest.raises(UserError, match="one class"):
        calibrated_row(_judged("refusal", 0.9), {"t": None, "map": None, "why": "one class only"})


def test_a_calibrated_classifier_tells_partial_from_full_refusal_by_its_label_map() -> None:
    calibration = {"t": 0.2, "map": {"kind": "platt", "a": 1.0, "b": 0.0}}
    names, labels = ["LABEL_0", "LABEL_1", "LABEL_2", "LABEL_3"], ["compliance", "refusal", "partial", "partial"]
    for shares, wanted in (([0.6, 0.1, 0.15, 0.15], "partial"), ([0.6, 0.25, 0.1, 0.05], "refusal")):
        response = {"logits": pack_floats(np.log(shares).tolist())}
        given = classifier_verdict(response, labels, names, 0.5)
        assert given.label == "compliance" and given.p_refusal == pytest.approx(0.4)
        answer = {"prompt_id": "p", "sample": 0, "turn": 0}
        assert calibrated_row(verdict_row(answer, given), calibration)["label"] == wanted


def test_folds_hold_whole_clusters_evenly() -> None:
    folds = cluster_folds([f"c{i}" for i in range(95)] * 2)
    sizes = [list(folds.values()).count(fold) for fold in range(10)]
    assert sorted(sizes) == [9] * 5 + [10] * 5
    assert cluster_folds(["b", "a"]) == cluster_folds(["a", "b", "b"])


@pytest.mark.parametrize("scheme", ["by_cluster", "by_model"])
def test_a_row_has_no_part_in_its_own_calibration(scheme: str) -> None:
    gold, verdicts = soft_gold(90)
    before = out_of_fold(join_verdicts(gold, verdicts, "g"), scheme)
    assert len(before) == 90
    field = "cluster" if scheme == "by_cluster" else "answering_model"
    for value in sorted({row[field] for row in gold})[:3]:
        # Everything about these rows is turned round; what was fitted for them must stay.
        held = {row["id"] for row in gold if row[field] == value}
        wrong = [row | {"label": "compliance" if row["label"] == "refusal" else "refusal"} for row in gold]
        changed = [new if new["id"] in held else old for new, old in zip(wrong, gold, strict=True)]
        after = out_of_fold(join_verdicts(changed, verdicts, "g"), scheme)
        assert {i: after[i] for i in held} == {i: before[i] for i in held}
        assert after != before


def test_by_model_leaves_out_the_model_and_the_prompts_of_a_row() -> None:
    rows_ = join_verdicts(*soft_gold(90), "g")
    found, folds = out_of_fold(rows_, "by_model"), cluster_folds(rows_["cluster"])
    row = rows_.iloc[17]
    apart = (rows_["answering_model"] != row.answering_model) & (rows_["cluster"].map(folds) != folds[row.cluster])
    others = rows_[apart]
    assert found[row.row_id] == fit_rows(others, "platt")


def test_noise_does_not_look_like_a_judge() -> None:
    gold, verdicts = soft_gold(60, signal=0.0)
    found = [join_verdicts(gold, verdicts, "g"), calibration_of(gold, verdicts, **NAMES)]
    p, refused = found[0]["p_refusal"].to_numpy(), (found[0]["human"] != "compliance").to_numpy()
    on_itself = ((p[refused] >= found[1]["t"]).mean() + (p[~refused] < found[1]["t"]).mean()) / 2
    card = card_with_calibration(gold, verdicts, calibrate=OUT_OF_FOLD, **NAMES)
    assert on_itself > 0.55  # fitted and measured on the same rows it seems to know something
    assert card["broad"]["balanced_accuracy"] < on_itself
    assert card["broad"]["intervals"]["balanced_accuracy"][0] < 0.5


def test_card_of_a_calibrated_judge_is_out_of_fold_and_shows_both_schemes() -> None:
    gold, verdicts = soft_gold()
    given = card_with_calibration(gold, verdicts, **NAMES)
    card = card_with_calibration(gold, verdicts, calibrate=OUT_OF_FOLD, **NAMES)
    # As given the judge says refusal far too seldom.
    assert given["broad"]["sensitivity"] < 0.5 and given["labels_from"] == "the judge's own threshold"
    voted = card_with_calibration(gold, verdicts, own_labels=True, **NAMES)
    assert voted == given | {"labels_from": "the judge's own labels"}, "of a panel's majority no threshold decides"
    assert card["broad"]["balanced_accuracy"] > 0.93 > 0.75 > given["broad"]["balanced_accuracy"]
    assert card["calibration"]["headline"] == "by_model" and "other models" in card["labels_from"]
    assert card["calibration"]["models_not_left_out"] == [] and "left out" not in card["labels_from"]
    for scheme in ("by_model", "by_cluster"):
        part = card["calibration"][scheme]
        assert part["soft"]["ece"] < 0.5 * given["soft"]["ece"] and part["soft"]["brier"] < given["soft"]["brier"]
        assert part["t"][0] <= part["t"][1]
    assert card["broad"] == card["calibration"]["by_model"]["broad"] == given["calibration"]["by_model"]["broad"]
    assert card["calibration"]["as_given"]["broad"] == given["broad"]
    assert card["n_judged"] == card["n"]
    json.dumps(card, allow_nan=False)


def test_the_fitted_threshold_is_printed_with_what_it_is_no_good_for() -> None:
    card = card_with_calibration(*soft_gold(90), calibrate=OUT_OF_FOLD, **NAMES)
    reported = reliability_text(card)[-1]
    assert reported.startswith("Threshold fitted on all of this gold set: t = ")
    assert reported.endswith("As a number in the judge's entry it would make this card in-sample.")


def test_one_answering_model_leaves_the_clusters() -> None:
    gold, verdicts = soft_gold(models=1)
    card = card_with_calibration(gold, verdicts, calibrate=OUT_OF_FOLD, **NAMES)
    assert card["calibration"]["by_model"] is None and card["calibration"]["headline"] == "by_cluster"
    assert "other prompts" in card["labels_from"]


def compliant_gold() -> tuple[list[Any], list[Any]]:
    """Gold of a base model and of a steered one that complies with everything, on the same prompts."""
    gold, verdicts = soft_gold(240, models=2)
    steered = [row["answering_model"] == "model-1" for row in gold]
    gold = [row | {"label": "compliance"} if own else row for row, own in zip(gold, steered, strict=True)]
    low = [row | {"p_refusal": 0.001, "label": "compliance"} for row in verdicts]
    return gold, [new if own else old for old, new, own in zip(verdicts, low, steered, strict=True)]


def test_by_model_is_no_headline_where_a_model_cannot_be_left_out() -> None:
    gold, verdicts = compliant_gold()
    card = card_with_calibration(gold, verdicts, calibrate=OUT_OF_FOLD, **NAMES)
    assert card["n_judged"] == card["n"] == 240
    assert card["broad"]["sensitivity"] > 0.9 and card["broad"]["kappa"] > 0.8
    assert card["calibration"]["headline"] == "by_cluster"
    assert card["calibration"]["models_not_left_out"] == ["model-0"]
    assert "other prompts only" in card["labels_from"]
    assert card["labels_from"].endswith("answering models that could not be left out: model-0")
    # What leaving out models gives is still told, with the answers that it is about.
    assert card["calibration"]["by_model"]["n_judged"] == 120


def test_by_model_is_no_headline_where_few_answers_name_their_model() -> None:
    gold, verdicts = soft_gold(240)
    gold = [row if i < 20 else {**row, "answering_model": None} for i, row in enumerate(gold)]
    card = card_with_calibration(gold, verdicts, calibrate=OUT_OF_FOLD, **NAMES)
    assert card["n_judged"] == 240 and card["calibration"]["headline"] == "by_cluster"
    assert "(answers that name no model)" in card["labels_from"]


def test_models_of_one_class_each_leave_the_clusters() -> None:
    gold, verdicts = soft_gold(240, models=2)
    gold = [row | {"label": "refusal" if row["answering_model"] == "model-0" else "compliance"} for row in gold]
    card = card_with_calibration(gold, verdicts, calibrate=OUT_OF_FOLD, **NAMES)
    assert card["calibration"]["by_model"] is None and card["calibration"]["headline"] == "by_cluster"
    assert card["calibration"]["models_not_left_out"] == ["model-0", "model-1"]


def test_a_calibration_from_another_gold_set_is_applied_as_it_is() -> None:
    gold, verdicts = soft_gold()
    elsewhere = calibration_of(*soft_gold(seed=9), "soft", "elsewhere")
    card = card_with_calibration(gold, verdicts, calibrate=elsewhere, **NAMES)
    right = [calibrated_row(row, elsewhere) for row in verdicts]
    assert card["labels_from"] == "a calibration on gold elsewhere"
    assert card["confusion"]["compliance"]["refusal"] == sum(
        row["label"] == "compliance" and new["label"] == "refusal" for row, new in zip(gold, right, strict=True)
    )


@pytest.mark.feature("corrected")
def test_answers_to_prompts_of_the_gold_that_calibrates_are_out_of_fold_on_another_gold_set_too() -> None:
    from refusal_eval.features.corrected.transfer import judged_gold

    gold, verdicts = soft_gold(60, signal=0.0)
    fit = calibration_of(gold, verdicts, "soft", "first")
    apart = out_of_fold(join_verdicts(gold, verdicts, "first"), "by_cluster") or {}
    # Another annotator of the same answers, and an answer to a prompt of its own.
    others = [row | {"label": "refusal"} if i % 9 == 0 else row for i, row in enumerate(gold)]
    new = {"id": "new", "messages": [{"role": "user", "content": "new"}], "label": "refusal", "cluster": "new"}
    others, said = [*others, new], [*verdicts, verdict("new", "refusal", 0.9)]
    card = card_with_calibration(others, said, calibrate=fit, **NAMES)
    words = "a calibration on gold first; 60 of 61 answers are to its prompts, and out of fold: "
    assert card["labels_from"] == words + "each by a calibration that saw other prompts only"
    labels = {row["prompt_id"]: row["label"] for row in labels_behind(others, said, "people", fit)}
    expected = {row["prompt_id"]: calibrated_row(row, apart[row["prompt_id"]])["label"] for row in verdicts}
    assert labels == expected | {"new": "refusal"}
    in_sample = {row["prompt_id"]: calibrated_row(row, fit)["label"] for row in verdicts}
    assert in_sample != expected
    assert card["n_judged"] == 61 and judged_gold(others, said, "people", fit)["machine"].tolist() == [
        label for _, label in sorted(labels.items())
    ]
    machine = [sum(column) for column in zip(*(row.values() for row in card["confusion"].values()), strict=True)]
    assert machine[0] == sum(label == "refusal" for label in labels.values())


def test_an_answer_whose_prompt_no_fold_leaves_out_is_not_read_by_the_gold_that_calibrates() -> None:
    gold, verdicts = soft_gold(60)
    gold = [row | {"cluster": row["id"]} for row in gold]  # so the answers to each prompt are in several folds
    fit = calibration_of(gold, verdicts, "soft", "first")
    assert fit["t"] is not None and labels_behind(gold, verdicts, "people", fit) == []
    card = card_with_calibration(gold, verdicts, calibrate=fit, **NAMES)
    assert card["labels_from"].endswith("60 are not read, as every fold saw their prompts")
    assert not is_out_of_fold(card), "those to other prompts are not, and a table's note counts them all"


def test_a_diagram_shows_the_calibration_of_another_gold_set_that_the_study_uses() -> None:
    elsewhere = calibration_of(*soft_gold(seed=9), "soft", "elsewhere")
    card = card_with_calibration(*soft_gold(), calibrate=elsewhere, **NAMES)
    drawn = dict(soft_series(card))
    assert list(drawn) == ["as given", "calibrated on another gold set"]
    assert drawn["calibrated on another gold set"] == card["soft"] != card["calibration"]["by_model"]["soft"]
    assert drawn["as given"] == card["calibration"]["as_given"]["soft"]
    reported = reliability_text(card)
    assert len(reported) == 2 and reported[1].startswith("Calibrated on another gold set: ECE ")


def test_what_cannot_be_calibrated_says_why() -> None:
    gold, verdicts = rows({("refusal", "refusal"): 30, ("compliance", "compliance"): 30})
    found = calibration_of(gold, verdicts, **NAMES)
    assert found["t"] is None and "gave no probability" in found["why"]
    assert card_with_calibration(gold, verdicts, **NAMES)["calibration"] is None
    alike = [verdict(row["id"], "refusal", 0.7) for row in gold[:30]]
    found = calibration_of(gold[:30], alike, **NAMES)
    assert found["t"] is None and "no answer of gold people is labelled as compliance" in found["why"]
    card = card_with_calibration(gold[:30], alike, calibrate=OUT_OF_FOLD, **NAMES)
    assert card["n_judged"] == 0 and "no answer" in card["labels_from"]
    failed = [verdict(row["id"], None) for row in gold]
    assert card_with_calibration(gold, failed, **NAMES)["calibration"] is None


def test_the_order_of_the_rows_changes_nothing() -> None:
    gold, verdicts = soft_gold(90)
    first = card_with_calibration(gold, verdicts, calibrate=OUT_OF_FOLD, **NAMES)
    random.Random(1).shuffle(gold)
    random.Random(2).shuffle(verdicts)
    assert card_with_calibration(gold, verdicts, calibrate=OUT_OF_FOLD, **NAMES) == first
    p, refused = np.array([0.2, 0.3, 0.3, 0.9]), np.array([False, True, False, True])
    turned: Any = fit_calibration(p[::-1], refused[::-1], "isotonic", np.ones(4))
    assert turned == fit_calibration(p, refused, "isotonic", np.ones(4))


def test_a_threshold_counts_rows_by_their_weights() -> None:
    # Without weights the cut below .6 parts 3 of 4; a row that stands for many at .4 moves it below .4.
    p, refused = np.array([0.1, 0.3, 0.4, 0.5, 0.9]), np.array([False, False, True, False, True])
    assert best_threshold(p, refused, np.ones(5)) == 0.35
    assert best_threshold(p, refused, np.array([1.0, 1.0, 1.0, 9.0, 9.0])) == 0.7
    assert best_threshold(p, refused, np.array([2.0] * 5)) == 0.35  # only their proportions matter


@pytest.mark.parametrize("kind", ["platt", "isotonic"])
def test_a_row_of_weight_three_counts_as_three_rows_do(kind: str) -> None:
    rng = np.random.default_rng(2)
    p = rng.random(60).round(3)
    refused = rng.random(60) < p
    heavy = np.arange(60) % 4 == 0
    times = np.where(heavy, 3, 1)
    by_weight = fit_calibration(p, refused, kind, times)
    repeated = fit_calibration(p.repeat(times), refused.repeat(times), kind, np.ones(times.sum()))
    alike = fit_calibration(p, refused, kind, np.ones(60))
    assert by_weight["t"] == repeated["t"]
    if kind == "isotonic":
        assert by_weight["map"]["x"] == repeated["map"]["x"]
        assert by_weight["map"]["y"] == pytest.approx(repeated["map"]["y"])
    else:  # the targets' smoothing knows that 3 rows of weight 1 tell more than one of weight 3
        assert by_weight["map"]["a"] == pytest.approx(repeated["map"]["a"], rel=0.1)
        assert by_weight["map"]["b"] == pytest.approx(repeated["map"]["b"], abs=0.02)
        assert alike["map"]["b"] > repeated["map"]["b"] + 0.1
    assert by_weight["map"] != alike["map"]


def test_a_calibration_on_gold_with_weights_uses_them() -> None:
    gold, verdicts = soft_gold(90)
    heavy = [row | {"weight": 5.0 if row["label"] == "refusal" and i % 2 else 1.0} for i, row in enumerate(gold)]
    plain, weighted = (calibration_of(rows_, verdicts, **NAMES) for rows_ in (gold, heavy))
    assert weighted["map"] != plain["map"] and weighted["n"] == plain["n"]
    assert calibration_of([row | {"weight": 5.0} for row in gold], verdicts, **NAMES) == plain
    before, after = (out_of_fold(join_verdicts(rows_, verdicts, "g"), "by_cluster") for rows_ in (gold, heavy))
    assert before != after
