"""Another tool reads the same replies: the OpenAI and Anthropic providers of inspect_ai, in an environment of its own.

It knows six words for how an answer ended, and raises the rest. Where it says something else than we do, the difference
is named here, with why ours is meant: a difference that is not named, or is no longer there, fails.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from stub_provider import StubProvider
from stub_replies import DIALECTS, wire_forms

from refusal_eval.ask.answers import answer_of_text, said_beside
from refusal_eval.config.kinds import ENGINES
from refusal_eval.features.hosted.readings import Answered, Reply

pytestmark = pytest.mark.full
# Our states in its words; it raises an error where we end the load, ask again, or call the answer failed.
WORDS = {
    "complete": "stop",
    "truncated": "max_tokens",
    "truncated_reasoning": "max_tokens",
    "too_long": "model_length",
    "blocked": "content_filter",
    "failed": "raised",
    None: "raised",
}
MEANT = {
    # Blocks that are errors to it: of a gateway, of a guardrail, or in words that it does not know.
    ("openai", "OpenRouter 403 moderation"): "raised",
    ("openai", "OpenRouter 403 refusal"): "raised",
    ("openai", "Mistral 403 guardrail"): "raised",
    ("openai", "DeepSeek 400"): "raised",
    # The stop reason of another dialect, which a gateway passes on: a block, and it says that it does not know it.
    ("openai", "Claude through a gateway"): "unknown",
    # The upstream's error under 200, which it takes for an answer of half a word: asked again here.
    ("openai", "OpenRouter error in the choice"): "unknown",
    # A reply without an answer, which is an output without a choice there.
    ("openai", "no choices"): None,
    # Another model than the one that was asked: an answer there, failed here.
    ("anthropic", "a fallback model answered"): "stop",
    # Cut at the model's own limit, for which it has no word in this dialect.
    ("anthropic", "context exceeded"): "unknown",
}
# Categories that only we read.
OWN_CATEGORIES = {("openai", "Azure 400 filter")}


def ours(dialect: str, name: str) -> dict[str, Any]:
    """Return the answer that we make of a reply; without a state where the load ends or the request is sent again."""
    form = wire_forms(dialect)[name]
    entry = {"kind": dialect, "address": "https://host/v1", "served": "m", "as_of": "2026-11-01"}
    body = None if isinstance(form["body"], str) else form["body"]
    text = json.dumps(form["body"]) if body else form["body"]
    reading = ENGINES.entry(entry).reading(Reply(form["status"], {}, body, text))
    if not isinstance(reading, Answered) or reading.other_model is not None:
        return {"state": None}
    return answer_of_text(reading.response, None) | said_beside(reading.response)


@pytest.fixture(scope="module")
def readings(oracle: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return what inspect_ai makes of each reply."""
    forms = [(dialect, name) for dialect in DIALECTS for name in wire_forms(dialect)]
    models = {f"{dialect}-{i}": {"always": name} for i, (dialect, name) in enumerate(forms)}
    with StubProvider(models=models) as stub:
        jobs = []
        for model, (dialect, _) in zip(models, forms, strict=True):
            address = stub.address if dialect == "openai" else stub.address.removesuffix("/v1")
            jobs.append({"dialect": dialect, "model": model, "address": address, "key": stub.options.key})
        lines = "".join(json.dumps(job) + "\n" for job in jobs)
        program = str(Path(__file__).with_name("ask_inspect.py"))
        run = subprocess.run([oracle, program], input=lines, capture_output=True, text=True, timeout=300)
        assert run.returncode == 0, run.stderr
        said = [json.loads(line) for line in run.stdout.splitlines()]
        assert {entry["model"] for entry in stub.entries} == set(models)  # each form was sent
    return dict(zip(forms, said, strict=True))


def test_both_read_each_reply_alike_but_for_the_differences_that_are_meant(
    readings: dict[tuple[str, str], dict[str, Any]],
) -> None:
    differences = {}
    for (dialect, name), reading in readings.items():
        word = "raised" if "raised" in reading else reading["stop_reason"]
        if word != WORDS[ours(dialect, name)["state"]]:
            differences[dialect, name] = word
    assert differences == MEANT


def test_both_read_the_same_text_partial_answer_category_and_declared_refusal(
    readings: dict[tuple[str, str], dict[str, Any]],
) -> None:
    compared = 0
    for place, reading in readings.items():
        if "raised" in reading or place in MEANT:
            continue
        compared += 1
        answer = ours(*place)
        block = answer.get("blocked") or {}
        if wire_forms(place[0])[place[1]]["status"] == 200:  # of an error it takes the message for the answer
            assert reading["completion"] == (block.get("partial") or answer["answer"]), place
        if place not in OWN_CATEGORIES:
            assert reading["category"] == block.get("category"), place
        if answer["state"] == "complete":
            assert reading["declined"] == answer.get("declared", False), place
    assert compared > 20
