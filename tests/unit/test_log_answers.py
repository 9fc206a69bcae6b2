"""Rows of a file of answers become answers and verdicts of a cell: states, reasoning, samples, labels."""

import pytest

from refusal_eval.core.errors import UserError
from refusal_eval.core.states import NOBODY
from refusal_eval.data.prompts import content_id
from refusal_eval.recorded.log_answers import cell_answers, cell_verdicts, rows_of_model

MARKS = {"start": "<think>", "end": "</think>"}


def prompt_of(text):
    messages = [{"role": "user", "content": text}]
    return {"id": content_id(messages), "messages": messages}


def cell(*rows, prompts=("Hi",), samples=None, marks=None):
    given = [{"prompt": "Hi", "answer": "Hello"} | row for row in rows]
    return cell_answers(given, list(map(prompt_of, prompts)), samples or len(rows), marks, "a.jsonl")


def only(**row):
    [answer] = cell(row).answers
    return answer


@pytest.mark.parametrize(
    ("row", "state", "text"),
    [
        ({}, "complete", "Hello"),
        ({"finish_reason": "stop"}, "complete", "Hello"),
        ({"finish_reason": "MAX_TOKENS"}, "truncated", "Hello"),
        ({"finish_reason": "length", "answer": ""}, "truncated_reasoning", ""),
        ({"finish_reason": "length", "answer": " ", "reasoning": "Hm"}, "truncated_reasoning", " "),
        ({"finish_reason": "content_filter", "answer": ""}, "blocked", ""),
        ({"finish_reason": "refusal"}, "blocked", ""),
        ({"finish_reason": "odd"}, "complete", "Hello"),
        ({"answer": ""}, "empty", ""),
        ({"state": "complete", "answer": ""}, "empty", ""),
        ({"state": "failed", "answer": ""}, "failed", ""),
        ({"state": "too_long", "answer": ""}, "too_long", ""),
        ({"state": "truncated", "finish_reason": "stop"}, "truncated", "Hello"),
    ],
)
def test_the_state_follows_from_state_block_and_finish_reason(row, state, text):
    answer = only(**row)
    assert (answer["state"], answer["answer"]) == (state, text)


def test_what_a_block_says_is_kept_and_its_text_is_not_judged():
    answer = only(answer="Sure, fir", blocked={"by": "filter", "category": "cyber"})
    assert answer["answer"] == "" and answer["state"] == "blocked"
    assert answer["blocked"] == NOBODY | {"by": "filter", "category": "cyber", "partial": "Sure, fir"}


def test_reasoning_is_apart_as_the_row_has_it_or_by_the_marks_of_the_model():
    rows = [
        {"answer": "Yes.", "reasoning": "Hm."},
        {"answer": "<think>Hm.</think>Yes."},
        {"answer": "<think>Hm, and then"},
        {"answer": "<think>Hm.</think>", "finish_reason": "length"},
    ]
    answers = cell(*rows, marks=MARKS).answers
    assert [(row["state"], row["answer"], row["reasoning"]) for row in answers] == [
        ("complete", "Yes.", "Hm."),
        ("complete", "Yes.", "Hm."),
        ("truncated_reasoning", "", "<think>Hm, and then"),
        ("truncated_reasoning", "", "Hm."),
    ]


def test_samples_keep_their_numbers_or_are_counted():
    assert [row["answer"] for row in cell({"answer": "a"}, {"answer": "b"}).answers] == ["a", "b"]
    numbered = cell({"sample": 1, "answer": "b"}, {"sample": 0, "answer": "a"}).answers
    assert [row["answer"] for row in numbered] == ["a", "b"]
    from_one = cell({"sample": 1, "answer": "a"}, {"sample": 2, "answer": "b"}).answers
    assert [row["answer"] for row in from_one] == ["a", "b"]


def test_missing_answers_are_failed_and_the_log_says_how_many():
    found = cell({}, {}, prompts=("Hi", "Ho"), samples=3)
    assert [row["state"] for row in found.answers] == ["complete", "complete", *["failed"] * 4]
    assert "1 of 2 prompts of the split are not in the file: their answers are failed" in found.notes
    assert any(note.startswith("prompts with fewer answers in the file than `samples`: 1") for note in found.notes)
    assert cell({"finish_reason": "odd"}).notes == [
        "1 answers end as `odd`, which is not known here: they count as complete"
    ]


def test_prompts_match_by_their_messages_whatever_white_space_is_around_them():
    assert [row["state"] for row in cell({"prompt": " Hi\n"}).answers] == ["complete"]
    with pytest.raises(UserError, match="none of its prompts is one of the 1 of this split"):
        cell({"prompt": "Hi!"})
    system = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]
    with pytest.raises(UserError, match="none of its prompts"):  # another question than without it
        cell_answers([{"messages": system, "answer": "x"}], [prompt_of("Hi")], 1, None, "a.jsonl")


def test_answers_that_cannot_be_told_apart_are_mistakes():
    source = {"source": {"file": "a.jsonl", "line": 2}}
    with pytest.raises(UserError, match=r"a\.jsonl, line 2: answer 0 to its prompt is in a\.jsonl, a row too"):
        cell({"sample": 0}, {"sample": 0} | source)
    with pytest.raises(UserError, match="2 answers to a prompt; `samples` of the study is 1"):
        cell({}, {}, samples=1)
    rows = [{"model": "a"}, {"model": "b"}]
    with pytest.raises(UserError, match=r"several models \(`a`, `b`\); name one"):
        rows_of_model(rows, None, "a.jsonl")
    with pytest.raises(UserError, match="has no answers of `c`; it has `a`, `b`"):
        rows_of_model(rows, "c", "a.jsonl")
    assert rows_of_model(rows, "b", "a.jsonl") == [{"model": "b"}]


def test_of_a_prompt_under_two_names_the_first_counts():
    assert cell({"prompt_id": "p1"}, {"prompt_id": "p2", "answer": "x"}, samples=1).answers[0]["answer"] == "Hello"


def test_labels_are_verdicts_of_whom_they_are_by():
    rows = [
        {
            "prompt": "Hi",
            "answer": "No.",
            "labels": [{"by": "a", "label": "refusal", "probability": 0.9, "reason": "r"}],
        },
        {"prompt": "Hi", "answer": "Yes.", "labels": [{"by": "b", "label": "compliance"}]},
        {"prompt": "Hi", "answer": "", "state": "failed", "labels": [{"by": "a", "label": "refusal"}]},
    ]
    prompts = [prompt_of("Hi")]
    answers = cell_answers(rows, prompts, 3, None, "a.jsonl").answers
    found = cell_verdicts(rows, prompts, answers, "a", "a.jsonl")
    assert [(row["sample"], row["state"], row["label"]) for row in found] == [
        (0, "judged", "refusal"),
        (1, "unparsable", None),
    ]
    assert found[0]["raw"] == {"probability": 0.9, "reason": "r"} and "no label" in found[1]["raw"]["error"]
