"""Where the reasoning ends: marks as tokens, marks as text, and the channels of harmony.

The harmony streams are written by hand after the published format (https://github.com/openai/harmony): gpt-oss cannot
run on the machines of these tests. Its numbers of tokens are those of the published vocabulary.
"""

import pytest
from tokenizer_folders import byte_tokenizer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from refusal_eval.ask.answers import AnswerReader, answer_of
from refusal_eval.ask.reasoning import Harmony, ReasoningMarks, reasoning_of
from refusal_eval.ask.requests import Request
from refusal_eval.core.errors import UserError
from refusal_eval.core.packing import pack_floats

THINK = ReasoningMarks((101, 102), (100,), str)
START, CHANNEL, MESSAGE, END, RETURN, CALL, CONSTRAIN = 200006, 200005, 200008, 200007, 200002, 200012, 200003
FINAL, ANALYSIS, ASSISTANT = 17196, 35644, 173781
HARMONY = Harmony(START, CHANNEL, MESSAGE, (FINAL,), frozenset({END, RETURN, CALL, 199999}))
ASKED = [START, 1, MESSAGE, 2, END, START, ASSISTANT]  # a prompt of a user, and the model's turn


class Words:
    """A tokenizer of the words that it knows; any other text is one id per letter."""

    def __init__(self, **words):
        self.words = words

    def __call__(self, text, add_special_tokens):
        assert not add_special_tokens
        return {"input_ids": [self.words[text]] if text in self.words else [ord(letter) for letter in text]}


def letters(ids):
    return "".join(chr(i) for i in ids)


def written(text):
    return [ord(letter) for letter in text]


# ---------------------------------------------------------------- marks


def test_an_end_mark_counts_once_and_only_whole():
    assert THINK.segments([100], [101, 7, 101, 102, 8, 101, 102, 9]).begin == 4


@pytest.mark.parametrize(
    ("prompt", "open_"),
    [([1, 100, 5], True), ([1, 100, 101, 102], False), ([100, 101, 102, 100], True), ([1, 2], False)],
)
def test_a_prompt_may_leave_the_reasoning_open(prompt, open_):
    assert THINK.segments(prompt, [7, 8]).begin == (None if open_ else 0)


@pytest.mark.parametrize(
    "marks", [ReasoningMarks((101,), None, str), ReasoningMarks("</think>", None, lambda ids: "why? so")]
)
def test_without_a_start_mark_a_response_without_an_end_mark_has_no_answer(marks):
    """Whether its reasoning was opened, by the prompt say, nobody can tell: it must not become the judged answer."""
    assert marks.segments([1, 100], [7, 8]).begin is None


@pytest.mark.parametrize(("finish", "state"), [("length", "truncated_reasoning"), ("stop", "empty")])
def test_reasoning_that_was_cut_off_is_never_the_answer(finish, state):
    """The mark alone, as configs of the published library give it; their code hands all of this to the judge."""
    ids = [7, 8, 2] if finish == "stop" else [7, 8]
    response = {"text": "why? so", "token_ids": ids, "finish_reason": finish, "stop_reason": 2}
    response["logprobs"] = pack_floats([-1.0] * len(ids))
    row = answer_of(response, [1, 100], ReasoningMarks((101,), None, str), lambda ids: "why? so" if ids else "")
    assert (row["state"], row["answer"], row["reasoning"]) == (state, "", "why? so")


def test_a_mark_that_is_no_token_is_found_in_the_text():
    marks = ReasoningMarks("</think>", "<think>", letters)
    found = marks.segments(written("hi<think>"), written("why?</think>Yes."))
    assert (found.begin, found.end, found.text) == (12, 16, "Yes.")
    assert marks.segments(written("hi<think>"), written("why? </thin")).begin is None
    assert marks.segments(written("hi"), written("Yes.")).begin == 0
    assert marks.segments(written("hi"), written("<think>why")).begin is None
    assert marks.segments(written("<think>a</think>hi"), written("Yes.")).begin == 0


def test_a_token_with_the_marks_end_and_the_answers_beginning_gives_the_text_and_does_not_weigh():
    pieces = {1: "why", 2: "</think", 3: ">\n\nYes", 4: " sir"}
    marks = ReasoningMarks("</think>", "<think>", lambda ids: "".join(pieces[i] for i in ids))
    response = {"text": "why</think>\n\nYes sir", "token_ids": [1, 2, 3, 4, 9], "finish_reason": "stop"}
    response |= {"logprobs": pack_floats([-9.0, -9.0, -9.0, -0.5, -9.0]), "stop_reason": 9}
    row = answer_of(response, [], marks, lambda ids: "".join(pieces[i] for i in ids))
    assert (row["answer"], row["answer_tokens"], row["answer_logprob"]) == ("\n\nYes sir", 1, -0.5)
    assert (row["state"], row["reasoning_tokens"]) == ("complete", 3)


# ---------------------------------------------------------------- harmony


@pytest.mark.parametrize(
    ("ids", "segment"),
    [
        ([CHANNEL, ANALYSIS, MESSAGE, 7, 8, END, START, ASSISTANT, CHANNEL, FINAL, MESSAGE, 9, 10], (11, 13)),
        ([CHANNEL, FINAL, MESSAGE, 9, 10], (3, 5)),  # no analysis
        ([CHANNEL, FINAL, 220, CONSTRAIN, 5, MESSAGE, 9, END], (6, 7)),  # constrained output
        ([CHANNEL, FINAL, MESSAGE, 9, END, START, ASSISTANT, CHANNEL, FINAL, MESSAGE, 10], (3, 4)),  # a second message
        ([CHANNEL, ANALYSIS, MESSAGE, 7, FINAL, 8], (None, 6)),  # cut off; the word alone is no channel
        ([CHANNEL, ANALYSIS, MESSAGE, 7, END, START, ASSISTANT, CHANNEL, FINAL], (None, 9)),  # cut off in the head
        ([9, 10], (None, 2)),  # not the format
    ],
)
def test_the_final_channel_is_the_answer(ids, segment):
    found = HARMONY.segments(ASKED, ids)
    assert (found.begin, found.end) == segment


def test_a_prompt_may_open_the_final_channel():
    opened = [*ASKED, CHANNEL, FINAL, MESSAGE]
    assert HARMONY.segments(opened, [9, 10, END]) == HARMONY.segments(opened, [9, 10])
    earlier = [START, ASSISTANT, CHANNEL, FINAL, MESSAGE, 3, END, *ASKED]
    assert HARMONY.segments(earlier, [9, 10]).begin is None


def test_only_the_tokens_of_the_final_channel_weigh():
    ids = [CHANNEL, ANALYSIS, MESSAGE, 7, END, START, ASSISTANT, CHANNEL, FINAL, MESSAGE, 65, 66, RETURN]
    response = {"text": "analysis...", "token_ids": ids, "finish_reason": "stop", "stop_reason": RETURN}
    response["logprobs"] = pack_floats([-9.0] * 10 + [-1.0, -2.0, -9.0])
    row = answer_of(response, ASKED, HARMONY, letters)
    assert (row["answer"], row["answer_tokens"], row["answer_logprob"]) == ("AB", 2, -1.5)
    cut = answer_of(response | {"token_ids": ids[:4], "finish_reason": "length"}, ASKED, HARMONY, letters)
    assert (cut["state"], cut["answer"]) == ("truncated_reasoning", "")


# ---------------------------------------------------------------- from an entry


def test_marks_are_looked_for_as_tokens_where_they_are_tokens():
    qwen = Words(**{"<think>": 151667, "</think>": 151668})
    assert reasoning_of({"start": "<think>", "end": "</think>"}, qwen, letters) == ReasoningMarks(
        (151668,), (151667,), letters
    )
    assert reasoning_of({"start": None, "end": "</think>"}, Words(), letters) == ReasoningMarks(
        "</think>", None, letters
    )
    assert reasoning_of(None, None, letters) is None
    shown = ReasoningMarks("</think>", "Thought", lambda ids: "Thought" if ids == (5,) else letters(ids))
    found = reasoning_of({"start": "Thought", "end": "</think>"}, Words(Thought=5), shown.decode)
    assert found == shown, "as ` Thought` it would have another id"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tokenizer whose `[THINK]`, `[/THINK]`, `<|a|>` and `<|b|>` are special: no decoded text shows them."""
    return byte_tokenizer(tmp_path_factory.mktemp("t"), special=["[THINK]", "[/THINK]", "<|a|>", "<|b|>"])


SPECIAL_BOTH = ("[THINK]\n", "[/THINK]")
PLAIN_START = ("Thinking:", "[/THINK]")
PLAIN_END = ("[THINK]", "That was it.")
BLANKS = ("[THINK]", "\n[/THINK]\n")
RUN = ("Thinking:", "<|a|><|b|>")


@pytest.mark.parametrize(
    ("marks", "prompt", "response", "answer"),
    [
        (SPECIAL_BOTH, "Hi[THINK]\n", "Hm.[/THINK]Yes.", "Yes."),
        (SPECIAL_BOTH, "Hi[THINK]\n\n", "Hm.", None),
        (SPECIAL_BOTH, "Hi", "[THINK]\nHm.", None),
        (SPECIAL_BOTH, "Hi[THINK]\nHm.[/THINK]Yes. And now?", "No.", "No."),
        (PLAIN_START, "Hi", "Thinking: Hm.[/THINK]Yes.", "Yes."),
        (PLAIN_START, "Hi Thinking:", "Hm.", None),
        (PLAIN_START, "Hi", "Thinking: Hm.", None),
        (PLAIN_START, "Hi", "No.", "No."),
        (PLAIN_START, "Thinking: Hm.[/THINK]Hi", "No.", "No."),
        (PLAIN_END, "Hi[THINK]", "Hm. That was it. Yes.", " Yes."),
        (PLAIN_END, "Hi[THINK]", "Hm.", None),
        (PLAIN_END, "Hi", "[THINK]Hm.", None),
        (PLAIN_END, "[THINK]Hm. That was it. Hi", "No.", "No."),
        (PLAIN_END, "Hi", "No.", "No."),
        (BLANKS, "Hi[THINK]", "Hm.\n[/THINK]\n\nYes.", "\n\nYes."),
        (BLANKS, "Hi[THINK]", "Hm.[/THINK]Yes.", "Yes."),
        (RUN, "Hi", "Thinking: Hm.<|a|><|b|>Yes.", "Yes."),
        (RUN, "Hi", "Thinking: Hm.<|a|>No.", None),
    ],
)
def test_a_mark_is_found_by_ids_where_it_is_a_token_whatever_the_other_is(folder, marks, prompt, response, answer):
    """Else a special end mark is never found, and behind a special start mark reasoning that was cut off is judged."""
    reader = AnswerReader(str(folder), {"format": "marks", "start": marks[0], "end": marks[1]}, False)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    asked, ids = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in (prompt, response))
    stored = {"text": tokenizer.decode(ids, skip_special_tokens=True), "token_ids": ids, "finish_reason": "length"}
    stored |= {"stop_reason": None, "logprobs": pack_floats([-1.0] * len(ids))}
    row = reader.fields(Request("id", 0, 0, "k" * 64, 1, asked), stored)
    assert row["state"] == ("truncated_reasoning" if answer is None else "truncated")
    assert row["answer"] == (answer or "") and row["answer_tokens"] == len(answer or "")


@pytest.fixture(scope="module")
def merging():
    """A tokenizer like GPT-2's: `###` is one token, and ` ###` is another one; `<|a|>` and `<|b|>` are special."""
    merges = [("#", "#"), ("##", "#"), ("\u0120", "###")]  # \u0120 is how byte-level tokenizers write a space
    vocabulary = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *map("".join, merges)]
    core = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(vocabulary)}, merges=merges))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(["<|a|>", "<|b|>"])
    return PreTrainedTokenizerFast(tokenizer_object=core)


@pytest.mark.parametrize(
    ("start", "prompt", "response", "answer"),
    [
        ("Reasoning:", "Hi", "Reasoning: no. ### Yes.", " Yes."),
        ("Reasoning:", "Hi", "Reasoning: no.### Yes.", " Yes."),
        ("Reasoning:", "Hi Reasoning:", " no. ### Yes.", " Yes."),
        ("Reasoning:", "Hi", "Reasoning: no.", None),
        ("Reasoning:", "Hi", "Yes.", "Yes."),
        ("<|a|><|b|>", "Hi<|a|><|b|>", "no. ### Yes.", " Yes."),
        ("<|a|><|b|>", "Hi<|a|><|b|>", "no.", None),
        ("<|a|><|b|>", "Hi", "Yes.", "Yes."),
    ],
)
def test_an_end_mark_of_plain_text_is_found_behind_a_space_too(merging, start, prompt, response, answer):
    """As a token it would be missed there, and the answer would never be judged."""

    def decode(ids):
        return merging.decode(ids, skip_special_tokens=True)

    asked, ids = (merging(text, add_special_tokens=False)["input_ids"] for text in (prompt, response))
    assert len(merging("###")["input_ids"]) == len(merging(" ###")["input_ids"]) == 1
    found = reasoning_of({"start": start, "end": "###"}, merging, decode).segments(asked, ids)
    read = found.text if found.text is not None or found.begin is None else decode(ids[found.begin : found.end])
    assert read == answer


def test_harmony_needs_its_tokens():
    names = {"<|start|>": START, "<|channel|>": CHANNEL, "<|message|>": MESSAGE, "<|end|>": END, "<|return|>": RETURN}
    whole = Words(**names, **{"<|call|>": CALL, "<|endoftext|>": 199999, "final": FINAL})
    assert reasoning_of({"format": "harmony"}, whole, letters) == HARMONY
    with pytest.raises(UserError, match=r"no token `<\|start\|>`"):
        reasoning_of({"format": "harmony"}, Words(), letters)
