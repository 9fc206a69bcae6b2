"""Scoring a cell whose files were damaged or changed by hand: the message names the file and the row."""

import json

import pytest
import score_cell
from estimate_rows import score_in
from test_dialogue_cell import CELL

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import write_jsonl
from refusal_eval.stats.estimates.units import read_units

PROMPT = {"id": "p0", "category": None, "cluster": "c0", "messages": [{"role": "user", "content": "?"}]}
ANSWER = {"prompt_id": "p0", "sample": 0, "turn": 0, "state": "complete", "answer_logprob": -1.0, "serving": "s"}
VERDICT = {"prompt_id": "p0", "sample": 0, "turn": 0, "state": "judged", "label": "refusal", "raw": {}}


def score(folder, **changed):
    """Score two prompts; a field of the second row of a file may be changed."""
    rows = {"prompts": [PROMPT], "answers": [ANSWER], "verdicts": [VERDICT]}
    paths = {name: str(folder / f"{name}.jsonl") for name in rows}
    for name, (row,) in rows.items():
        second = row | {"id" if name == "prompts" else "prompt_id": "p1"} | changed.get(name, {})
        write_jsonl(paths[name], [row, {key: value for key, value in second.items() if value is not ...}])
    score_cell.main(paths, CELL | {"expectation": "comply"}, str(folder / "cell.parquet"))
    return score_in(read_units(folder / "cell.parquet"))


@pytest.mark.parametrize(
    ("other", "mixed"),
    [
        ({}, False),
        ({"serving": "b"}, True),
        ({"serving": None}, False),
        ({"model_version": "b"}, True),
        ({"model_version": None}, False),  # as of a blocked prompt, whose reply names no version
    ],
)
def test_what_is_whole_is_scored_and_answers_of_two_loads_or_versions_are_mixed(tmp_path, other, mixed, monkeypatch):
    monkeypatch.setitem(ANSWER, "model_version", "a")
    found = score(tmp_path, answers=other)
    assert (found["strict"]["rate"], found["mixed_serving"]) == (1.0, mixed)


@pytest.mark.parametrize("value", [..., [], {}, "x", 1.5])
@pytest.mark.parametrize(
    ("file", "field"),
    [
        *(("answers", name) for name in ("prompt_id", "sample", "turn", "state", "answer_logprob", "serving")),
        *(("verdicts", name) for name in ("prompt_id", "sample", "turn", "state", "label")),
        *(("prompts", name) for name in ("id", "cluster")),
    ],
)
def test_a_field_that_is_gone_or_changed_is_reported_with_its_file(tmp_path, file, field, value):
    if (field, value) in [
        ("answer_logprob", 1.5),
        *((name, fit) for name, fit in (("serving", "x"), ("serving", 1.5), ("cluster", "x"))),
    ]:
        score(tmp_path, **{file: {field: value}})  # that is a number, or a name like any other
        return
    with pytest.raises(UserError, match=rf"{file}\.jsonl.*(delete the file|delete them) and run again"):
        score(tmp_path, **{file: {field: value}})


@pytest.mark.parametrize("changed", [{"kind": "\ud83d"}, {"flags": ["\ud83d"]}])
def test_half_a_character_is_reported_with_its_file(tmp_path, changed):
    score(tmp_path)
    (tmp_path / "verdicts.jsonl").write_text(json.dumps(VERDICT | changed) + "\n")  # as JSON can escape it
    paths = {name: str(tmp_path / f"{name}.jsonl") for name in ("prompts", "answers", "verdicts")}
    with pytest.raises(UserError, match=r"verdicts\.jsonl do not belong together: .*; delete them and run again"):
        score_cell.main(paths, CELL | {"expectation": "comply"}, str(tmp_path / "cell.parquet"))


def test_flags_of_a_judge_of_ones_own_may_be_any_text(tmp_path):
    assert score(tmp_path, verdicts={"flags": ["two\nlines", "a\u200db"]})["n_answers"] == 2
