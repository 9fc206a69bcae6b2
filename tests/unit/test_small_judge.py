"""The benchmark of a small language model as judge: what it asks, and its tables from made-up verdicts."""

import math

import pytest
import small_judge as sj

from refusal_eval.config.kinds import JUDGES
from refusal_eval.core.rubric import Rubric, rubric_mistake

MODELS, PROMPTS = ("one", "two", "three"), 80


def gold():
    """Return gold rows: of every prompt each model refuses one half, another half each."""
    for number in range(PROMPTS):
        for place, model in enumerate(MODELS):
            label = "compliance" if (number // 2 + place) % 2 else "partial" if number % 8 == 0 else "refusal"
            prompt = f"prompt {number}"
            about = {"cluster": prompt, "answering_model": model, "messages": [{"role": "user", "content": prompt}]}
            yield {"id": f"{number}-{model}", "label": label, "answer": f"{label} by {model} to {number}"} | about


GOLD = list(gold())


def judged(p_of):
    """Return verdicts with these probabilities."""
    place = {"sample": 0, "turn": 0, "state": "judged", "flags": [], "kind": None, "raw": {}}
    said = {row["id"]: p_of(row) for row in GOLD}
    label = {True: "refusal", False: "compliance"}
    return {key: place | {"prompt_id": key, "p_refusal": p, "label": label[p >= 0.5]} for key, p in said.items()}


def right(row):
    return 0.9 if row["label"] != "compliance" else 0.1


@pytest.mark.parametrize("variant", sj.VARIANTS, ids=lambda variant: variant.name)
def test_each_variant_is_an_entry_with_a_rubric_that_no_answer_can_leave(variant, tmp_path):
    path = tmp_path / "rubric.md"
    path.write_text(variant.rubric())
    assert rubric_mistake(path) is None
    JUDGES.entry({"kind": "llm", "engine": "e", "rubric": "r.md", "labels": variant.labels, "mass_floor": 0})
    text = Rubric(path).text(GOLD[0]["messages"], "I won't.")
    assert text.count("Example request") == variant.examples
    assert all(sign in text.rsplit("\n", 1)[-1] for sign in variant.labels.values())


def test_turned_labels_say_the_opposite():
    for plain, turned in zip(sj.PLAIN, sj.TURNED, strict=True):
        assert plain.labels["refusal"] == turned.labels["compliance"] and plain.labels != turned.labels


def test_the_subset_has_whole_prompts_of_every_kind_and_is_fixed():
    sets = sj.gold_sets(GOLD, 60)
    assert len(sets["shown"]) == len(sets["hidden"]) == 60 and len(sets["all"]) == len(GOLD)
    assert {row["id"] for row in sets["shown"]} == {row["id"] for row in sj.gold_sets(GOLD[::-1], 60)["shown"]}
    assert len({row["prompt"] for row in sets["shown"]}) == 20
    assert {row["label"] for row in sets["shown"]} == {"refusal", "partial", "compliance"}
    assert {row["prompt"] for row in sets["hidden"]} == {sj.NOT_SHOWN}
    assert len({row["model"] for row in sets["hidden"]}) == 60, "no two answers become one row"
    assert len(sets["blank"]) == 20 * len(sj.BLANKS)


def test_blank_answers_take_a_prompts_own_prior_off():
    shifts = {row["id"]: 3.0 * (int(row["cluster"].split()[1]) % 3 - 1) for row in GOLD}

    def shifted(row):
        p = right(row)
        return 1 / (1 + math.exp(-(math.log(p / (1 - p)) + shifts[row["id"]])))

    said = judged(shifted)
    blank = {
        f"{text} {row['cluster']}": {"p_refusal": 1 / (1 + math.exp(-shifts[row["id"]]))}
        for row in GOLD
        for text in sj.BLANKS
    }
    found = sj.less_blank(GOLD, said, blank)
    assert [found[row["id"]]["p_refusal"] for row in GOLD] == pytest.approx([right(row) for row in GOLD], abs=1e-6)


def test_a_cascade_asks_where_the_first_is_unsure_and_costs_its_share():
    half = sj.Measured(judged(lambda row: 0.5 if row["answering_model"] == "one" else right(row)), 10, 0.1)
    cascade, share = sj.cascaded(half, sj.Measured(judged(right), 300, 6.0), (0.2, 0.8))
    assert share == pytest.approx(1 / 3)
    assert (cascade.tokens, cascade.seconds) == (pytest.approx(110), pytest.approx(2.1))
    assert {key: row["p_refusal"] for key, row in cascade.verdicts.items()} == {r["id"]: right(r) for r in GOLD}


def test_tables_tell_a_perfect_judge_from_one_that_knows_nothing():
    perfect, same = sj.Measured(judged(right), 300, 6.0), sj.Measured(judged(lambda row: 0.7))
    judges = {"letters": perfect, "learned": sj.Measured(judged(right), 10, 0.1), "same": same}
    lines = {line.split(" | ")[0]: line for line in sj.tables(GOLD, judges)[::-1]}
    assert "| 1.000 (1.000 to 1.000) | 1.000 |" in lines["| letters"] and lines["| letters"].endswith("| 300 | 6.00 |")
    assert "| 0.000 (0.000 to 0.000) | 0.000 |" in lines["| same"] and lines["| same"].endswith("| - | - |")
