"""From a response to an answer: segments, states, mean log-probabilities."""

import pytest

from refusal_eval.ask.answers import AnswerReader, answer_of, answer_of_text
from refusal_eval.ask.reasoning import ReasoningMarks, marks_in_text
from refusal_eval.ask.requests import Request
from refusal_eval.core.packing import pack_floats, unpack_floats

OPEN, CLOSED = [1, 100], [1]  # prompts that do and do not open the reasoning


def decode(ids):
    return " ".join(f"t{i}" for i in ids)


THINK = ReasoningMarks((101, 102), (100,), decode)


def response(ids, finish="stop", stop=2, logprobs=None, text="text"):
    values = logprobs or [-0.5] * len(ids)
    ended = {"finish_reason": finish, "stop_reason": stop}
    return {"text": text, "token_ids": ids, "logprobs": pack_floats(values), **ended}


def test_log_probabilities_are_kept_to_the_last_bit():
    values = [-0.1, -17.25, -1e-7]
    assert pack_floats(unpack_floats(pack_floats(values)).tolist()) == pack_floats(values)


def test_a_plain_answer_is_the_engines_text_and_its_stop_token_has_no_weight():
    row = answer_of(response([5, 6, 2], logprobs=[-1.0, -2.0, -30.0]), CLOSED, None, decode)
    assert (row["state"], row["answer"], row["reasoning"]) == ("complete", "text", None)
    assert row["answer_tokens"] == 2
    assert row["answer_logprob"] == pytest.approx(-1.5)  # (-1 - 2) / 2


def test_an_answer_that_ends_by_length_is_truncated_and_all_its_tokens_count():
    row = answer_of(response([5, 6], finish="length", stop=None, logprobs=[-1.0, -3.0]), CLOSED, None, decode)
    assert (row["state"], row["answer_tokens"], row["answer_logprob"]) == ("truncated", 2, pytest.approx(-2.0))


def test_only_what_follows_the_end_mark_is_the_answer():
    row = answer_of(response([7, 101, 102, 8, 9, 2], logprobs=[-9, -9, -9, -1.0, -2.0, -9]), OPEN, THINK, decode)
    assert row["answer"] == "t8 t9"
    assert row["reasoning"] == "t7 t101 t102"
    assert (row["answer_tokens"], row["reasoning_tokens"]) == (2, 3)
    assert row["answer_logprob"] == pytest.approx(-1.5)
    assert row["reasoning_logprob"] == pytest.approx(-9)


def test_reasoning_that_never_ends_is_never_an_answer():
    cut = answer_of(response([7, 8], finish="length", stop=None), OPEN, THINK, decode)
    assert (cut["state"], cut["answer"], cut["answer_logprob"]) == ("truncated_reasoning", "", None)
    assert answer_of(response([7, 2]), OPEN, THINK, decode)["state"] == "empty"
    marked = answer_of(response([100, 8], finish="length", stop=None), CLOSED, THINK, decode)
    assert marked["state"] == "truncated_reasoning"


def test_a_response_without_marks_from_a_model_that_may_reason_is_all_answer():
    row = answer_of(response([7, 8, 2]), CLOSED, THINK, decode)
    assert (row["state"], row["answer"], row["reasoning"]) == ("complete", "text", None)


def test_nothing_behind_the_reasoning_is_no_answer():
    ended = answer_of(response([7, 101, 102, 2]), OPEN, THINK, lambda ids: "")
    assert ended["state"] == "empty"
    cut = answer_of(response([7, 101, 102], "length", None), OPEN, THINK, lambda ids: "")
    assert cut["state"] == "truncated_reasoning"


def test_white_space_is_empty_and_a_filter_blocks():
    assert answer_of(response([5, 2], text=" \n"), CLOSED, None, decode)["state"] == "empty"
    assert answer_of(response([], finish="content_filter"), CLOSED, None, decode)["state"] == "blocked"


UNSEEN = [
    *(
        "\u200b",
        "\ufeff\n",
        "\u2060 \u200d",
        "\xad",
        "\u034f",
        "\u200e\u202c",
        "\ufe0f",
        "\U000e0100",
        "\u180e",
        "\U000e0041",
    ),
    *("\u2800", "\u3164", "\uffa0\u115f", "\u3000\xa0", "\x00\x1b", "\U0001d159"),
]


@pytest.mark.parametrize("text", UNSEEN, ids=ascii)
def test_an_answer_of_which_nothing_is_visible_is_empty(text):
    assert answer_of(response([5, 2], text=text), CLOSED, None, decode)["state"] == "empty"
    ended = answer_of(response([7, 101, 102, 2]), OPEN, THINK, lambda ids: text)
    assert ended["state"] == "empty"
    for seen in (f"{text}No.{text}", f"{text}\u2764\ufe0f", "."):
        assert answer_of(response([5, 2], text=seen), CLOSED, None, decode)["state"] == "complete"


def test_a_stop_string_does_not_show_in_an_answer_behind_reasoning():
    row = answer_of(response([101, 102, 8, 9], stop="t9"), OPEN, THINK, decode)
    assert row["answer"] == "t8 "
    assert row["answer_tokens"] == 2


def test_an_engine_that_tells_texts_only_has_answers_without_counts_and_weights():
    reported = {
        "text": "<t>why</t> Yes.",
        "token_ids": [],
        "logprobs": None,
        "finish_reason": "stop",
        "stop_reason": None,
    }
    row = answer_of_text(reported, marks_in_text({"start": "<t>", "end": "</t>"}))
    assert (row["state"], row["answer"], row["reasoning"]) == ("complete", " Yes.", "<t>why</t>")
    assert row["answer_tokens"] is row["answer_logprob"] is row["reasoning_tokens"] is None
    cut = answer_of_text({**reported, "text": "<t>why", "finish_reason": "length"}, marks_in_text({"end": "</t>"}))
    assert cut["state"] == "truncated_reasoning"
    assert answer_of_text({**reported, "text": ""}, None)["state"] == "empty"
    hidden = answer_of_text({**reported, "text": "", "finish_reason": "length"}, None)
    assert hidden["state"] == "truncated_reasoning"  # at the limit, in a reasoning that the provider hides
    assert answer_of_text({**reported, "finish_reason": "content_filter"}, None)["state"] == "blocked"


def test_of_an_engine_that_names_no_stop_token_the_last_token_counts():
    row = answer_of(response([5], stop=None, logprobs=[-0.5]), CLOSED, None, decode)
    assert (row["answer_tokens"], row["answer_logprob"]) == (1, pytest.approx(-0.5))


@pytest.mark.parametrize("logprobs", [None, pack_floats([-0.5] * 3)])
def test_marks_are_found_in_the_text_of_an_engine_without_a_tokenizer_here(logprobs):
    reader = AnswerReader(None, {"start": "<s>", "end": "</s>"}, trust_remote_code=False)
    told = response([1, 2, 3], stop=None, text="<s>why</s>No.") | {"logprobs": logprobs}
    row = reader.fields(Request("p", 0, 0, "key", 1, [{"role": "user", "content": "?"}]), told)
    assert (row["answer"], row["reasoning"], row["answer_logprob"]) == ("No.", "<s>why</s>", None)
