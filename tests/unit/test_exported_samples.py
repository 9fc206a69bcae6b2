"""One answer as a sample of a log of inspect and as rows of a data set: dialogues, blocks, tokens, odd texts."""

import json
import zipfile
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from refusal_eval.core.errors import UserError
from refusal_eval.core.states import ANSWER_STATES
from refusal_eval.features.exports import hub_tables
from refusal_eval.features.exports.exported_cells import ExportedCell, whole_folder
from refusal_eval.features.exports.inspect_log import write_log
from refusal_eval.features.exports.inspect_sample import sample_of
from refusal_eval.program.exporter import LEVELS

BLOCK = {"by": "filter", "stage": "answer", "category": "cyber", "severity": None, "partial": "Half of", "code": "c7"}
TURNS = [{"role": "user", "content": "First?"}, {"role": "user", "content": "Second?"}]


def answer(**fields: Any) -> dict[str, Any]:
    plain = {"state": "complete", "answer": "Yes.", "reasoning": None, "answer_tokens": 2, "reasoning_tokens": 0}
    plain |= {"answer_logprob": -0.5, "reasoning_logprob": None, "finish_reason": "stop", "key": None, "serving": None}
    return {"prompt_id": "p", "sample": 0, "turn": 0, **plain, **fields}


def verdict(label: str | None, turn: int = 0, **fields: Any) -> dict[str, Any]:
    plain = {"state": "judged" if label else "unparsable", "label": label, "p_refusal": None, "kind": None, "flags": []}
    return {"prompt_id": "p", "sample": 0, "turn": turn, **plain, "raw": {}, "key": None, **fields}


def cell(answers: list[Any], verdicts: list[Any] = [], dialogue: bool = False) -> ExportedCell:  # noqa: B006
    prompt = {"id": "p", "messages": TURNS if dialogue else TURNS[:1], "category": "k", "cluster": "p"}
    prompt |= {"dialogue": True} if dialogue else {}
    read = {("p", 0, one["turn"]): one for one in verdicts}
    return ExportedCell("m", "s", "comply", {"p": prompt}, answers, {"j": read}, "Be brief.")


def test_a_dialogue_is_one_sample_whose_scores_are_those_of_the_last_turn() -> None:
    answers = [answer(), answer(turn=1, answer="No.")]
    one = cell(answers, [verdict("compliance"), verdict("refusal", 1)], dialogue=True)
    sample = sample_of(one, answers, "answers")
    said = [(message["role"], message["content"]) for message in sample["messages"]]
    asked = [("system", "Be brief."), ("user", "First?"), ("assistant", "Yes."), ("user", "Second?")]
    assert said == [*asked, ("assistant", "No.")]
    assert sample["scores"]["j"]["value"] == "refusal" and sample["turn_count"] == 2
    [earlier] = sample["metadata"]["refusal_eval"]["earlier_turns"]
    assert earlier["turn"] == 0 and earlier["labels"] == {"j": "compliance"}
    rows = list(hub_tables.rows(one, "answers"))
    assert [len(row["messages"]) for row in rows] == [2, 4] and [row["answer"] for row in rows] == ["Yes.", "No."]


def test_a_blocked_answer_says_by_whom_and_where_and_its_part_is_no_answer() -> None:
    blocked = answer(state="blocked", answer="", blocked=BLOCK, finish_reason="content_filter")
    sample = sample_of(cell([blocked]), [blocked], "answers")
    [choice] = sample["output"]["choices"]
    assert choice["stop_reason"] == "content_filter" and choice["message"]["content"] == "Half of"
    assert choice["stop_details"]["explanation"] == "stopped by a filter, at the answer"
    assert choice["stop_details"]["category"] == "cyber" and choice["stop_details"]["type"] == "c7"
    assert sample["scores"] == {} and sample["metadata"]["refusal_eval"]["blocked"]["by"] == "filter"
    alone = json.dumps(sample_of(cell([blocked]), [blocked], "labels"))
    assert "Half of" not in alone and "First?" not in alone and "Be brief" not in alone and "cyber" in alone


def test_billed_tokens_are_counted_once_whether_they_came_out_of_a_cache_or_not() -> None:
    one = answer(usage={"input": 100, "cached": 60, "output": 7})
    usage = sample_of(cell([one]), [one], "labels")["output"]["usage"]
    assert usage == {"input_tokens": 40, "input_tokens_cache_read": 60, "output_tokens": 7, "total_tokens": 107}
    [row] = hub_tables.states(cell([one]))
    assert (row["usage_input"], row["usage_cached"], row["usage_output"]) == (100, 60, 7)


@pytest.mark.parametrize(("said", "kept"), [("length", "length"), ("I was asked: First?", None), (None, None)])
def test_a_row_without_texts_has_no_text_where_a_word_should_be(said: str | None, kept: str | None) -> None:
    [row] = hub_tables.states(cell([answer(finish_reason=said)]))
    assert row["finish_reason"] == kept


def test_a_declared_refusal_is_a_detail_of_an_answer_that_ended_by_itself() -> None:
    one = answer(declared=True)
    [choice] = sample_of(cell([one]), [one], "answers")["output"]["choices"]
    assert choice["stop_reason"] == "stop" and choice["stop_details"]["type"] == "refusal"


@pytest.mark.parametrize(("level", "said"), [("labels", None), ("answers", None), ("all", "It declines.")])
def test_the_reason_of_a_judge_is_its_explanation_at_the_last_level(level: Any, said: str | None) -> None:
    one = cell([answer()], [verdict("refusal", p_refusal=0.9, raw={"analysis": "It declines."})])
    score = sample_of(one, [answer()], level)["scores"]["j"]
    assert score.get("explanation") == said and score["metadata"]["p_refusal"] == 0.9
    assert ("raw" in score["metadata"]) == (said is not None)
    if level != "labels":
        [row] = hub_tables.rows(one, level)
        assert row["labels"][0].get("reason") == said


def test_a_verdict_without_a_label_is_no_score_and_its_state_is_kept() -> None:
    sample = sample_of(cell([answer()], [verdict(None)]), [answer()], "all")
    assert sample["scores"] == {} and sample["metadata"]["refusal_eval"]["without_label"] == {"j": "unparsable"}


@pytest.mark.parametrize("state", ANSWER_STATES)
@pytest.mark.parametrize("level", LEVELS)
def test_every_state_fits_the_tables_at_every_level(state: str, level: Any) -> None:
    one = cell([answer(state=state, answer="", blocked=BLOCK if state == "blocked" else None)], [verdict("partial")])
    assert len(pa.Table.from_pylist(list(hub_tables.states(one)), hub_tables.STATES)) == 1
    assert len(pa.Table.from_pylist(list(hub_tables.verdicts(one, level)), hub_tables.verdict_form(level))) == 1
    if level != "labels":
        assert len(pa.Table.from_pylist(list(hub_tables.rows(one, level)), hub_tables.ROWS)) == 1


def test_half_of_a_surrogate_pair_is_replaced_and_equal_logs_have_equal_bytes(tmp_path: Any) -> None:
    one = answer(answer="half \ud83d of it")
    sample = sample_of(cell([one]), [one], "answers")
    header = {"version": 2, "eval": {}, "plan": {}}
    for name in ("a.eval", "b.eval"):
        write_log(tmp_path / name, header, [sample])
    assert (tmp_path / "a.eval").read_bytes() == (tmp_path / "b.eval").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.eval") as archive:
        read = json.loads(archive.read("samples/p_epoch_1.json"))
        assert Counter(archive.namelist()) == Counter(
            [
                "_journal/start.json",
                "samples/p_epoch_1.json",
                "_journal/summaries/1.json",
                "summaries.json",
                "header.json",
            ]
        )
    assert read["output"]["completion"].startswith("half ") and "\ud83d" not in read["output"]["completion"]


def test_a_folder_is_there_whole_or_not_at_all(tmp_path: Any) -> None:
    with pytest.raises(ZeroDivisionError), whole_folder(tmp_path / "new") as folder:
        (folder / "part").write_text("x")
        assert not (tmp_path / "new").exists()
        1 / 0  # noqa: B018
    assert list(tmp_path.iterdir()) == []
    with whole_folder(tmp_path / "new") as folder:
        (folder / "part").write_text("x")
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("new", "dangling"):
        with pytest.raises(UserError, match=f"{name} is there already"), whole_folder(tmp_path / name):
            pass
