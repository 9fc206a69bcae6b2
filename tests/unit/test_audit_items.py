"""What can be labelled: answers that somebody can read, equal ones once, dialogues with what went before."""

from audit_rows import REFUSAL, answer_row, verdict_row

from refusal_eval.tools.audit.audit_sample import Text, add_cell, item_id, labels_by_key, readable

PROMPT = {"id": "p", "messages": [{"role": "user", "content": "Hi"}], "cluster": "c"}


def test_only_answers_with_a_text_that_enter_a_rate():
    states = ("complete", "truncated", "blocked", "empty", "failed", "too_long", "truncated_reasoning")
    answers = [answer_row("p", k, "x", state=state) for k, state in enumerate(states)]
    found = list(readable([PROMPT], answers, "all"))
    assert [key for key, _, _ in found] == [("p", 0, 0), ("p", 1, 0)]
    assert found[0][1:] == (Text(PROMPT["messages"], "x"), "c")


def test_equal_answers_of_all_models_and_samples_are_one_text():
    items = {}
    answers = [answer_row("p", k, REFUSAL) for k in range(3)]
    labels = [labels_by_key(verdict_row(a, "refusal") for a in answers)]
    for model in ("a", "b"):
        add_cell(items, (model, "s"), readable([PROMPT], answers, "all"), labels)
    ((name, item),) = items.items()
    assert name == item_id(Text(PROMPT["messages"], REFUSAL))
    assert [(m.model, m.sample) for m in item.members] == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("b", 2)]
    assert item.stratum == "refusal"


def test_a_text_that_judges_label_differently_from_time_to_time_is_in_dispute():
    items = {}
    answers = [answer_row("p", k, REFUSAL) for k in range(2)]
    labels = [labels_by_key([verdict_row(answers[0], "refusal"), verdict_row(answers[1], "compliance")])]
    add_cell(items, ("a", "s"), readable([PROMPT], answers, "all"), labels)
    assert [item.stratum for item in items.values()] == ["disagree"]


def test_an_answer_that_no_judge_could_label_can_be_drawn_too():
    items = {}
    answers = [answer_row("p", 0, "x")]
    add_cell(items, ("a", "s"), readable([PROMPT], answers, "all"), [labels_by_key([verdict_row(answers[0], None)])])
    assert [item.stratum for item in items.values()] == ["unjudged"]


def test_a_turn_of_a_dialogue_is_shown_with_what_went_before_and_only_scored_turns_count():
    script = [{"role": "user", "content": "One"}, {"role": "user", "content": "Two"}]
    prompt = {"id": "d", "messages": script, "dialogue": True, "cluster": "d"}
    answers = [answer_row("d", 0, "first", 0), answer_row("d", 0, "second", 1)]
    ((key, text, _),) = readable([prompt], answers, "last")
    assert key == ("d", 0, 1)
    assert text.messages == [script[0], {"role": "assistant", "content": "first"}, script[1]]
    assert text.answer == "second"
    assert len(list(readable([prompt], answers, "all"))) == 2
