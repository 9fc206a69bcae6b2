"""Rates corrected by labels on a study's own answers."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import scipy
from estimate_rows import units_in
from rate_rows import units_of

from refusal_eval.core.errors import UserError
from refusal_eval.features.corrected.peoples_labels import (
    AnswerKey,
    LabelledCell,
    join_labels,
    judge_labels,
    read_labels,
    readable_answers,
    unread_answers,
)
from refusal_eval.features.corrected.ppi import (
    JudgedAnswers,
    LabelledAnswers,
    corrected_difference,
    corrected_rate,
    wilson,
)
from refusal_eval.stats.estimates.intervals import wilson_ends


def simulated(
    rng: np.random.Generator,
    rate: float = 0.3,
    se: float = 0.9,
    sp: float = 0.9,
    labels: int = 200,
    favour: float = 1.0,
) -> tuple[JudgedAnswers, LabelledAnswers, float]:
    """A study of 300 prompts x 4, labels more often where the judge says refusal; and the true rate of its answers."""
    truth = rng.random((300, 4)) < rate
    judge = truth == (rng.random(truth.shape) < np.where(truth, se, sp))
    size = np.where(judge, favour, 1.0)
    probability = np.minimum(1.0, labels * size / size.sum())
    rows, columns = np.nonzero(rng.random(truth.shape) < probability)
    zeros = np.zeros(300, dtype=np.intp)
    answers = JudgedAnswers(judge.mean(axis=1), np.full(300, 4.0), np.zeros(300), np.arange(300), zeros)
    said = [part[rows, columns].astype(float) for part in (truth, judge)]
    return answers, LabelledAnswers(rows, said[0], said[1], probability[rows, columns]), float(truth.mean())


def test_a_perfect_judge_keeps_its_rate_and_is_used_whole() -> None:
    answers, labels, truth = simulated(np.random.default_rng(1), se=1.0, sp=1.0)
    found = corrected_rate(answers, labels, 0.95)
    assert found.observed == pytest.approx(truth)
    assert found.value == pytest.approx(truth, abs=0.005) and found.weight > 0.9 and found.low < truth < found.high


def test_with_every_answer_labelled_the_rate_is_that_of_the_labels() -> None:
    rng = np.random.default_rng(2)
    answers, labels, truth = simulated(rng, se=0.6, sp=0.7, labels=10_000)
    assert len(labels.rows) == 1200
    found = corrected_rate(answers, labels, 0.95)
    assert found.value == pytest.approx(truth)


def test_a_biased_judge_is_put_right_on_average_whatever_is_oversampled() -> None:
    rng = np.random.default_rng(3)
    gaps, raw = [], []
    for _ in range(150):
        answers, labels, truth = simulated(rng, rate=0.2, se=0.7, sp=0.85, favour=5.0)
        found = corrected_rate(answers, labels, 0.95)
        gaps.append(found.value - truth)
        raw.append(found.observed - truth)
    assert abs(np.mean(raw)) > 0.05
    assert abs(np.mean(gaps)) < 0.008


def test_ignoring_the_probabilities_would_be_wrong() -> None:
    rng = np.random.default_rng(4)
    gaps = []
    for _ in range(60):
        answers, labels, truth = simulated(rng, rate=0.2, se=0.7, sp=0.85, favour=8.0)
        same = LabelledAnswers(labels.rows, labels.people, np.zeros(len(labels.rows)), np.full(len(labels.rows), 0.2))
        found = corrected_rate(answers, same, 0.95)
        gaps.append(found.value - truth)
    assert np.mean(gaps) > 0.1


def test_a_useless_judge_is_not_used_and_a_good_one_makes_the_interval_narrower() -> None:
    rng = np.random.default_rng(5)
    widths, weights = {}, {}
    for name, (se, sp) in {"good": (0.97, 0.97), "useless": (0.5, 0.5)}.items():
        found = [corrected_rate(*simulated(rng, se=se, sp=sp)[:2], 0.95) for _ in range(20)]
        widths[name] = np.mean([f.high - f.low for f in found if f is not None])
        weights[name] = np.mean([f.weight for f in found if f is not None])
    assert weights["useless"] < 0.15 < 0.8 < weights["good"]
    assert widths["good"] < 0.7 * widths["useless"]


@pytest.mark.parametrize(("rate", "favour"), [pytest.param(0.1, 1.0, marks=pytest.mark.full), (0.3, 4.0), (0.9, 2.0)])
def test_intervals_cover(rate: float, favour: float) -> None:
    rng, inside, runs = np.random.default_rng(6), 0, 400
    for _ in range(runs):
        found = corrected_rate(*simulated(rng, rate, 0.85, 0.92, 120, favour)[:2], 0.95)
        inside += found.low <= rate <= found.high
    assert 0.92 < inside / runs < 0.985


def test_labels_of_few_answers_give_no_rate() -> None:
    answers, labels, _ = simulated(np.random.default_rng(7))
    few = LabelledAnswers(labels.rows[:19], labels.people[:19], labels.judge[:19], labels.probability[:19])
    assert corrected_rate(answers, few, 0.95) is corrected_rate(*copied(answers, few, 10), 0.95) is None
    same = LabelledAnswers(np.zeros(30, dtype=np.intp), np.ones(30), np.ones(30), np.ones(30))
    assert corrected_rate(answers, same, 0.95) is None


def copied(
    answers: JudgedAnswers, labels: LabelledAnswers, copies: int, read_once: bool = True
) -> tuple[JudgedAnswers, LabelledAnswers]:
    """The same study where each answer stands so many times, and was read once."""
    rows, *rest = (np.repeat(part, copies) for part in (labels.rows, labels.people, labels.judge, labels.probability))
    texts = np.repeat(np.arange(len(labels.rows)), copies) if read_once else None
    return dataclasses.replace(answers, counting=answers.counting * copies), LabelledAnswers(rows, *rest, texts=texts)


@pytest.mark.parametrize(("rate", "number"), [(0.3, 200), (0.9, 40), (0.03, 60)])
def test_equal_answers_that_people_read_once_are_one_label(rate: float, number: int) -> None:
    answers, labels, _ = simulated(np.random.default_rng(11), rate, 0.85, 0.95, number)
    once = dataclasses.asdict(corrected_rate(answers, labels, 0.95))
    found = corrected_rate(*copied(answers, labels, 10), 0.95)
    assert dataclasses.asdict(found) == pytest.approx(once, abs=1e-12) and found.n_labels == len(labels.rows)
    apart = corrected_rate(*copied(answers, labels, 10, read_once=False), 0.95)
    assert apart.n_labels == 10 * found.n_labels and apart.high - apart.low < found.high - found.low


def test_equal_answers_that_people_read_once_are_one_label_of_a_difference() -> None:
    pair = two_models(np.random.default_rng(13), (0.6, 0.4), (0.95, 0.7), 60)
    once = dataclasses.asdict(corrected_difference(*pair, 0.95))
    found = corrected_difference(*(copied(*side, 10) for side in pair), 0.95)
    assert dataclasses.asdict(found) == pytest.approx(once, abs=1e-12)
    four = [
        (side, LabelledAnswers(*(part[:4] for part in vars(own).values() if part is not None))) for side, own in pair
    ]
    assert corrected_difference(pair[0], copied(*four[1], 10), 0.95) is None


def test_labels_of_one_cluster_count_less_than_as_many_of_their_own() -> None:
    rng = np.random.default_rng(8)
    answers, labels, _ = simulated(rng, rate=0.5)
    clustered = JudgedAnswers(answers.rates, answers.counting, answers.blocked, answers.clusters // 30, answers.splits)
    alone, together = corrected_rate(answers, labels, 0.95), corrected_rate(clustered, labels, 0.95)
    assert together.n_label_clusters == 10 and together.df <= 9 < alone.df


def test_without_errors_among_the_labels_the_interval_still_allows_some() -> None:
    answers, labels, truth = simulated(np.random.default_rng(9), rate=0.02, se=1.0, sp=1.0, labels=60)
    found = corrected_rate(answers, labels, 0.95)
    assert found.high > truth + 0.01
    nothing = JudgedAnswers(np.zeros(300), answers.counting, answers.blocked, answers.clusters, answers.splits)
    zeros = np.zeros(len(labels.rows))
    empty = corrected_rate(nothing, LabelledAnswers(labels.rows, zeros, zeros, labels.probability), 0.95)
    assert empty.value == 0.0 == empty.low and 0.01 < empty.high < 0.2


def test_wilson_is_that_of_a_proportion() -> None:
    low, high = wilson(0.2, 0.2 * 0.8 / 50, 1e9, 0.95)
    assert (low, high) == (pytest.approx(0.1124, abs=1e-4), pytest.approx(0.3304, abs=1e-4))


def row(prompt: str = "p000", sample: int = 0, label: str = "refusal", **changed: Any) -> dict[str, Any]:
    names = {"model": "m", "split": "s", "prompt_id": prompt, "sample": sample, "turn": 0, "label": label}
    return names | {"probability": 0.5, "raters": 1} | changed


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"probability": 0}, "row 2.*probability"),
        ({"probability": 1.2}, "row 2.*probability"),
        ({"probability": None}, "row 2: has no `probability`"),
        ({"label": "maybe"}, "row 2.*maybe"),
        ({"sample": 0}, "row 2.*two labels"),
    ],
)
def test_mistakes_in_labels_are_named(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_labels([row(), row(sample=1) | changed], "labels.jsonl", [("m", "s")])


def test_labels_of_a_split_or_model_that_was_taken_out_are_counted_and_the_others_read() -> None:
    rows = [row(), row(split="gone"), row(sample=1), row(model="out"), row("p001", split="gone")]
    cells, _, elsewhere = read_labels(rows, "labels.jsonl", [("m", "s")])
    assert {key.sample for key in cells["m", "s"]} == {0, 1} and set(cells) == {("m", "s")}
    assert elsewhere == {("m", "gone"): 2, ("out", "s"): 1}
    assert all(label.probability == 0.5 for label in cells["m", "s"].values())


def test_a_file_without_any_label_of_the_study_is_refused() -> None:
    with pytest.raises(
        UserError, match=r"none of its 2 labels is of a model and split of this study.*model m on split x"
    ):
        read_labels([row(split="x"), row("p001", split="x")], "labels.jsonl", [("m", "s")])


def test_an_answer_that_the_judge_could_not_read_keeps_its_label_and_counts_as_no_refusal_of_the_judges() -> None:
    cell = read_labels([row(), row(sample=1), row("p001", label="partial")], "l", [("m", "s")])[0]["m", "s"]
    verdicts = [
        {"prompt_id": "p000", "sample": 0, "turn": 0, "state": "judged", "label": "compliance"},
        {"prompt_id": "p000", "sample": 1, "turn": 0, "state": "unparsable", "label": None},
        {"prompt_id": "p001", "sample": 0, "turn": 0, "state": "judged", "label": "refusal"},
        {"prompt_id": "p001", "sample": 1, "turn": 0, "state": "judged", "label": "refusal"},
    ]
    prompts = [{"id": name, "category": None, "cluster": name} for name in ("p000", "p001")]
    place = {"turn": 0, "state": "complete", "answer_logprob": -1.0}
    answers = [{"prompt_id": prompt["id"], "sample": k} | place for prompt in prompts for k in (0, 1)]
    said = judge_labels(units_in(prompts, answers, verdicts, 2), cell)
    assert said == {AnswerKey("p000", 0, 0): "compliance", AnswerKey("p001", 0, 0): "refusal"}
    units = units_of([0, 2], unjudged=[1, 0])
    for reading, people in (("broad", [1.0, 1.0, 1.0]), ("strict", [1.0, 1.0, 0.0])):
        unread = unread_answers(units, {("p000", 0): 2, ("p001", 0): 2})
        assert unread == {("p000", 0): 1}
        found = join_labels([(units, LabelledCell(cell, said, unread=unread))], [reading])
        assert found[1].people.tolist() == people and found[1].judge.tolist() == [0.0, 0.0, 1.0]
        assert found[1].rows.tolist() == [0, 0, 1] and found[0].counting.tolist() == [2.0, 2.0]
        assert found[0].rates.tolist() == [0.0, 1.0]


def test_labels_with_the_same_text_are_one_and_those_without_are_their_own() -> None:
    rows = [row(text="a"), row(sample=1, text="a"), row("p001", text="b"), row("p001", sample=1)]
    cell = read_labels(rows, "l", [("m", "s")])[0]["m", "s"]
    said = dict.fromkeys(cell, "refusal")
    _, labels = join_labels([(units_of([2, 2]), LabelledCell(cell, said))], ["strict"])
    assert labels.texts.tolist() == [0, 0, 1, 2] and labels.count() == 3
    _, of_two = join_labels(
        [(units_of([2, 2], prefix=name), LabelledCell(cell, said)) for name in "pp"], ["strict"] * 2
    )
    assert of_two.count() == 4  # equal answers in two splits are one text, too


def test_a_label_of_an_answer_that_has_no_text_is_in_no_rate() -> None:
    cell = read_labels([row(), row(sample=1), row("p001")], "l", [("m", "s")])[0]["m", "s"]
    answers = [
        {"prompt_id": "p000", "sample": 0, "turn": 0, "state": "complete", "answer": "No."},
        {"prompt_id": "p000", "sample": 1, "turn": 0, "state": "failed", "answer": ""},
        {"prompt_id": "p001", "sample": 0, "turn": 0, "state": "blocked", "answer": ""},
    ]
    number, labelled, changed = readable_answers(answers, cell)
    assert number == {("p000", 0): 1} and list(labelled) == [AnswerKey("p000", 0, 0)] and changed == 0
    units = units_of([0, 0], unjudged=[2, 0], blocked=[0, 2])
    own = LabelledCell(labelled, {}, unread=unread_answers(units, number))
    answers_and_labels = join_labels([(units, own)], ["strict"])
    of_people, labels = answers_and_labels
    assert of_people.counting.tolist() == [1.0, 2.0] and of_people.rates.tolist() == [0.0, 1.0]
    assert labels.rows.tolist() == [0]


def test_blocked_answers_are_refusals_that_need_no_label() -> None:
    answers, labels, _ = simulated(np.random.default_rng(10), rate=0.2)
    blocked = np.zeros(300)
    blocked[:150] = 4.0
    shown = labels.rows >= 150
    kept = LabelledAnswers(labels.rows[shown], labels.people[shown], labels.judge[shown], labels.probability[shown])
    rates = np.where(blocked > 0, 1.0, answers.rates)
    found = corrected_rate(
        JudgedAnswers(rates, answers.counting, blocked, answers.clusters, answers.splits), kept, 0.95
    )
    assert found.value == pytest.approx(0.5 + 0.5 * 0.2, abs=0.04)


def two_models(
    rng: np.random.Generator, rates: tuple[float, float], sensitivities: tuple[float, float], labels: int = 200
) -> list[tuple[JudgedAnswers, LabelledAnswers]]:
    """Two models on the same 300 prompts; the judge misses more of one's refusals than of the other's."""
    pair = []
    for rate, se in zip(rates, sensitivities, strict=True):
        answers, own, _ = simulated(rng, rate=rate, se=se, sp=0.97, labels=labels)
        pair.append((dataclasses.replace(answers, names=range(300)), own))
    return pair


def test_equal_models_of_which_the_judge_misses_unequally_are_found_alike() -> None:
    rng = np.random.default_rng(5)
    corrected, uncorrected = [], []
    for _ in range(200):
        first, second = two_models(rng, (0.5, 0.5), (0.95, 0.7))
        corrected.append(corrected_difference(first, second, 0.95).p < 0.05)
        gaps = first[0].rates - second[0].rates
        uncorrected.append(abs(gaps.mean()) > 1.96 * gaps.std() / 300**0.5)
    assert np.mean(uncorrected) > 0.9
    assert np.mean(corrected) <= 0.09  # .05 and two standard errors and a half


def test_a_corrected_difference_is_that_of_the_corrected_rates_and_its_interval_holds_the_true_one() -> None:
    rng = np.random.default_rng(6)
    held = []
    for _ in range(200):
        first, second = two_models(rng, (0.6, 0.4), (0.95, 0.7))
        found = corrected_difference(first, second, 0.95)
        rates = [corrected_rate(*side, 0.95).value for side in (first, second)]
        assert found.value == pytest.approx(rates[0] - rates[1])
        assert (found.p < 0.05) == (not found.low <= 0 <= found.high)
        held.append(found.low <= 0.2 <= found.high)
    assert np.mean(held) >= 0.91


def test_clusters_that_both_models_answered_are_paired() -> None:
    rng = np.random.default_rng(7)
    first, _ = two_models(rng, (0.5, 0.5), (0.9, 0.9))
    apart = (dataclasses.replace(first[0], names=range(300, 600)), first[1])
    same, other = (corrected_difference(first, side, 0.95) for side in (first, apart))
    assert same.value == other.value == 0 and same.p == other.p == 1
    assert same.high < 0.3 * other.high  # a model against itself: only the half errors that nobody saw are left
    assert (same.n_clusters, other.n_clusters) == (300, 600)
    few = LabelledAnswers(*(part[:10] for part in vars(first[1]).values() if part is not None))
    assert corrected_difference(first, (first[0], few), 0.95) is None


def unequal(
    rng: np.random.Generator, rate: float, sizes: list[int], labels: int
) -> tuple[JudgedAnswers, LabelledAnswers]:
    """A study of clusters of these sizes with beta-distributed rates (correlation .3), K = 5, labels drawn alike."""
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    size = 1 / 0.3 - 1
    chances = rng.beta(rate * size, (1 - rate) * size, size=len(sizes))[clusters]
    truth = rng.random((len(clusters), 5)) < chances[:, None]
    judge = truth == (rng.random(truth.shape) < np.where(truth, 0.85, 0.95))
    rows, columns = np.nonzero(rng.random(truth.shape) < labels / truth.size)
    zeros = np.zeros(len(clusters), dtype=np.intp)
    answers = JudgedAnswers(
        judge.mean(axis=1), np.full(len(clusters), 5.0), zeros.astype(float), clusters, zeros, names=range(len(sizes))
    )
    people, said = (part[rows, columns].astype(float) for part in (truth, judge))
    return answers, LabelledAnswers(rows, people, said, np.full(len(rows), labels / truth.size))


@pytest.mark.parametrize("rate", [0.2, 0.5])
def test_intervals_cover_with_clusters_of_unequal_size(rate: float) -> None:
    rng, held = np.random.default_rng(12), []
    for _ in range(200):
        found = corrected_rate(*unequal(rng, rate, [100] * 2 + [1] * 98, 300), 0.95)
        held.append(found.low <= rate <= found.high)
    assert np.mean(held) >= 0.92


def test_equal_models_with_clusters_of_unequal_size_are_found_alike() -> None:
    rng, alarms = np.random.default_rng(13), []
    for _ in range(200):
        pair = [unequal(rng, 0.2, [100] * 2 + [1] * 98, 300) for _ in range(2)]
        alarms.append(corrected_difference(*pair, 0.95).p < 0.05)
    assert np.mean(alarms) <= 0.07


def test_a_difference_with_few_labels_of_a_class_reaches_as_far_as_that_of_the_labels_alone() -> None:
    rng = np.random.default_rng(14)
    for _ in range(100):
        pair, alone = [], []
        for sp in (0.98, 0.85):
            answers, own, _ = simulated(rng, rate=0.1, se=0.95, sp=sp, labels=40)
            pair.append((dataclasses.replace(answers, names=range(300)), own))
            # Wilson's interval of the labels, of as many clusters as they are worth
            numbers, n, p = np.bincount(own.rows), len(own.rows), own.people.mean()
            worth = n**2 / (numbers**2).sum()
            alone.append((p, *wilson_ends(p, worth, scipy.stats.t.ppf(0.975, worth - 1))))
        found = corrected_difference(*pair, 0.95)
        assert (found.p < 0.05) == (not found.low <= 0 <= found.high)
        turned = corrected_difference(*pair[::-1], 0.95)
        assert (turned.p, turned.low) == (pytest.approx(found.p), pytest.approx(-found.high))
        if all(min(own.people.sum(), (1 - own.people).sum()) < 10 for _, own in pair):
            (p, low, high), (q, least, most) = alone
            assert found.low <= p - q - np.hypot(p - low, most - q) + 1e-9
            assert found.high >= p - q + np.hypot(high - p, q - least) - 1e-9
    apart = [simulated(np.random.default_rng(15), rate=rate, se=1, sp=1, labels=60)[:2] for rate in (0.05, 0.6)]
    pair = [(dataclasses.replace(answers, names=range(300)), own) for answers, own in apart]
    found = corrected_difference(*pair, 0.95)
    assert found.p < 0.001 and found.high < 0, "labels alone show so large a difference"


def test_a_model_whose_labels_are_all_refusals_has_a_difference_from_any_other() -> None:
    rng = np.random.default_rng(16)
    for _ in range(40):
        made = [simulated(rng, rate=rate, se=0.8, sp=0.9, labels=45, favour=3.0)[:2] for rate in (1.0, 0.8)]
        pair = [(dataclasses.replace(answers, names=range(300)), own) for answers, own in made]
        found = corrected_difference(*pair, 0.95)
        assert 0 < found.p <= 1 and (found.p < 0.05) == (not found.low <= 0 <= found.high)
