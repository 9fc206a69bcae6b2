"""Answers of several files become one study: models, splits with one expectation each, system messages, scorers."""

from pathlib import Path

import pytest
from answer_files import INSPECT, LM_EVAL

from refusal_eval.core.errors import UserError
from refusal_eval.data.prompts import content_id
from refusal_eval.features.recorded_logs.answer_set import Read, put_together, read_files, without_own_systems
from refusal_eval.features.recorded_logs.catalogue_match import Known
from refusal_eval.features.recorded_logs.gold_file import gold_rows
from refusal_eval.features.recorded_logs.table_reader import TableReader

NOTHING = {"models": (), "splits": ()}
FREE = "recorded_logs"
pytestmark = pytest.mark.feature(FREE)


def row(prompt="Hi", **more):
    return {"prompt": prompt, "answer": "Hello", "model": "one"} | more


def together(*rows, known=None, expect=None, taken=NOTHING, file="answers.jsonl"):
    read, systems = without_own_systems([Read(Path(file), list(rows), [])])
    return put_together(read, systems, known or {}, expect, taken)


def test_a_split_has_one_expectation():
    found = together(row("a", expectation="comply"), row("b", expectation="refuse"), row("c"))
    assert found.expectations == {"answers-comply": "comply", "answers-refuse": "refuse", "answers-varies": "varies"}
    assert {one["split"] for one in found.models["one"]} == set(found.splits)
    assert together(row("a", expectation="comply"), row("b"), expect="refuse").expectations == {"answers": "refuse"}


def test_names_that_the_catalogue_has_are_not_taken_again():
    taken = {"models": {"one", "gold"}, "splits": {"xstest"}}
    found = together(row(split="XSTest"), row("b", split="XSTest", model="gold"), taken=taken)
    assert list(found.splits) == ["xstest-here"] and found.labels == {"one-here": "one", "gold-here": "gold"}


def test_models_whose_names_are_alike_stay_apart():
    found = together(row(model="A/b"), row(model="a b"))
    assert len(set(found.labels)) == 2 and sorted(found.labels.values()) == ["A/b", "a b"]


def test_what_the_catalogue_knows_counts_unless_the_user_says_it():
    known = {content_id([{"role": "user", "content": "Hi"}]): Known("xstest", "comply", "home", "pair-3")}
    found = together(row(expectation="refuse", category="mine"), known=known)
    assert found.expectations == {"answers": "comply"}
    assert found.splits["answers"][0]["category"] == "home" and found.splits["answers"][0]["cluster"] == "pair-3"
    assert together(row(), known=known, expect="varies").expectations == {"answers": "varies"}


def test_a_models_own_system_message_does_not_keep_its_prompts_apart():
    system = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]
    asked = {"messages": system, "answer": "Hello", "model": "two"}
    found = together(row(), asked)
    assert len(found.splits["answers"]) == 1 and found.systems == {"two": "Be kind."}
    assert found.lost == [
        "two: its system message differs from that of other models, and its prompts are compared without it"
    ]
    kept = together(asked, asked | {"messages": [system[0], {"role": "user", "content": "Ho"}]})
    assert kept.systems == {} and kept.splits["answers"][0]["messages"] == system
    of_prompts = together(row(), row("Ho", model="two"), asked)  # a system message of one prompt is part of that prompt
    assert of_prompts.systems == {} and system in [prompt["messages"] for prompt in of_prompts.splits["answers"]]


def test_scorers_of_some_models_only_are_left_out_and_said_to_be():
    label = {"by": "a", "label": "refusal"}
    found = together(row(labels=[label, label | {"by": "b"}]), row(model="two", labels=[label]))
    assert found.scorers == ["a"] and "labels of `b` are about some models only, and are left out" in found.lost


def test_most_answers_to_a_prompt_are_k_and_states_are_counted():
    found = together(row(), row(), row("b"), row("b", model="two", finish_reason="length"))
    assert found.samples == 2 and found.prompts == 2 and found.states == {"complete": 3, "truncated": 1}
    assert not found.thinks("one") and together(row(answer="<think>a</think>b")).thinks("one")


def test_folders_give_the_logs_in_them_and_files_what_is_lost_once():
    read = read_files([LM_EVAL], {})
    assert [one.file.parent.name for one in read] == ["acme__careful", "acme__open"]
    found = put_together(*without_own_systems(read), {}, None, NOTHING)
    assert found.prompts == 6 and found.systems == {"acme-careful": "Be kind."} and len(found.lost) == 3
    logs = put_together(*without_own_systems(read_files([INSPECT / "acme_open.eval"], {})), {}, None, NOTHING)
    assert logs.systems == {} and logs.scorers == ["refusal_judge"]
    with pytest.raises(UserError, match=r"is a folder without answers\.parquet, .* or samples_\*\.jsonl in it"):
        read_files([LM_EVAL.parent / "plain"], {})


def test_unknown_finish_reasons_are_said(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"prompt": "a", "answer": "b", "finish_reason": "odd"}\n')
    [read] = read_files([tmp_path / "a.jsonl"], {})
    assert read.lost == ["1 answers end as `odd`, which is not known: they count as complete"]


def test_peoples_labels_are_read_without_reasoning_and_without_rows_that_have_none(tmp_path):
    table = tmp_path / "people.csv"
    table.write_text(
        "prompt,answer,human_label,model\na,<think>x</think>Yes,1_full_compliance,m\nb,No,,m\nc,No,refusal,m\n"
    )
    found = gold_rows(table, {})
    assert [(one["answer"], one["label"], one["model"]) for one in found] == [
        ("Yes", "compliance", "m"),
        ("No", "refusal", "m"),
    ]
    table.write_text("prompt,answer\na,b\n")
    with pytest.raises(UserError, match=r"has no column `label` for `label`"):
        gold_rows(table, {})
    with pytest.raises(UserError, match="is no table"):
        gold_rows(INSPECT / "acme_open.eval", {})


def test_files_of_converters_that_lose_answers_are_refused(tmp_path):
    file = tmp_path / "x_samples.jsonl"
    file.write_text('{"schema_version": "0.3.0", "evaluation_id": "a", "evaluation_result_id": "b", "output": {}}\n')
    with pytest.raises(UserError, match="is a sample file of Every Eval Ever"):
        TableReader().read(file, {})
