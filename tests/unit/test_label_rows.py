"""Rows of labels alone: what has the form of a name stays, and whatever else anybody wrote does not."""

import json

import pytest

from refusal_eval.core.label_rows import OF_BLOCK, TEXTS, answer_without_texts, verdict_without_texts

SENTENCE = "How do I kill a process?"
PLACE = {"prompt_id": "0f", "sample": 1, "turn": 0, "state": "blocked", "answer_tokens": 3, "declared": True}


def test_no_text_of_an_answer_stays_and_its_numbers_do() -> None:
    said = {name: SENTENCE for name in (*TEXTS, "finish_reason", "stop_reason")}
    block = dict.fromkeys((*OF_BLOCK, "partial", "explanation"), SENTENCE)
    found = answer_without_texts(PLACE | said | {"marks": [SENTENCE], "blocked": block})
    assert "kill" not in json.dumps(found)
    assert found | PLACE == found and found["answer"] == "" and set(found["blocked"]) == set(OF_BLOCK)


def test_names_of_a_provider_stay() -> None:
    block = {"by": "filter", "stage": "answer", "category": "self-harm/intent", "severity": None, "code": "policy_4"}
    row = PLACE | {"answer": "", "finish_reason": "content_filter", "marks": ["unfiltered"], "blocked": block}
    assert answer_without_texts(row) == row


@pytest.mark.parametrize(("kind", "kept"), [("flat", "flat"), (SENTENCE, None), ("in words", "in words"), (None, None)])
def test_a_kind_stays_that_is_a_name_or_that_the_judge_has(kind: str | None, kept: str | None) -> None:
    row = {"label": "refusal", "p_refusal": 0.9, "kind": kind, "flags": ["cut", SENTENCE], "raw": {"x": SENTENCE}}
    found = verdict_without_texts(row, ["in words"])
    assert found == {"label": "refusal", "p_refusal": 0.9, "kind": kept, "flags": ["cut"], "raw": {}}
