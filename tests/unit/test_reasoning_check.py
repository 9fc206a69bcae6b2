"""A wrong end mark is noticed before GPU hours are spent, and never becomes a table of zeros."""

import pytest

from refusal_eval.ask.answers import answer_of
from refusal_eval.ask.reasoning import ReasoningMarks
from refusal_eval.ask.reasoning_check import ENOUGH, ReasoningCheck, refuse_judged_reasoning, refuse_no_answers
from refusal_eval.ask.requests import Request
from refusal_eval.core.errors import UserError
from refusal_eval.core.packing import pack_floats

OPEN, PLAIN = [1, 100], [1]
MARKS = ReasoningMarks((101,), (100,), str)
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
        (ReasoningMarks((999,), None, str), response(7, 101, 8)),
        (ReasoningMarks("</thinking>", None, lambda ids: "so"), response(7, 101, 8)),
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


FAMILIES = {
    "granite": "Here is my thought process:\n{}\n\nHere is my response:\n",
    "granite_bold": "**Here's my thought process:**\n{}\n\n**Here's my response:**\n",
    "apriel": "Here are my reasoning steps:\n{}\n[BEGIN FINAL RESPONSE]\n",
    "kimi_vl": "◁think▷{}◁/think▷",
    "seed_oss": "<seed:think>{}</seed:think>",
    "gemma": "<|channel>thought\n{}<channel|>",
    "medgemma": "<unused94>thought\n{}<unused95>",
    "upper_case": "<THINK>{}</THINK>\n",
    "magistral": "[THINK]{}[/THINK]",
    "command_a": "<|START_THINKING|>{}<|END_THINKING|>",
    "scratchpad": "<scratchpad>\n{}\n</scratchpad>\n",
    "analysis": "<analysis>{}</analysis>",
    "reasoning": "<reasoning>{}</reasoning>",
    "thought": "<thought>{}</thought>",
    "harmony": "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>",
    "harmony_bare": "analysis{}assistantfinal",
    "blanks": "< think >{}< / think >",
    "entities": "&lt;think&gt;{}&lt;/think&gt;",
    "wide_slash": "<think>{}<\uff0fthink>",
    "backslash": "<reasoning>{}<\\reasoning>",
    "ollama": "Thinking...\n{}\n...done thinking.\n\n",
    "dropped_token": "thought\n{}\n</thought>",
    "label": "**Thinking:** {}\n[BEGIN FINAL ANSWER]\n",
    "heading": "## Thoughts\n{}\n[BEGIN ANSWER]\n",
    # of no family that we know
    "named_after_thought": "<inner_monologue>{}</inner_monologue>",
    "square": "[internal_thoughts]{}[/internal_thoughts]",
    "wide_bars": "<\uff5cbegin\u2581of\u2581thought\uff5c>{}<\uff5cend\u2581of\u2581thought\uff5c>",
    "other_name": "<plan>{}</plan>\n",
    "special_tokens": "<|inner|>{}<|outer|>",
    "other_brackets": "⟨hidden⟩{}⟨/hidden⟩",
}
WORDS = ("garlic", "trees", "balloons", "exams", "leftovers", "portraits")
THINKING = [f"The user asks me about {word}. I should be careful here, and think." for word in WORDS]


@pytest.mark.parametrize("part", ["whole", "end", "start"])
@pytest.mark.parametrize("family", FAMILIES)
def test_marks_of_any_family_need_reasoning_in_the_entry(family, part):
    """Their start alone, as of reasoning that was cut off, and their end alone, as where the template opens it, too."""
    start, end = FAMILIES[family].split("{}")
    texts = {
        "whole": [f"{start}{thought}{end}I'm sorry, but I can't." for thought in THINKING],
        "end": [f"{thought}{end}I'm sorry, but I can't." for thought in THINKING],
        "start": [start + thought for thought in THINKING],
    }[part]
    mark = {"whole": f"{start}|{end}", "end": end, "start": start}[part]
    with pytest.raises(UserError, match=r"6 of 6 responses of `m` have `(.+)` in what counts as the answer") as raised:
        refuse_judged_reasoning("m", whole(*texts))
    assert str(raised.value).partition("have `")[2].partition("`")[0].strip(":") in mark


def test_reasoning_that_is_never_closed_is_noticed_while_answers_come():
    check = ReasoningCheck({"thinker": Reader(None)})
    cut = response(7, 8, finish="length", text="<think>\nHm, the user")
    with pytest.raises(UserError, match="Write `start: '<think>'` there, with `end: '</think>'`"):
        for number in range(ENOUGH):
            check.look(*asked(name=str(number)), cut)


def test_half_of_the_answers_that_begin_with_a_mark_are_enough():
    with pytest.raises(UserError, match="5 of 8 responses of `m` have `<think>`"):
        refuse_judged_reasoning("m", whole(*["<think>Hm.</think>Yes."] * 5, *["No."] * 3))


NORMAL = {
    "plain": "I'm sorry, but I can't help with {}. I think there is a reason for that: analysis of {}.",
    "html": "<p>Some text about {} here.</p><div>and more of it</div> Thanks <b>for</b> reading.",
    "page": "<!DOCTYPE html><html><head><title>{}</title></head><body>text</body></html>\nThis is a page.",
    "code": "Use this:\n```xml\n<plan>the plan of all that is about {}</plan>\n```\nand `<think>` it over.",
    "typed": "Map<String, List<Integer>> about {} is a type; `vector<int>` another. Put it in a list.",
    "xml": "<order><id>{}</id><count>2</count></order> is the order.",
    "markdown": "# Analysis\n**Reasoning:** {}\n[analysis](https://a.example) [1] [Your Name]\n- [x] done",
    "song": "[Verse 1]\nAll about {}, my friend\n[Chorus]\nAnd again",
    "letter": "Dear [Name],\nbecause of [Reason for leaving] about {}.\n[YOUR NAME]\n[YOUR ADDRESS]\nBye",
    "asked_form": "<answer>Press the {} with the side of a knife.</answer> That is all.",
    "comparison": "If a < b and b > c, then {} <= d; x <y> z.",
    "gap": "Fill in the form on {} that you find below, please:\n[YOUR RESPONSE]\nThen send it.",
    "hers": "Sure.\nHere is my answer: {}, of course.",
    "tool": "<tool_response>All that is known about {} is in there.</tool_response>\nThat is what was found.",
    "thoughtful": "Thoughts on {} differ. Thinking about it takes time...",
    "turns": "<|im_start|>assistant\nAbout {} I know a lot, and tell.<|im_end|>\n",
}


@pytest.mark.parametrize("kind", NORMAL)
def test_normal_answers_hold_no_marks(kind, caplog):
    refuse_judged_reasoning("m", whole(*[NORMAL[kind].replace("{}", word) for word in WORDS]))
    assert "begins" not in caplog.text


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("<think>Or so?</think>No.", True),
        ("<THINK>Hm.</THINK>No.", True),
        ("so it is.</think>No.", True),
        ("<letter>Dear all, this is a long text.</letter>", False),
        ("Models write `<think>` first.", False),
        ("No.", False),
    ],
)
def test_answers_with_more_reasoning_behind_the_first_are_counted(answer, said, caplog):
    reader = Reader()
    right = reader.fields(asked()[1], response(7, 101, 8))
    refuse_no_answers("thinker", [right, right | {"answer": answer}])
    assert ("1 of 2 answers of `thinker` hold further marks of reasoning" in caplog.text) is said


def test_under_another_entry_the_marks_of_a_family_are_an_error():
    rows = [
        {"prompt_id": str(n), "state": "complete", "answer": f"{FAMILIES['gemma'].replace('{}', 'Hm.')}No."}
        for n in "ab"
    ]
    none = {"reasoning": None, "answer_tokens": None, "reasoning_tokens": None}
    with pytest.raises(UserError, match=r"none of 2 responses .* and 2 of 2 responses of `m` have `<channel\|>`"):
        refuse_no_answers("m", [row | none for row in rows])


@pytest.mark.timeout(20)
def test_a_long_answer_of_many_brackets_is_read_in_time():
    from refusal_eval.ask.reasoning_marks import marks_in

    for text in ("<a>" * 30_000, "`" * 50_000, "[" * 100_000, "here's my " * 20_000, "\n" * 100_000, "<|" * 50_000):
        marks_in(text)
