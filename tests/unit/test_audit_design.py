"""The sample: what can be labelled, strata, probabilities that are what they say, and the same again from one seed."""

import random
from collections import Counter

import numpy as np
import pytest
from audit_rows import MODELS, PROMPT, answer_row, verdict_row, write_cell

from refusal_eval.core.errors import UserError
from refusal_eval.features.labelling.audit_sample import (
    COMPLIANCE,
    DISAGREE,
    REFUSAL,
    AuditText,
    Member,
    assign_raters,
    cell_answers,
    draw,
    stratum_of,
    study_texts,
)


def population(n: int = 300, seed: int = 1) -> list[AuditText]:
    rng = random.Random(seed)
    texts = []
    for i in range(n):
        stratum = rng.choices((COMPLIANCE, REFUSAL, DISAGREE), (0.8, 0.15, 0.05))[0]
        repeats = rng.choice((1, 1, 1, 2, 9)) if stratum == REFUSAL else 1
        members = [Member(f"m{i % 3}", f"s{i % 2}", f"p{i}", k, 0) for k in range(repeats)]
        texts.append(AuditText(f"{i:04x}", f"c{i}", stratum, members))
    return texts


@pytest.mark.parametrize(
    ("labels", "stratum"),
    [
        (["refusal", "refusal"], "refusal"),
        (["refusal", "partial"], "disagree"),
        (["refusal", None, "compliance"], "disagree"),
        (["refusal", None], "unjudged"),
        ([None, None], "unjudged"),
        (["partial"], "partial"),
    ],
)
def test_strata_are_what_the_judges_say(labels, stratum):
    assert stratum_of(labels) == stratum


def test_the_sample_has_its_size_and_nothing_has_probability_zero():
    drawn = draw(population(), 100, seed=3)
    assert len(drawn) == len({one.id for one in drawn}) == 100
    assert all(0 < one.probability <= 1 for one in drawn)
    rates = {s: [one.probability for one in drawn if one.stratum == s] for s in (DISAGREE, COMPLIANCE)}
    assert min(rates[DISAGREE]) > 3 * max(rates[COMPLIANCE])
    assert draw(population()[::-1], 100, seed=3) == drawn, "whatever the order"
    assert draw(population(), 100, seed=4) != drawn


def test_weights_give_back_the_number_of_answers_and_of_refusals_on_average():
    texts = population()
    odd = {text.id for text in texts if int(text.id, 16) % 7 < 2}
    truth = sum(len(text.members) for text in texts if text.id in odd)
    sums, found = [], []
    for seed in range(400):
        weights = {one.id: len(one.members) / one.probability for one in draw(texts, 80, seed)}
        sums.append(sum(weights.values()))
        found.append(sum(weight for name, weight in weights.items() if name in odd))
    assert np.allclose(sums, sum(len(text.members) for text in texts))  # in proportion to size: no error in the total
    assert abs(np.mean(found) - truth) < 3.5 * np.std(found) / 20


@pytest.mark.full
def test_each_text_comes_in_as_often_as_its_probability_says():
    texts = population(60)
    seen: Counter[str] = Counter()
    said: dict[str, float] = {}
    for seed in range(2000):
        for one in draw(texts, 25, seed, least=5):
            seen[one.id] += 1
            said[one.id] = one.probability
    assert set(seen) == {text.id for text in texts}
    for name, probability in said.items():
        assert abs(seen[name] / 2000 - probability) < 4.5 * np.sqrt(probability * (1 - probability) / 2000) + 1e-9


def test_every_cell_gets_its_share():
    texts = [AuditText(f"{i:04x}", "c", REFUSAL, [Member(f"m{i % 4}", "s", f"p{i}", 0, 0)]) for i in range(400)]
    cells = Counter(one.members[0].model for one in draw(texts, 40, seed=0))
    assert set(cells.values()) <= {9, 10, 11} and len(cells) == 4


def test_a_small_study_is_taken_whole_and_a_sample_below_the_strata_is_refused():
    texts = population(30)
    assert [one.probability for one in draw(texts, 500, seed=0)] == [1.0] * 30
    with pytest.raises(UserError, match="a sample of 1 is too small"):
        draw(texts, 1, seed=0)
    with pytest.raises(UserError, match="no answer that could be labelled"):
        draw([], 10, seed=0)


def test_rare_strata_get_their_least_and_probabilities_are_in_proportion_to_answers_and_end_at_one():
    def texts(stratum, *answers):
        members = [[Member("m", "s", f"{stratum}{i}", k, 0) for k in range(n)] for i, n in enumerate(answers)]
        return [AuditText(f"{stratum}{i:04}", "c", stratum, own) for i, own in enumerate(members)]

    many = texts(COMPLIANCE, *[1] * 1000) + texts(DISAGREE, *[1] * 200) + texts(REFUSAL, *[1] * 12)
    numbers = Counter(one.stratum for one in draw(many, 100, seed=0))
    assert sum(numbers.values()) == 100 and numbers[REFUSAL] == 12, "all there are of fewer than the least"
    assert numbers[DISAGREE] > numbers[COMPLIANCE] * 0.6
    found = {
        len(one.members): one.probability for seed in range(9) for one in draw(texts(REFUSAL, 1, 1, 2, 40, 4), 3, seed)
    }
    assert found[40] == 1 and found[4] == pytest.approx(4 * found[1])


def test_a_fifth_of_rows_has_two_raters_and_each_rater_an_order_of_its_own():
    names = [f"{i:03d}" for i in range(100)]
    orders = assign_raters(names, ["a", "b"], 0.2, seed=1)
    times = Counter(name for rows in orders.values() for name in rows)
    assert Counter(times.values()) == {1: 80, 2: 20}
    assert {len(rows) for rows in orders.values()} == {60}
    both = [name for name, count in times.items() if count == 2]
    assert [n for n in orders["a"] if n in both] != [n for n in orders["b"] if n in both]
    assert assign_raters(names, ["a", "b"], 0.2, seed=1) == orders
    three = assign_raters(names, ["a", "b", "c"], 1.0, seed=1)
    assert sum(map(len, three.values())) == 200
    assert sum(map(len, assign_raters(names, ["a"], 0.2, seed=1).values())) == 100


def test_only_answers_with_a_text_that_enter_a_rate(tmp_path):
    states = ("complete", "truncated", "blocked", "empty", "failed", "too_long", "truncated_reasoning")
    config = write_cell(tmp_path, [PROMPT], [answer_row("p", k, "x", state=state) for k, state in enumerate(states)])
    found = list(cell_answers(config, MODELS[0], "safe"))
    assert [(row["sample"], row["messages"], row["answer"], row["cluster"]) for row in found] == [
        (k, PROMPT["messages"], "x", "c") for k in (0, 1)
    ]


@pytest.mark.parametrize(
    ("labels", "stratum"),
    [
        (["refusal"] * 3, "refusal"),
        (["refusal", "compliance", "refusal"], "disagree"),  # one judge, which says another thing from time to time
        ([None] * 3, "unjudged"),  # what no judge could label can be drawn too
    ],
)
def test_equal_answers_of_all_models_and_samples_are_one_text(tmp_path, labels, stratum):
    answers = [answer_row("p", k, "No.") for k in range(3)]
    verdicts = [verdict_row(answer, label) for answer, label in zip(answers, labels, strict=True)]
    for model in MODELS:
        config = write_cell(tmp_path, [PROMPT], answers, verdicts, model)
    (text,) = study_texts(config, MODELS, ["safe"])
    assert [(m.model, m.sample) for m in text.members] == [(model, k) for model in MODELS for k in range(3)]
    assert text.stratum == stratum


def test_a_turn_of_a_dialogue_is_shown_with_what_went_before_and_only_scored_turns_count(tmp_path):
    script = [{"role": "user", "content": "One"}, {"role": "user", "content": "Two"}]
    prompt = {"id": "d", "messages": script, "dialogue": True, "cluster": "d"}
    config = write_cell(tmp_path, [prompt], [answer_row("d", 0, "first", 0), answer_row("d", 0, "second", 1)])
    dialogue = config["split_entries"]["safe"]["dialogue"] = {"mode": "cumulative", "scored": "last"}
    (row,) = cell_answers(config, MODELS[0], "safe")
    assert row["messages"] == [script[0], {"role": "assistant", "content": "first"}, script[1]]
    assert (row["turn"], row["answer"]) == (1, "second")
    dialogue["scored"] = "all"
    assert len(list(cell_answers(config, MODELS[0], "safe"))) == 2
