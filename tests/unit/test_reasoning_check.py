"""A wrong end mark is noticed before GPU hours are spent, and never becomes a table of zeros."""

import pytest

from refusal_eval.ask.answers import answer_of
from refusal_eval.ask.reasoning import Marks
from refusal_eval.ask.reasoning_check import ENOUGH, ReasoningCheck, refuse_judged_reasoning, refuse_no_answers
from refusal_eval.ask.requests import Request
from refusal_eval.core.errors import UserError
from refusal_eval.core.packing import pack_floats

OPEN, PLAIN = [1, 100], [1]
MARKS = Marks((101,), (100,), str)
THOUGHT = "why\n</think>\n\nYes."


class Reader:
    """Reads answers with marks, as `AnswerReader` does with a tokenizer's; None for an entry without `reasoning`."""

    def __init__(self, marks=MARKS):
        self.marks, self.reasons = marks, marks is not None

    def fields(self, request, response):
        return answer_of(response, request.token_ids, self.marks, lambda ids: "".join(f"{i} " for i in ids))


def asked(prompt=OPEN, cell="thinker/split", name="id"):
    return cell, Request(name, 0, 0, "k" * 64, 1, prompt)


def response(*ids, finish="stop", text="text"):
    ids = [*ids, 2] if finish == "stop" else list(ids)
    row = {"text": text, "token_ids": ids, "finish_reason": finish, "stop_reason": 2 if finish == "stop" else None}
    return row | {"logprobs": pack_floats([-1.0] * len(ids))}


@pytest.fixture
def check():
    return ReasoningCheck({"thinker": Reader()})


def test_one_answer_behind_the_mark_is_enough(check):
    check.look(*asked(), response(7, 101, 8))
    for _ in range(2 * ENOUGH):
        check.look(*asked(), response(7, 8))


def test_cut_off_responses_and_other_models_say_nothing(check):
    for _ in range(2 * ENOUGH):
        check.look(*asked(), response(7, 8, finish="length"))
        check.look(*asked(cell="other/split"), response(7, 8))


def test_a_model_that_never_reasons_is_reported_and_goes_on(check, caplog):
    for _ in range(2 * ENOUGH):
        check.look(*asked(PLAIN), response(7, 8))
    assert caplog.text.count("count as answers") == 1


@pytest.mark.parametrize(
    ("marks", "given"),
    [
        (MARKS, response(7, 8)),
        # `reasoning: {end: "</thinking>"}` on a model that writes `</think>`: no answer, and no table.
        (Marks((999,), None, str), response(7, 101, 8)),
        (Marks("</thinking>", None, lambda ids: "so"), response(7, 101, 8)),
    ],
)
def test_responses_that_end_without_the_mark_end_the_load(marks, given):
    check, reader = ReasoningCheck({"thinker": Reader(marks)}), Reader(marks)
    for _ in range(ENOUGH - 1):
        check.look(*asked(), given)
    with pytest.raises(UserError, match=r"none of 4 responses of `thinker` has an answer .*except later turns of "):
        check.look(*asked(), given)
    rows = [reader.fields(asked()[1], given) for _ in range(3)]
    with pytest.raises(UserError, match="none of 3 responses of `thinker` has an answer"):
        refuse_no_answers("thinker", rows)


def test_the_mark_of_another_family_in_every_answer_is_an_error():
    """Both marks are wrong: nothing opens the reasoning, and all of it would be judged."""
    check, reader = ReasoningCheck({"thinker": Reader()}), Reader()
    wrong = response(7, 8, text=THOUGHT)
    with pytest.raises(
        UserError, match=r"4 of 4 responses of `thinker` have `</think>` in what counts .*except later turns of"
    ):
        for _ in range(ENOUGH):
            check.look(*asked(PLAIN), wrong)
    row = reader.fields(asked(PLAIN)[1], wrong)
    plain = reader.fields(asked(PLAIN)[1], response(7, 8))
    cut = reader.fields(asked(PLAIN)[1], response(7, finish="length"))
    with pytest.raises(UserError, match="2 of 2 responses of `thinker` have `</think>`"):
        refuse_no_answers("thinker", [row, row, cut])
    refuse_no_answers("thinker", [row, plain])
    refuse_no_answers("thinker", [cut])


def test_a_cell_without_any_answer_is_an_error():
    reader = Reader()
    rows = [reader.fields(asked()[1], response(7, 8)), reader.fields(asked()[1], response(7, finish="length"))]
    with pytest.raises(UserError, match=r"none of 2 responses of `thinker`.*1 of them were cut off"):
        refuse_no_answers("thinker", rows)
    refuse_no_answers("thinker", [*rows, reader.fields(asked()[1], response(7, 101, 8))])
    refuse_no_answers("thinker", [])


def test_a_cell_that_was_cut_off_in_its_reasoning_is_a_result(caplog):
    """Its marks may be right: then no other entry would give it an answer, and the study could not go on."""
    reader = Reader()
    cut = [reader.fields(asked()[1], response(7, ids, finish="length")) for ids in (8, 101)]
    assert {answer["state"] for answer in cut} == {"truncated_reasoning"}
    refuse_no_answers("thinker", cut)
    assert "none of 2 responses of `thinker` has an answer" in caplog.text
    assert "2 of them were cut off: is `max_tokens` enough?" in caplog.text


# ---------------------------------------------------------------- an entry without `reasoning`


def whole(*texts):
    """Return the answers of a model without `reasoning` that writes these texts."""
    fields = (Reader(None).fields(asked(PLAIN)[1], response(7, 8, text=text)) for text in texts)
    return [{"prompt_id": str(number), **answer} for number, answer in enumerate(fields)]


@pytest.mark.parametrize(
    ("text", "write"),
    [
        (THOUGHT, "Write `end: '</think>'` there"),
        ("analysisHm.assistantfinalYes.", "Write `format: harmony` there"),
    ],
)
def test_a_model_that_reasons_needs_reasoning_in_its_entry(text, write):
    """Otherwise its reasoning would be judged as its answer."""
    check = ReasoningCheck({"thinker": Reader(None)})
    for number in range(ENOUGH - 1):
        check.look(*asked(name=str(number)), response(7, 8, text=text))
    with pytest.raises(UserError, match=rf"4 of 4 responses of `thinker` have .* or there is none\. {write}"):
        check.look(*asked(name="last"), response(7, 8, text=text))
    with pytest.raises(UserError, match=rf"15 of 20 responses of `thinker` have .*{write}"):
        refuse_judged_reasoning("thinker", whole(*[text] * 15, *["Yes."] * 5))


def test_answers_about_an_end_mark_are_no_reasoning(caplog):
    check = ReasoningCheck({"plain": Reader(None)})
    about = response(7, 8, text="`</think>` closes `<think>`.")
    for _ in range(2 * ENOUGH):  # the samples of one prompt
        check.look(*asked(cell="plain/split", name="about"), about)
    for number in range(2 * ENOUGH):
        check.look(*asked(cell="plain/split", name=str(number)), response(7, 8))
    refuse_judged_reasoning("plain", whole(THOUGHT, THOUGHT, THOUGHT))
    refuse_judged_reasoning("plain", [answer | {"prompt_id": "about"} for answer in whole(*[THOUGHT] * 9)])
    refuse_judged_reasoning("plain", whole(*[THOUGHT] * 14, *["Yes."] * 6))
    assert "14 of 20 answers of `plain`, judged whole, hold `</think>`" in caplog.text
    caplog.clear()
    refuse_judged_reasoning("plain", whole(*["Yes."] * 9))
    refuse_judged_reasoning("plain", [])
    assert not caplog.text
