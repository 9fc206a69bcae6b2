"""Gold: labels mapped, duplicates once, contradictions refused, and the same rows as answers."""

import pytest

from refusal_eval.core.errors import UserError
from refusal_eval.data.gold import gold_answers, make_gold
from refusal_eval.data.prompts import content_id

COLUMNS = {"prompt": "q", "answer": "a", "label": "l", "cluster": None, "answering_model": None, "expectation": None}
LABELS = {"1": "refusal", "0": "compliance", "half": "partial", "true": "refusal"}


def row(q="q", a="a", label="1", **more):
    return {"q": q, "a": a, "l": label, **more}


def made(*rows, columns=COLUMNS, labels=LABELS, **options):
    """Return the gold of rows in a file `f`."""
    return make_gold(rows, columns, labels, "f", **options)[0]


def test_gold_rows():
    rows = [row("Hi", "No.", m="gpt"), row("Hi", "Yes.", 0, m="")]
    gold, notes = make_gold(rows, {**COLUMNS, "answering_model": "m"}, LABELS, "f", expected_rows=2)
    messages = [{"role": "user", "content": "Hi"}]
    identity = content_id({"messages": messages, "answer": "No.", "answering_model": "gpt"})
    first = {"id": identity, "messages": messages, "answer": "No.", "answering_model": "gpt", "label": "refusal"}
    first |= {"cluster": content_id(messages), "expectation": None, "source": {"file": "f", "row": 1, "id": None}}
    assert gold[0] == first
    second = (gold[1]["label"], gold[1]["cluster"], gold[1]["answering_model"])
    assert second == ("compliance", first["cluster"], None)
    assert notes == ["f: 2 rows, 2 different answers"]


def test_what_is_expected_of_a_good_model_may_be_said_once_or_in_a_column_and_mapped():
    assert [one["expectation"] for one in made(row(), row("x"), expectation="refuse")] == ["refuse", "refuse"]
    columns, rows = {**COLUMNS, "expectation": "e"}, [row(e=e, a=e) for e in ("comply", "refuse")]
    assert [one["expectation"] for one in made(*rows, columns=columns)] == ["comply", "refuse"]
    with pytest.raises(UserError, match="expects `good`; it must be one of `refuse`, `comply`, `varies`"):
        made(row(e="good"), columns=columns)
    rows, words = [row(e=e, a=e) for e in ("homonyms", "contrast")], {"homonyms": "comply", "contrast": "refuse"}
    assert [one["expectation"] for one in made(*rows, columns=columns, expectations=words)] == ["comply", "refuse"]
    message = r"row 2 expects `contrast`, which `expectations` does not map \(it maps: `homonyms`\)"
    with pytest.raises(UserError, match=message):
        made(*rows, columns=columns, expectations={"homonyms": "comply"})


def test_the_language_of_a_row_and_a_denied_premise_are_kept():
    rows = [row("Quoi ?", label="half", t="French"), row("What?", t="English")]
    first, second = made(*rows, columns={**COLUMNS, "language": "t"}, denied_premises=["half"])
    assert (first["source"]["kept"], second["source"]["kept"]) == ({"language": "French"}, {"language": "English"})
    assert first["denied_premise"] and "denied_premise" not in second


@pytest.mark.parametrize(
    ("value", "label"), [("1", "refusal"), (1, "refusal"), (1.0, "refusal"), ("half", "partial"), (True, "refusal")]
)
def test_labels_of_any_type_are_mapped_by_their_text(value, label):
    assert made(row(label=value))[0]["label"] == label


@pytest.mark.parametrize("value", ["2", "", None, "Half", 0.5])
def test_unknown_labels_are_reported_with_what_is_allowed(value):
    with pytest.raises(UserError, match=r"f, row 2: column `l` holds the label `.*it maps: `0`, `1`, `half`, `true`"):
        made(row(), row("other", label=value))


def test_duplicates_once_and_contradictions_refused():
    gold, notes = make_gold([row(), row("x"), row()], COLUMNS, LABELS, "f")
    assert len(gold) == 2
    assert notes[1] == "f: 1 duplicate rows dropped, the first of each kept: row 3 = row 1"
    message = "f, row 3: the same prompt and answer as in row 1, but labelled compliance here and refusal"
    with pytest.raises(UserError, match=message):
        made(row(), row("x"), row(label="0"))
    with pytest.raises(UserError, match="but labelled partial here and refusal"):
        make_gold([row(), row(label="half")], COLUMNS, LABELS, "f", kinds={"1": "one", "half": "one"})


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (row(a=None), "f, row 1: column `a` holds null; an answer must be a string"),
        (row(q=""), "f, row 1: column `q` is empty"),
        ({"q": "q", "aa": "a", "l": "1"}, "f: has no column `a`; did you mean"),
        (row(a="\ud800"), r"f, row 1: column `a`: holds \\ud800 alone"),
    ],
)
def test_bad_rows_are_reported(bad, message):
    with pytest.raises(UserError, match=message):
        made(bad)


def test_gold_as_answers():
    gold = made(row("a", "No."), row("b", " "), row("c", "\u200b"))
    answers = gold_answers(gold)
    assert [(a["prompt_id"], a["sample"], a["turn"], a["state"], a["answer"], a["key"]) for a in answers] == [
        (gold[0]["id"], 0, 0, "complete", "No.", None),
        (gold[1]["id"], 0, 0, "empty", " ", None),
        (gold[2]["id"], 0, 0, "empty", "\u200b", None),
    ]


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
    with pytest.raises(UserError, match="row 2: column `A_did` holds the label `3`"):
        make_gold(WIDE, WIDE_COLUMNS, {"0": "refusal", "5": "compliance"}, "w", 3, WIDE_ANSWERS, ["null"])


def test_the_same_answer_of_two_models_counts_for_both():
    rows = [row(m=model) for model in ("A", "B", "B")]
    gold, notes = make_gold(rows, {**COLUMNS, "answering_model": "m"}, LABELS, "w")
    assert [one["answering_model"] for one in gold] == ["A", "B"]
    assert "1 duplicate rows dropped" in notes[1]


def test_clusters_out_of_a_file_join_a_prompt_and_its_twin_over_all_models():
    rows = [row(f"{number}?", i=number, m=model) for model in ("A", "B") for number in (1, 2)]
    columns = {**COLUMNS, "answering_model": "m", "id": "i"}
    gold = made(*rows, columns=columns, clusters={"1": "pair", "2": "pair"})
    assert {one["cluster"] for one in gold} == {"pair"} and len(gold) == 4
    assert [one["source"]["id"] for one in gold] == ["1", "2", "1", "2"]
    with pytest.raises(UserError, match="its file of clusters lacks 2 ids"):
        made(*rows, columns=columns, clusters={"1": "pair"})


def test_equal_answers_with_two_labels_can_be_left_out_and_the_log_says_how_many():
    rows = [row(), row(label="0"), row("Other?"), row()]
    with pytest.raises(UserError, match="labelled"):
        made(*rows)
    gold, notes = make_gold(rows, COLUMNS, LABELS, "f", two_labels="left_out")
    assert [one["messages"][-1]["content"] for one in gold] == ["Other?"]
    assert "f: 1 answers left out, which the source labels in two ways" in notes
