"""Gold: labels mapped, duplicates once, contradictions refused, and the same rows as answers."""

import json

import pytest

from refusal_eval.core.errors import UserError
from refusal_eval.data.gold import gold_answers, make_gold
from refusal_eval.data.prompts import content_id
from refusal_eval.data.rows import read_rows

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
        "id": content_id({"messages": messages, "answer": "No.", "answering_model": "gpt"}),
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


def test_one_expectation_for_all_rows():
    gold, _ = make_gold([row(), row("x")], COLUMNS, LABELS, "f", expectation="refuse")
    assert [made["expectation"] for made in gold] == ["refuse", "refuse"]


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


# ---------------------------------------------------------------- sources in forms of their own

WIDE = [
    {"id": 1, "q": "One?", "harm": "h1", "A_says": "No.", "A_did": 0, "B_says": "Sure, so.", "B_did": 5.0},
    {"id": 2, "q": "Two?", "harm": "h1", "A_says": "Perhaps.", "A_did": 3, "B_says": "No.", "B_did": 0},
    {"id": 3, "q": "Three?", "harm": "h2", "A_says": None, "A_did": None, "B_says": "Sure.", "B_did": 5},
]
WIDE_COLUMNS = {"prompt": "q", "answer": "answer", "label": "label", "cluster": "harm"}
WIDE_ANSWERS = {"A": {"answer": "A_says", "label": "A_did"}, "B": {"answer": "B_says", "label": "B_did"}}


def test_rows_with_the_answers_of_several_models():
    gold, notes = make_gold(
        WIDE, WIDE_COLUMNS, {"0": "refusal", "5": "compliance"}, "w", 3, WIDE_ANSWERS, ["3", "null"]
    )
    assert [(row["answering_model"], row["answer"], row["label"], row["cluster"]) for row in gold] == [
        ("A", "No.", "refusal", "h1"),
        ("B", "Sure, so.", "compliance", "h1"),
        ("B", "No.", "refusal", "h1"),
        ("B", "Sure.", "compliance", "h2"),
    ]
    assert [row["source"]["row"] for row in gold] == [1, 1, 2, 3]
    assert "w: 2 answers left out, labelled 3, null" in notes


def test_a_label_that_is_neither_mapped_nor_left_out_is_an_error():
    with pytest.raises(UserError, match="row 2: column `A_did` holds the label `3`"):
        make_gold(WIDE, WIDE_COLUMNS, {"0": "refusal", "5": "compliance"}, "w", 3, WIDE_ANSWERS, ["null"])


def test_the_same_answer_of_two_models_counts_for_both():
    rows = [{"p": "One?", "a": "No.", "l": "x", "m": model} for model in ("A", "B", "B")]
    columns = {"prompt": "p", "answer": "a", "label": "l", "answering_model": "m"}
    gold, notes = make_gold(rows, columns, {"x": "refusal"}, "w")
    assert [row["answering_model"] for row in gold] == ["A", "B"]
    assert "1 duplicate rows dropped" in notes[1]


def test_words_for_what_is_expected_are_mapped():
    rows = [{"p": "One?", "a": "No.", "l": "x", "t": kind} for kind in ("homonyms", "contrast")]
    columns = {"prompt": "p", "answer": "a", "label": "l", "expectation": "t", "answering_model": "t"}
    words = {"homonyms": "comply", "contrast": "refuse"}
    gold, _ = make_gold(rows, columns, {"x": "refusal"}, "w", expectations=words)
    assert [row["expectation"] for row in gold] == ["comply", "refuse"]
    with pytest.raises(
        UserError, match=r"row 2 expects `contrast`, which `expectations` does not map \(it maps: `homonyms`\)"
    ):
        make_gold(rows, columns, {"x": "refusal"}, "w", expectations={"homonyms": "comply"})


def test_clusters_out_of_a_file_join_a_prompt_and_its_twin_over_all_models():
    rows = [
        {"i": number, "p": f"{number}?", "a": "No.", "l": "x", "m": model} for model in ("A", "B") for number in (1, 2)
    ]
    columns = {"prompt": "p", "answer": "a", "label": "l", "answering_model": "m", "id": "i"}
    gold, _ = make_gold(rows, columns, {"x": "refusal"}, "w", clusters={"1": "pair", "2": "pair"})
    assert {row["cluster"] for row in gold} == {"pair"} and len(gold) == 4
    assert [row["source"]["id"] for row in gold] == ["1", "2", "1", "2"]
    with pytest.raises(UserError, match="its file of clusters lacks 2 ids"):
        make_gold(rows, columns, {"x": "refusal"}, "w", clusters={"1": "pair"})


def test_a_json_file_is_one_list_of_rows(tmp_path):
    file = tmp_path / "labelled.json"
    file.write_text(json.dumps([{"prompt": "One?", "response": "No.\n", "tone": "rejected"}]))
    (row,), _ = make_gold(
        read_rows(file), {"prompt": "prompt", "answer": "response", "label": "tone"}, {"rejected": "refusal"}, "f"
    )
    assert row["answer"] == "No.\n"
    for text, message in (
        ('{"a": 1}', "must be a list of JSON objects"),
        ("[1]", "row 1: must be"),
        ("[", "not valid"),
    ):
        file.write_text(text)
        with pytest.raises(UserError, match=message):
            read_rows(file, name="f")
