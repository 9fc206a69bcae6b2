"""What becomes of the replies of hosted engines, form by form."""

import json
from pathlib import Path
from typing import Any

import pytest

from refusal_eval.ask.answers import answer_of_text, said_beside
from refusal_eval.ask.store import checked_response
from refusal_eval.config.kinds import ENGINES
from refusal_eval.features.hosted.price import Price
from refusal_eval.features.hosted.readings import Again, Answered, EndsLoad, Reply, ReplyReading

FORMS = [json.loads(line) for line in Path(__file__).with_name("wire_forms.jsonl").read_text().splitlines()]
SPOKEN = [form for form in FORMS if form["dialect"] in ENGINES.names()]
UNSPOKEN = [form for form in FORMS if form["dialect"] not in ENGINES.names()]
PRICE = Price(input=2, output=10, date="2026-11-01")  # type: ignore[arg-type]


def read(form: dict[str, Any], **entry: Any) -> ReplyReading:
    """Return what becomes of the reply of a form."""
    about = {"kind": form["dialect"], "address": "https://host/v1", "served": "m", "as_of": "2026-11-01", **entry}
    text = form["body"] if isinstance(form["body"], str) else json.dumps(form["body"])
    headers = {name.lower(): value for name, value in form.get("headers", {}).items()}
    body = None if isinstance(form["body"], str) else form["body"]
    reading: ReplyReading = ENGINES.entry(about).reading(Reply(form["status"], headers, body, text))
    return reading


def named(form: dict[str, Any]) -> str:
    return f"{form['dialect']}: {form['name']}"


@pytest.mark.parametrize("form", SPOKEN, ids=named)
def test_wire_forms_become_what_they_should(form: dict[str, Any]) -> None:
    reading = read(form)
    check(form, reading)
    if isinstance(form["body"], dict):
        billed = form["body"].get("usage")
        check_bill(reading, [billed.get(name, 0) + billed.get(other, 0) for name, other in SAME] if billed else None)


def check(form: dict[str, Any], reading: ReplyReading) -> None:
    """Assert that a reply has become what its form says."""
    expected = form["expect"]
    assert isinstance(reading, Again) == expected["retried"]
    assert (reading.mend if isinstance(reading, EndsLoad) else None) == expected["ends_load"]
    if expected["state"] is None:
        assert not isinstance(reading, Answered)
        return
    assert isinstance(reading, Answered)
    response = checked_response(reading.response)
    answer = answer_of_text(response, None) | said_beside(response)
    if reading.other_model is None:
        assert answer["state"] == expected["state"]
    block = answer.get("blocked") or {}
    for name in ("by", "stage", "category", "severity", "partial"):
        assert block.get(name) == expected[name], name
    assert answer.get("declared", False) == expected["declared"]
    assert answer.get("marks", []) == expected["marks"]
    if expected["state"] in ("complete", "truncated"):
        assert answer["answer"] == expected["text"]
    if expected["state"] == "blocked":
        assert answer["answer"] == ""  # what came before the block is no answer


def check_bill(reading: ReplyReading, tokens: list[int] | None) -> None:
    """Assert that tokens of prompt and answer are those that the reply names, if it does."""
    if not isinstance(reading, Answered):
        return
    assert ("usage" in reading.response) == (tokens is not None)
    if tokens is not None:
        assert PRICE.cost(reading.response["usage"]) * 1_000_000 == 2 * tokens[0] + 10 * tokens[1]


SAME = (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens"))


def test_all_wire_forms_of_both_dialects_are_there() -> None:
    assert len(SPOKEN) == 46


@pytest.mark.parametrize("form", UNSPOKEN, ids=named)
def test_wire_forms_of_further_dialects(form: dict[str, Any]) -> None:
    pytest.skip(f"no kind of engine speaks {form['dialect']}; its models are asked in the form of `openai`")
