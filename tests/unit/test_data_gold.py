"""Gold: labels mapped, duplicates once, contradictions refused, and the same rows as answers."""

import pytest

from refusal_eval.data.gold import gold_answers, make_gold
from refusal_eval.data.prompts import content_id
from refusal_eval.errors import UserError

COLUMNS = {"prompt": "q", "answer": "a", "label": "l", "cluster": None, "answering_model": None, "expectation": None}
LABELS = {"1": "refusal", "0": "compliance", "half": "partial", "true": "refusal"}


def row(q="q", a="a", label="1", **more):
    return {"q": q, "a": a, "l": label, **more}


def test_gold_rows():
    columns = {**COLUMNS, "answering_model": "m"}
    gold, notes = make_gold(
        [row("Hi", "No.", m="gpt"), row("Hi", "Yes.", 0, m="")], columns, LABELS, "f", expected_rows=2
    )
    messages = [{"role": "user", "content": "Hi"}]
    assert gold[0] == {
        "id": content_id({"messages": messages, "answer": "No."}),
        "messages": messages,
        "answer": "No.",
        "label": "refusal",
        "cluster": content_id(messages),
        "answering_model": "gpt",
        "expectation": None,
        "source": {"file": "f", "row": 1, "id": None},
    }
    assert (gold[1]["label"], gold[1]["cluster"], gold[1]["answering_model"]) == (
        "compliance",
        gold[0]["cluster"],
        None,
    )
    assert notes == ["f: 2 rows, 2 different answers"]


@pytest.mark.parametrize(
    ("value", "label"), [("1", "refusal"), (1, "refusal"), (1.0, "refusal"), ("half", "partial"), (True, "refusal")]
)
def test_labels_of_any_type_are_mapped_by_their_text(value, label):
    assert make_gold([row(label=value)], COLUMNS, LABELS, "f")[0][0]["label"] == label


@pytest.mark.parametrize("value", ["2", "", None, "Half", 0.5])
def test_unknown_labels_are_told_with_what_is_allowed(value):
    with pytest.raises(UserError, match=r"f, row 2: column `l` holds the label `.*it maps: `0`, `1`, `half`, `true`"):
        make_gold([row(), row("other", label=value)], COLUMNS, LABELS, "f")


def test_duplicates_once_and_contradictions_refused():
    gold, notes = make_gold([row(), row("x"), row()], COLUMNS, LABELS, "f")
    assert len(gold) == 2
    assert notes[1] == "f: 1 duplicate rows dropped, the first of each kept: row 3 = row 1"
    with pytest.raises(
        UserError, match="f, row 3: the same prompt and answer as in row 1, but labelled compliance here and refusal"
    ):
        make_gold([row(), row("x"), row(label="0")], COLUMNS, LABELS, "f")


def test_bad_rows_are_told():
    with pytest.raises(UserError, match="f, row 1: column `a` holds null; an answer must be a string"):
        make_gold([row(a=None)], COLUMNS, LABELS, "f")
    with pytest.raises(UserError, match="f, row 1: column `q` is empty"):
        make_gold([row(q="")], COLUMNS, LABELS, "f")
    with pytest.raises(UserError, match="f: has no column `a`; did you mean"):
        make_gold([{"q": "q", "aa": "a", "l": "1"}], COLUMNS, LABELS, "f")
    with pytest.raises(UserError, match=r"f, row 1: column `a`: holds \\ud800 alone"):
        make_gold([row(a="\ud800")], COLUMNS, LABELS, "f")


def test_gold_as_answers():
    gold, _ = make_gold([row("a", "No."), row("b", " ")], COLUMNS, LABELS, "f")
    answers = gold_answers(gold)
    assert [(a["prompt_id"], a["sample"], a["turn"], a["state"], a["answer"], a["key"]) for a in answers] == [
        (gold[0]["id"], 0, 0, "complete", "No.", None),
        (gold[1]["id"], 0, 0, "empty", " ", None),
    ]


def test_gold_may_say_what_a_good_model_does():
    rows = [{"q": "Hi", "a": "Hello", "l": "no", "e": "comply"}]
    columns, labels = {**COLUMNS, "expectation": "e"}, {"no": "compliance"}
    assert make_gold(rows, columns, labels, "g")[0][0]["expectation"] == "comply"
    with pytest.raises(UserError, match="expects `good`; it must be one of `refuse`, `comply`, `varies`"):
        make_gold([{**rows[0], "e": "good"}], columns, labels, "g")
