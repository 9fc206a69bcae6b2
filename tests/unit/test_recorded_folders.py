"""A folder in the published layout, read as answers and verdicts of a study."""

import json
import math
import re
from pathlib import Path

import published_scores
import pytest
import recorded_answers
import recorded_verdicts as recorded_verdicts_script
from config_project import CATALOGUE, STUDY, changed
from test_compat import ANSWERS, PUBLISHED, VERDICTS, units_of
from test_compat import prompts as asked
from tokenizer_folders import byte_tokenizer
from transformers import AutoTokenizer

from refusal_eval.ask.answers import AnswerReader
from refusal_eval.ask.requests import Request
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, read_jsonl, write_jsonl
from refusal_eval.core.packing import pack_floats
from refusal_eval.core.recorded_files import split_folder
from refusal_eval.recorded.recorded_folder import matched, recorded_votes
from refusal_eval.recorded.recorded_rows import recorded_cell, recorded_verdicts

MARKS = {"format": "marks", "start": "<think>", "end": "</think>"}


def prompts(*texts):
    return [{"id": f"id{n}", "messages": [{"role": "user", "content": text}]} for n, text in enumerate(texts)]


def drawn(*texts, prob=0.5):
    return [{"text": text, "thinking_prob": 0.9, "answer_prob": prob, "cum": 0.7} for text in texts]


@pytest.fixture
def write(tmp_path):
    def write(name, rows):
        (tmp_path / name).write_text(json.dumps(rows))
        return tmp_path / name

    return write


@pytest.fixture
def cell_of(write):
    """Return a function that reads the answers to one prompt as a cell."""

    def cell_of(answers, marks=None, **lists):
        return recorded_cell(
            prompts("a"), write("answers.json", [{"prompt": "a ", "answers": answers} | lists]), marks, len(answers)
        )

    return cell_of


@pytest.mark.parametrize(
    ("marks", "texts", "found"),
    [
        (
            MARKS,
            ["Hm.</think>Yes.", "<think>Hm.</think> No </think>.", "Never ended", "Hm.</think>  "],
            [
                ("complete", "Hm.", "Yes."),
                ("complete", "Hm.", " No </think>."),
                ("truncated_reasoning", "Never ended", ""),
                ("empty", "Hm.", "  "),
            ],
        ),
        (None, ["Yes.</think>", ""], [("complete", None, "Yes.</think>"), ("empty", None, "")]),
    ],
)
def test_texts_are_parted_at_the_end_mark_and_weigh_what_the_folder_says(cell_of, marks, texts, found):
    cell = cell_of(drawn(*texts), marks)
    assert [(row["state"], row["reasoning"], row["answer"]) for row in cell.answers] == found
    for row in cell.answers:
        assert row["answer_logprob"] == (pytest.approx(math.log(0.5)) if row["answer"] else None)
    assert {(row["answer_prob"], row["combined_prob"]) for row in cell.published} == {(0.5, 0.7)}


@pytest.mark.parametrize(
    ("texts", "states"),
    [
        (["<think>Hm.</think>Yes."] * 2 + ["No."], ["complete"] * 3),
        (["<think>Hm.</think>Yes."] * 2 + ["<think>Hm", ""], ["complete", "complete", "truncated_reasoning", "empty"]),
        (["Hm.</think>Yes."] * 2 + ["Hm"], ["complete", "complete", "truncated_reasoning"]),
        (["No."] * 2, ["complete"] * 2),
    ],
    ids=["skipped", "cut_off", "opened_by_the_template", "never"],
)
def test_a_text_without_marks_is_an_answer_unless_its_reasoning_was_opened(cell_of, texts, states):
    """As if it had been generated here, with a prompt that opens the reasoning where the other texts say so."""
    rows = cell_of(texts, MARKS).answers
    assert [row["state"] for row in rows] == states
    opened = any(text.startswith("Hm.") for text in texts)
    reader = AnswerReader(None, MARKS, False)
    for text, row in zip(texts, rows, strict=True):
        given = text if not opened else f"<think>{text}"
        finish = "length" if row["state"] == "truncated_reasoning" else "stop"
        response = {"text": given, "finish_reason": finish, "stop_reason": None, "logprobs": None, "token_ids": None}
        made = reader.fields(Request("id0", 0, 0, "k" * 64, 1, [1]), response)
        assert (made["answer"], made["state"]) == (row["answer"], row["state"])


def test_texts_and_probabilities_may_stand_in_lists(cell_of):
    cell = cell_of(["Yes.", ""], answer_probs=[0.25, -1])
    assert [row["answer"] for row in cell.answers] == ["Yes.", ""]
    assert [row["answer_logprob"] for row in cell.answers] == [pytest.approx(math.log(0.25)), None]
    assert cell.published[1]["answer_prob"] == -1


def test_what_the_folder_lacks_failed_and_what_the_split_lacks_is_left_out(write):
    path = write("answers.json", [{"prompt": text, "answers": drawn("Yes.")} for text in ("b", "other", "b ")])
    cell = recorded_cell(prompts("a", "b"), path, None, 2)
    assert [(row["prompt_id"], row["state"]) for row in cell.answers] == [
        ("id0", "failed"),
        ("id0", "failed"),
        ("id1", "complete"),
        ("id1", "failed"),
    ]
    reported = "\n".join(cell.notes)
    assert "1 of 2 prompts of the split are not in the folder" in reported and "1 prompts of the folder" in reported
    assert "prompts with fewer answers in the folder than `samples`: 1. The missing answers are failed" in reported
    assert "1 rows of the folder repeat a prompt that the split has fewer times" in reported
    assert not recorded_cell(prompts("b"), path, None, 1).notes[2:], "only what is left out"
    assert "repeat" not in "".join(recorded_cell(prompts("b", "b"), path, None, 1).notes)
    path = write("answers.json", [{"prompt": "a", "answers": []}])
    assert [row["state"] for row in recorded_cell(prompts("a"), path, None, 2).answers] == ["failed", "failed"]


def test_answers_without_a_probability_are_reported(cell_of):
    cell = cell_of(drawn("Hm.</think>Yes.", prob=-1), MARKS)
    assert cell.answers[0]["answer_logprob"] is None
    assert "1 of 1 answers have no probability" in cell.notes[0]


def test_rows_that_stand_twice_are_taken_in_turn():
    assert matched(prompts("a", "a", "b"), ["a", "b", "a"]) == {"id0": 0, "id1": 2, "id2": 1}
    assert matched(prompts("a"), ["a", "b", "a"]) == {"id0": 0}


@pytest.mark.feature("published")
def test_prompts_that_differ_before_their_last_message_do_not_get_each_others_answers():
    """The layout has the last message alone: these two would be one prompt."""
    from refusal_eval.features.published.published_layout import files_of

    split = [
        {"id": name, "messages": [{"role": "system", "content": name}, {"role": "user", "content": "a"}]}
        for name in ("strict", "lenient")
    ]
    with pytest.raises(UserError, match="one text for each prompt, and prompt strict has 2 messages"):
        matched(split, ["a", "a"])
    with pytest.raises(UserError, match="prompt strict has 2 messages; leave its split out"):
        files_of(split, [], [], [], {"scores": [], "metrics": None})


def test_their_scores_are_verdicts_and_what_they_could_not_read_is_none(write, caplog):
    given = [{"prompt": "a", "answers": drawn("1", "2", "3", "4", " ")}]
    path = write("answers.json", given)
    cell = recorded_cell(prompts("a"), path, None, 5)
    judged = write("judge_scores.json", [[{"label": label} for label in (1.0, -1, 0.0)]])
    rows = recorded_verdicts(prompts("a"), cell.answers, path, judged)
    assert [row["sample"] for row in rows] == [0, 1, 2, 3]
    assert [row["label"] for row in rows] == ["refusal", "compliance", None, None]
    assert [row["state"] for row in rows] == ["judged", "judged", "unparsable", "unparsable"]
    assert "about other answers" not in caplog.text
    judged = write("judge_scores.json", [[{"label": 1, "answer": "1"}, {"label": 1, "answer": "4"}]])
    recorded_verdicts(prompts("a"), cell.answers, path, judged)
    assert "1 labels in" in caplog.text and "about other answers than those in their places" in caplog.text
    assert f"1 rows of {judged} have not as many labels as {path} has answers" in caplog.text
    caplog.clear()
    judged = write("judge_scores.json", [[1] * 5])
    recorded_verdicts(prompts("a"), cell.answers, path, judged)
    assert not caplog.text
    judged = write("judge_scores.json", [])
    assert {row["state"] for row in recorded_verdicts(prompts("a"), cell.answers, path, judged)} == {"unparsable"}


@pytest.fixture
def scored(tmp_path, write):
    """Return a function that scores one prompt as the rules do; it returns the published cell and the verdicts."""

    def scored(texts, probabilities, labels, judge_came_along=True, marks=None):
        answers = [{"text": text, "answer_prob": p} for text, p in zip(texts, probabilities, strict=True)]
        folder = [write("answers.json", [{"prompt": "a", "answers": answers}])]
        folder += [write("judge_scores.json", [[{"label": label} for label in labels]])]
        paths = {name: str(tmp_path / f"{name}.jsonl") for name in ("prompts", "answers", "verdicts", "published")}
        write_jsonl(paths["prompts"], prompts("a"))
        reading = {"model": "m", "samples": len(texts), "reasoning": marks}
        recorded_answers.main(paths["prompts"], str(folder[0]), reading, paths["answers"], paths["published"])
        recorded_verdicts_script.main(paths["prompts"], paths["answers"], *map(str, folder), paths["verdicts"])
        cell = {"judge": "j", "model": "m", "split": "s", "samples": len(texts), "tau": 1.0, "band": 0.1}
        came_along = list(map(str, folder)) if judge_came_along else []
        published_scores.main(paths, cell | {"scored": None}, str(tmp_path / "scores.json"), came_along)
        return read_json(tmp_path / "scores.json"), list(read_jsonl(paths["verdicts"]))

    return scored


THIRD = 1 / 3  # of three readings of a judge two refuse, or one refuses and one cannot be read


@pytest.mark.parametrize(
    ("texts", "probabilities", "labels", "c", "share"),
    [
        (["x", "y"], [0.5, 0.5], [1.0, -1.0], 0, "neutral"),
        (["x", "y"], [0.5, 0.5], [THIRD, -1.0], -THIRD, "compliance"),
        (["x", "y"], [0.5, 0.25], [-THIRD, 1.0], 1 / 9, "rejection"),
        (["x", ""], [0.5, 0.5], [-1.0, 1.0], 0, "neutral"),
        (["x", " "], [0.25, 0.75], [-1.0, 0.5], 0.125, "rejection"),
        (["x", ""], [0.5, -1.0], [-1.0, 1.0], -1, "compliance"),
        (["x", "y", "z"], [0.5, 0.25, 0.25], [1.0, -1.0], 0.25, "rejection"),
        (["x", "y"], [0.5, 0.25], [0.0, 1.0], THIRD, "rejection"),
    ],
    ids=["whole", "fraction", "other_fraction", "empty", "blank", "no_tokens", "fewer", "not_readable"],
)
def test_with_the_judge_that_came_along_the_published_score_is_theirs(scored, texts, probabilities, labels, c, share):
    """The weights are the probabilities' shares, and every answer with tokens has the vote that the folder says."""
    cell, _ = scored(texts, probabilities, labels)
    assert cell["scores"][0]["answer_censor_score"] == pytest.approx(c, rel=1e-6, abs=1e-7)
    assert cell["metrics"][f"{share}_pct"] == 100


def test_a_text_whose_reasoning_has_no_end_votes_too_where_it_has_answer_tokens(scored):
    """Its mark may be another token there than the one that the text shows."""
    cell, verdicts = scored(["Hm.</think>Yes.", "Hm. No."], [0.5, 0.5], [-1.0, 1.0], marks=MARKS)
    assert cell["scores"][0]["answer_censor_score"] == 0 and len(verdicts) == 1


def test_a_fraction_is_a_whole_label_in_rates(scored):
    _, verdicts = scored(["x", "y", ""], [0.5, 0.5, 0.5], [THIRD, -THIRD, 1.0])
    assert [row["label"] for row in verdicts] == ["refusal", "compliance"], "no judge of ours reads an empty answer"


def test_another_judge_of_recorded_answers_votes_by_its_labels(scored):
    """An answer without text, which no judge of ours is asked about, has a vote of 0 and its weight."""
    cell, _ = scored(["x", ""], [0.5, 0.5], [-1.0, 1.0], judge_came_along=False)
    assert cell["scores"][0]["answer_censor_score"] == pytest.approx(-0.5)


@pytest.mark.feature("published")
def test_an_export_of_ours_is_such_a_folder(tmp_path):
    """What `refusal-eval export` writes is read as what it was written from."""
    from refusal_eval.features.published.published_cell import published_cell
    from refusal_eval.features.published.published_layout import files_of, write_folder

    texts = [{**row, "reasoning": "think</t>", "answer": f"text {row['sample']}"} for row in ANSWERS]
    split = asked("p", "q")
    write_folder(tmp_path, files_of(split, texts, VERDICTS, PUBLISHED, published_cell(units_of(), 1.0, 0.1)))
    path = tmp_path / "answers.json"
    cell = recorded_cell(split, path, {"start": None, "end": "</t>"}, 3)
    first = [row for row in cell.answers if row["prompt_id"] == split[0]["id"]]
    assert [(row["state"], row["answer"]) for row in first] == [("complete", f"text {n}") for n in range(3)]
    assert [row["answer_logprob"] for row in first] == pytest.approx([-1.0] * 3, abs=1e-6)
    rows = recorded_verdicts(split, cell.answers, path, tmp_path / "judge_scores.json")
    assert [row["label"] for row in rows][:3] == ["refusal", "compliance", None]


HARMONY_TOKENS = ["<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>", "<|endoftext|>"]
ANALYSIS = "<|channel|>analysis<|message|>Hm. I can't.<|end|><|start|>assistant"
SPECIAL_MARKS = {"format": "marks", "start": "[THINK]", "end": "[/THINK]"}
TEXT_MARKS = {"format": "marks", "start": "<x>", "end": "</x>"}
HARMONY = {"format": "harmony", "start": None, "end": None}


@pytest.fixture(scope="module")
def tokenizer_folder(tmp_path_factory):
    """A tokenizer with special tokens for marks and channels; `</x>` is none, and `>Well` is a token."""
    special = ["[THINK]", "[/THINK]", *HARMONY_TOKENS]
    return byte_tokenizer(tmp_path_factory.mktemp("tokens"), special=special, tokens=[">Well"])


def exported(folder, split, answers, reasoning):
    """Write answers as `refusal-eval export` does; return them as a study on recorded answers reads them."""
    from refusal_eval.features.published.published_layout import files_of, text_mark, write_folder

    files = files_of(split, answers, [], [], {"scores": [], "metrics": None}, text_mark(reasoning))
    write_folder(folder, files)
    marks = {"format": "marks", "start": reasoning.get("start"), "end": text_mark(reasoning)}
    return recorded_cell(split, folder / "answers.json", marks, len(answers)).answers


@pytest.mark.feature("published")
@pytest.mark.parametrize(
    ("reasoning", "response", "state", "answer"),
    [
        (SPECIAL_MARKS, "[THINK]Hm. I can't.[/THINK]Yes.", "complete", "Yes."),
        (SPECIAL_MARKS, "Yes, without a thought.", "complete", "Yes, without a thought."),
        (SPECIAL_MARKS, "[THINK]Hm. I can't.", "truncated_reasoning", ""),
        (TEXT_MARKS, "<x>Hm. I can't.</x>The mark </x>.", "complete", "The mark </x>."),
        (TEXT_MARKS, "<x>Hm. I can't.</x>Well, yes.", "complete", "Well, yes."),
        (HARMONY, f"{ANALYSIS}<|channel|>final<|message|>Yes.", "complete", "Yes."),
        (HARMONY, "<|channel|>final<|message|>Yes.", "complete", "Yes."),
        (HARMONY, ANALYSIS, "truncated_reasoning", ""),
    ],
)
def test_an_export_keeps_answer_and_reasoning_apart(tmp_path, tokenizer_folder, reasoning, response, state, answer):
    """Special tokens are dropped where ids are decoded, and the marks with them; an export has them again."""
    reader = AnswerReader(str(tokenizer_folder), reasoning, False)
    ids = AutoTokenizer.from_pretrained(tokenizer_folder)(response, add_special_tokens=False)["input_ids"]
    stored = {"text": response, "token_ids": ids, "finish_reason": "length", "stop_reason": None}
    drawn_row = reader.fields(
        Request("id0", 0, 0, "k" * 64, 1, [1]), stored | {"logprobs": pack_floats([-1.0] * len(ids))}
    )
    assert (drawn_row["answer"], drawn_row["state"]) == (answer, state.replace("complete", "truncated"))
    place = {"prompt_id": "id0", "sample": 0, "turn": 0}
    for _ in range(2):  # an export of the answers that were read from an export is one too
        (row,) = exported(tmp_path, prompts("a"), [place | drawn_row], reasoning)
        assert (row["state"], row["answer"]) == (state, answer)
        assert "can't" not in row["answer"]
        drawn_row = {name: row[name] for name in drawn_row}


@pytest.mark.feature("published")
def test_a_mark_that_reasoning_quotes_does_not_become_the_answers_beginning_and_without_reasoning_there_is_none(
    tmp_path,
):
    from refusal_eval.features.published.published_layout import files_of, text_mark

    row = {"prompt_id": "id0", "sample": 0, "turn": 0, "state": "complete", "answer_logprob": None, "answer": "Yes."}
    quoted = row | {"reasoning": "Is it </think>No?"}
    assert exported(tmp_path, prompts("a"), [quoted], HARMONY)[0]["answer"] == "Yes."
    files = files_of(
        prompts("a"), [row | {"reasoning": None}], [], [], {"scores": [], "metrics": None}, text_mark(None)
    )
    assert files["answers.json"][0]["answers"][0]["text"] == "Yes."


@pytest.mark.feature("published")
def test_an_export_of_recorded_answers_has_the_votes_that_came_with_them(tmp_path, write):
    from refusal_eval.features.published.published_cell import cell_units, published_cell
    from refusal_eval.features.published.published_layout import differences, files_of, read_folder, write_folder

    answers = write("answers.json", [{"prompt": "a", "answers": drawn("x", "", "z")}])
    judged = write("judge_scores.json", [[{"label": label} for label in (THIRD, -1.0)]])
    split = [row | {"category": None, "cluster": row["id"]} for row in prompts("a")]
    cell = recorded_cell(split, answers, None, 3)
    votes = recorded_votes(split, answers, judged)
    rows = (split, cell.answers, recorded_verdicts(split, cell.answers, answers, judged), cell.published)
    scores = published_cell(cell_units(*rows, 3, votes=votes), 1.0, 0.1)
    write_folder(tmp_path / "out", files_of(*rows, scores, votes=votes))
    written = read_folder(tmp_path / "out")
    assert written.votes == [[THIRD, -1, 0]] and differences(written) == []


@pytest.mark.parametrize(
    ("rows", "reported"),
    [
        ([{"prompt": "other", "answers": drawn("x")}], "none of its 1 prompts is one of the 1 of this split"),
        ([{"prompt": "a", "answers": drawn("x", "y", "z")}], "has 3 answers to a prompt; `samples` of the study is 2"),
        ([{"prompt": "a", "answers": [{"answer": "x"}]}], "has to have a list of `answers`, each with its `text`"),
        ([{"prompt": "a", "answers": ["x", "y"], "answer_probs": [1]}], "2 answers and 1 `answer_probs`"),
        ([{"answers": ["x"]}], "is not of the published layout"),
        ([{"prompt": "a", "answers": drawn("fine", "\ud83d")}], r"json, row 1, answer 2: holds \\ud83d alone"),
    ],
)
def test_what_does_not_fit_is_reported(write, rows, reported):
    with pytest.raises(UserError, match=reported):
        recorded_cell(prompts("a"), write("answers.json", rows), None, 2)


NUMBERS = [math.nan, math.inf, -math.inf, True, "0.5", None, 10**400]


@pytest.mark.parametrize("value", [*NUMBERS, 3.0, 1.01, -0.5])
def test_no_probability_beyond_one_is_believed(write, value):
    rows = [{"prompt": "a", "answers": drawn("x")}, {"prompt": "b", "answers": drawn("x", prob=value)}]
    reported = r"answers\.json, row 2: `answer_prob` of answer 1 is .+; it has to be a number from 0 to 1, or -1"
    with pytest.raises(UserError, match=reported):
        recorded_cell(prompts("a", "b"), write("answers.json", rows), None, 2)


@pytest.mark.parametrize(("prob", "logprob", "kept"), [(1e-320, None, 0), (1.0000001, 0, 1.0000001)])
def test_a_probability_may_exceed_one_by_what_float32_rounds_and_be_too_small_for_it(cell_of, prob, logprob, kept):
    cell = cell_of(drawn("x", prob=prob))
    assert (cell.answers[0]["answer_logprob"], cell.published[0]["answer_prob"]) == (logprob, kept)


@pytest.mark.parametrize("label", [*NUMBERS, 57, -1.5])
def test_no_score_beyond_one_is_a_vote(write, label):
    path = write("answers.json", [{"prompt": "a", "answers": drawn("x", "y")}])
    judged = write("judge_scores.json", [[{"label": 1}, {"label": label}]])
    reported = r"judge_scores\.json, row 1: `label` of answer 2 is .+; it has to be a number from -1 to 1"
    with pytest.raises(UserError, match=reported):
        recorded_votes(prompts("a"), path, judged)


ODD_INPUTS = Path(__file__).parents[1] / "odd_inputs"


@pytest.fixture
def read_input(tmp_path):
    """Return a function that reads the answers of a model of an odd input, as its rule does."""

    def read_input(name, model, marks=None):
        (folder,) = ODD_INPUTS.glob(f"{name}-*")
        path = folder / "ans" / model / "s1" / "answers.json"
        write_jsonl(tmp_path / "p.jsonl", prompts(*(row["prompt"] for row in read_json(path))))
        out, reading = str(tmp_path / "out.jsonl"), {"model": model, "samples": 1, "reasoning": marks}
        recorded_answers.main(str(tmp_path / "p.jsonl"), str(path), reading, out, str(tmp_path / "published.jsonl"))
        return list(read_jsonl(out))

    return read_input


@pytest.mark.parametrize(
    ("name", "model", "mark"),
    [
        ("03", "unclosed", "<think>"),
        ("03", "mostly", "<think>"),
        ("04", "granite", "Here is my response:"),
        ("04", "apriel", "[BEGIN FINAL RESPONSE]"),
        ("04", "kimi-vl", "◁/think▷"),
        ("04", "seed-oss", "</seed:think>"),
        ("04", "gemma4", "<channel|>"),
        ("04", "medgemma", "<unused95>"),
    ],
)
def test_reasoning_that_would_be_judged_stops_with_its_mark(read_input, name, model, mark):
    with pytest.raises(
        UserError, match=f"8 of 8 responses of `{model}` have `{re.escape(mark)}` in what counts as the"
    ):
        read_input(name, model)


def test_recorded_answers_of_which_nothing_is_visible_are_empty(read_input, cell_of):
    assert [row["state"] for row in read_input("07", "zerowidth")] == ["empty"] * 6 + ["complete"] * 2
    assert cell_of(["<think>Hm.</think>\u200b", "\u2800"], MARKS).answers[0]["state"] == "empty"


def test_refusals_given_without_thinking_are_answers(read_input):
    rows = read_input("08", "hybrid", MARKS)
    assert [row["state"] for row in rows] == ["complete"] * 8
    assert sum("I'm sorry" in row["answer"] for row in rows) == 3


ABC = [{"prompt": text, "answers": ["x"]} for text in "abcd"]


@pytest.mark.parametrize(
    "rows",
    [
        [[0.93], [0.04], [0.8], [0.3]],
        [[1], [0], [0], [1]],
        [[0.5], [1], [1], [1]],
        [{"answers": [{"label": p}]} for p in (0.93, 0.04, 0.04, 0.04)],
        [{"judge_scores": [p]} for p in (1, 0, 0, 1)],
        [[{"label": 0.93, "judge_outputs": ["p = 0.93"]}]] * 4,
        [[0.93], [0.04], [-1], [0.3]],
        [[1], [0], [-1], [0]],
    ],
)
def test_scores_of_another_scale_are_refused(write, rows):
    recorded, judged = write("answers.json", ABC), write("judge_scores.json", rows)
    with pytest.raises(
        UserError, match=r"judge_scores\.json: scores go from -1 \(compliance\) to 1 \(refusal\), but none"
    ):
        recorded_votes(prompts(*"abcd"), recorded, judged)


@pytest.mark.parametrize(
    "rows",
    [
        [[1]] * 4,
        [[-1], [0], [0.5], [0]],
        [[1], [1], [1], [0]],
        [[1], [1], [-1], [0]],
        [[0.93], [0.8], [0.6], [-1]],
        [[1 / 3], [1 / 3], [1], [-1]],
        [[0.93], [0.04], [0.3], [-0.2]],
        [[{"label": 0.0, "judge_outputs": []}]] * 3 + [[{"label": 1 / 3, "judge_outputs": ["a", "b", "c"]}]],
    ],
)
def test_scores_of_a_judge_that_never_reads_compliance_are_taken(write, rows):
    assert len(recorded_votes(prompts(*"abcd"), write("answers.json", ABC), write("judge_scores.json", rows))) == 4


@pytest.mark.parametrize("inside", [False, True], ids=["row", "label"])
def test_rows_of_scores_that_name_their_prompt_are_matched_by_it(write, inside):
    def row(prompt, label):
        name = {"prompt": f"{prompt} "}
        return [{"label": label} | name] if inside else {"answers": [{"label": label}]} | name

    rows = [row("d", -1), row("c", 1), row("b", -1), row("other", 1)]
    recorded, judged = write("answers.json", ABC), write("judge_scores.json", rows)
    assert recorded_votes(prompts(*"abcd"), recorded, judged) == {
        ("id1", 0, 0): -1,
        ("id2", 0, 0): 1,
        ("id3", 0, 0): -1,
    }
    with pytest.raises(UserError, match="none of its 1 rows names a prompt"):
        recorded_votes(prompts(*"abcd"), recorded, write("judge_scores.json", [row("other", -1)]))
    with pytest.raises(UserError, match="row 2: it names another prompt than the answers in its place"):
        recorded_votes(prompts(*"abcd"), recorded, write("judge_scores.json", [[1], row("c", -1)]))


def test_a_row_of_scores_may_call_its_prompt_as_its_author_does(write):
    rows = [{"question": text, "answers": [{"label": 1 if text == "c" else -1}]} for text in "dcba"]
    votes = recorded_votes(prompts(*"abcd"), write("answers.json", ABC), write("judge_scores.json", rows))
    assert [votes[f"id{n}", 0, 0] for n in range(4)] == [-1, -1, 1, -1]


def test_rows_of_scores_in_the_place_of_another_id_are_refused(write):
    recorded = write("answers.json", [row | {"id": place} for place, row in enumerate(ABC)])
    rows = [{"id": place, "answers": [{"label": 1}]} for place in range(4)]
    assert len(recorded_votes(prompts(*"abcd"), recorded, write("judge_scores.json", rows))) == 4
    with pytest.raises(UserError, match="row 1: its `id` is 3, and that of the answers in its place 0"):
        recorded_votes(prompts(*"abcd"), recorded, write("judge_scores.json", rows[::-1]))


def test_labels_that_name_samples_in_another_order_are_refused(write):
    recorded = write("answers.json", [{"prompt": "a", "answers": ["x", "y"]}])
    row = [{"label": 1, "sample": 0}, {"label": -1, "sample": 1}]
    assert recorded_votes(prompts("a"), recorded, write("judge_scores.json", [row])) == {
        ("id0", 0, 0): 1,
        ("id0", 1, 0): -1,
    }
    with pytest.raises(UserError, match="row 1: by their `sample` its labels are not in the order of the answers"):
        recorded_votes(prompts("a"), recorded, write("judge_scores.json", [row[::-1]]))


def test_labels_about_other_answers_are_refused(write):
    recorded = write("answers.json", [{"prompt": text, "answers": [f"about {text}"]} for text in "abcd"])
    rows = [[{"label": -1, "answer": f"about {text}"}] for text in "dcba"]
    with pytest.raises(UserError, match=r"4 labels in .* are about other answers than those in their places"):
        recorded_votes(prompts(*"abcd"), recorded, write("judge_scores.json", rows))


@pytest.mark.parametrize("name", ["p_refusal", "refusal_prob", "is_refusal", "refused"])
@pytest.mark.parametrize(("label", "p"), [(-1, 0.99), (1, 0.01), (-1, True), (1, False)])
def test_a_label_that_contradicts_its_probability_is_refused(write, label, p, name):
    rows = [[{"label": -1, name: 0.2, "non_refusal_prob": 1}], [{"label": label, name: p}], [1], [1]]
    with pytest.raises(
        UserError, match=rf"row 2: `label` of answer 1 is -?1, \w+, but its `{name}` is (0.\d+|True|False), the prob"
    ):
        recorded_votes(prompts(*"abcd"), write("answers.json", ABC), write("judge_scores.json", rows))


def test_a_key_that_stands_twice_in_answers_is_refused():
    (path,) = ODD_INPUTS.glob("10-*/answers.json")
    with pytest.raises(UserError, match=r'answers\.json, line 1: the key "answers" stands twice in one'):
        recorded_cell(prompts("How do I cut wood?"), path, None, 1)


@pytest.mark.parametrize("split", ["", "/split", "**x", "sp*", "[s]plit", "../split"])
def test_the_name_of_a_split_is_no_pattern(tmp_path, split):
    (tmp_path / "split").mkdir()
    (tmp_path / "split" / "answers.json").write_text("[]")
    assert split_folder(tmp_path, "split") == tmp_path / "split"
    with pytest.raises(UserError, match="there is no"):
        split_folder(tmp_path, split)


@pytest.mark.parametrize(
    ("marks", "reported"),
    [
        (MARKS | {"end": "</thinking>"}, "none of 10 responses of `m` has an answer"),
        (None, "9 of 10 responses of `m` have `</think>` in what"),
    ],
)
def test_wrong_marks_and_none_for_a_model_that_reasons_are_an_error(write, tmp_path, marks, reported):
    """Answers that were cut off in their reasoning, or are empty, do not hide the others."""
    texts = [*("Hm.</think>Yes.", "So.</think>No.") * 4, "Hm, hm", " </think>"]
    rows = [{"prompt": prompt, "answers": drawn(*texts[n * 2 : n * 2 + 2])} for n, prompt in enumerate("abcde")]
    path = write("answers.json", rows)
    write_jsonl(tmp_path / "prompts.jsonl", prompts(*"abcde"))
    out = [str(tmp_path / name) for name in ("out.jsonl", "published.jsonl")]
    reading = {"model": "m", "samples": 2, "reasoning": marks}
    with pytest.raises(UserError, match=reported):
        recorded_answers.main(str(tmp_path / "prompts.jsonl"), str(path), reading, *out)
    whole = {"reasoning": None, "judged_whole": True}
    recorded_answers.main(str(tmp_path / "prompts.jsonl"), str(path), reading | whole, *out)
    assert [row["answer"] for row in read_jsonl(out[0])] == texts
    recorded_answers.main(str(tmp_path / "prompts.jsonl"), str(path), reading | {"reasoning": MARKS}, *out)
    assert [row["answer"] for row in read_jsonl(out[0])] == [*["Yes.", "No."] * 4, "", ""]
    assert next(iter(read_jsonl(out[1])))["end_mark"] == "</think>"


# ---------------------------------------------------------------- in a config


@pytest.fixture
def project(project):
    for split in ("hub-rows", "file-rows"):
        for name in ("answers.json", "judge_scores.json"):
            project.write(f"theirs/run/{split}/{name}", "[]")
    recorded(project)
    return project


def recorded(project, **fields):
    """Give the catalogue a model whose answers are recorded."""
    entry = CATALOGUE["models"]["plain"] | {"recorded": "../../theirs"} | fields
    project.write("config/catalogue/base.yaml", changed(CATALOGUE, ("models", "theirs"), entry))


RECORDED = STUDY | {"models": ["theirs"], "judges": ["came-along", "words"]}


def test_a_recorded_model_needs_no_engine_and_may_come_from_any_sampling(project):
    recorded(project, sampling={"max_tokens": 9999, "temperature": 0, "top_k": 1})
    loaded = project.load(RECORDED)
    assert loaded["engine_entries"] == {} and loaded["model_entries"]["theirs"]["recorded"] == "theirs"
    assert loaded["samples"] == 3


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"models": ["theirs", "plain"]}, "model `plain` has none (`recorded`)"),
        ({"splits": ["bundled-rows"]}, "there is no bundled-rows/answers.json in theirs or below"),
        ({"splits": ["talk-rows"]}, "the published layout has no dialogues"),
    ],
)
def test_what_recorded_answers_need_of_a_study_is_reported(project, changes, reported):
    assert any(reported in mistake for mistake in project.mistakes(RECORDED | changes))


def test_a_folder_that_is_not_there_or_holds_two_runs_is_reported(project):
    project.write("theirs/again/hub-rows/answers.json", "[]")
    assert any("more than once" in mistake for mistake in project.mistakes(RECORDED))
    (project.folder / "theirs").rename(project.folder / "moved")
    assert any("there is no folder theirs" in mistake for mistake in project.mistakes(RECORDED))


def test_channels_are_refused_with_what_to_write(project):
    recorded(project, reasoning={"format": "harmony"})
    (reported,) = project.mistakes(RECORDED)
    assert (
        "write the text that ends the reasoning in these answers, e.g. `reasoning: {end: assistantfinal}`" in reported
    )
