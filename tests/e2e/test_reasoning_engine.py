"""Marks of reasoning in responses of the real engine: the small model is made to write them by structured output."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from engine_entries import server as server_of
from project import ROOT, Project
from real import real_project

from refusal_eval.ask.answers import AnswerReader
from refusal_eval.ask.keys import NEUTRAL_SAMPLING
from refusal_eval.ask.render import Renderer, stop_token_ids
from refusal_eval.ask.requests import Request, RequestSettings
from refusal_eval.core.files import read_json
from refusal_eval.core.packing import unpack_floats
from refusal_eval.study.engine_environment import engine_python

pytestmark = pytest.mark.full
TEXT = {"format": "marks", "start": "<think>", "end": "</think>"}  # in SmolLM2 no single tokens
TOKEN = {"format": "marks", "start": "<file_sep>", "end": "<jupyter_text>"}  # single special tokens of SmolLM2
WORDS = "[a-z ]{8,40}"
MESSAGES = [{"role": "user", "content": "Name a colour, and why you like it."}]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the identity file of the small model's engine, weights and tokenizer at hand."""
    project = real_project(tmp_path_factory.mktemp("engine") / "project")
    project.snakemake("--until", "identify_engine")
    return {**read_json(project.results / "engines" / "smollm2-135m.json"), "entry": entry_of(project)}


def entry_of(project: Project) -> dict[str, Any]:
    import yaml

    config = yaml.safe_load((project.results / "config.yaml").read_text())
    return dict(config["engine_entries"]["smollm2-135m"])


def constrained(pattern: str, stops: list[int]) -> dict[str, Any]:
    sampling = {"max_tokens": 60, "temperature": 1.0, "stop_token_ids": stops}
    return {**NEUTRAL_SAMPLING, **sampling, "structured_outputs": {"regex": pattern}}


@pytest.fixture(scope="module")
def responses(engine: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the prompt's ids and what the engine answered under each pattern."""
    folder = engine["folder"] if Path(engine["folder"]).is_absolute() else str(ROOT / engine["folder"])
    tokenizer = engine["tokenizer_folder"]
    renderer = Renderer(tokenizer)
    prompt, stops = renderer.token_ids(MESSAGES), stop_token_ids(tokenizer, renderer.tokenizer.eos_token_id)
    marks = [renderer.tokenizer.convert_tokens_to_ids(TOKEN[mark]) for mark in ("start", "end")]
    patterns = {
        "text": f"<think>{WORDS}</think>{WORDS}",
        "open": f"{WORDS}</think>{WORDS}",
        "unfinished": f"<think>{WORDS}",
        "none": WORDS,
        "token": f"<file_sep>{WORDS}<jupyter_text>{WORDS}",
    }

    async def ask() -> dict[str, Any]:
        python, log = engine_python(engine["entry"], ROOT), tmp_path_factory.mktemp("log") / "server.log"
        async with server_of(engine["entry"], folder, python, "cpu", "seeded", log) as server:
            found = {}
            for name, pattern in patterns.items():
                sampling = constrained(pattern, stops)
                if name == "token":  # the small model would spell the marks out
                    sampling["logit_bias"] = {str(mark): 100 for mark in marks}
                found[name] = await server.complete(prompt, RequestSettings(sampling=sampling), 7)
            return found

    return {"prompt": prompt, "tokenizer": tokenizer, **asyncio.run(ask())}


def fields(responses: dict[str, Any], name: str, reasoning: dict[str, Any], prompt: list[int] | None = None) -> Any:
    reader = AnswerReader(responses["tokenizer"], reasoning, False)
    request = Request("p", 0, 0, "key", 1, prompt or responses["prompt"])
    return reader.fields(request, responses[name])


def test_only_what_follows_the_end_mark_is_the_answer(responses: dict[str, Any]) -> None:
    response = responses["text"]
    before, after = response["text"].split("</think>")
    read = fields(responses, "text", TEXT)
    assert read["state"] == "complete" and read["answer"].strip() == after.strip()
    assert before.replace("<think>", "").strip() in read["reasoning"] and after not in read["reasoning"]
    logprobs = unpack_floats(response["logprobs"])
    # The answer's tokens are the last ones before the stop token, and only they weigh.
    assert 0 < read["answer_tokens"] < len(logprobs)
    own = logprobs[: len(logprobs) - 1][-read["answer_tokens"] :]
    assert read["answer_logprob"] == pytest.approx(float(own.mean()), abs=1e-6)


def test_a_reasoning_that_the_template_opened_ends_at_the_mark_too(responses: dict[str, Any]) -> None:
    read = fields(responses, "open", TEXT)
    assert read["answer"].strip() == responses["open"]["text"].split("</think>")[1].strip()


def test_a_reasoning_without_an_end_is_no_answer(responses: dict[str, Any]) -> None:
    read = fields(responses, "unfinished", TEXT)
    assert read["answer"] in (None, "") and read["state"] not in ("complete", "truncated")


def test_a_response_without_marks_is_all_answer(responses: dict[str, Any]) -> None:
    assert fields(responses, "none", TEXT)["answer"].strip() == responses["none"]["text"].strip()


def test_marks_that_are_tokens_are_found_as_token_ids(responses: dict[str, Any]) -> None:
    tokenizer = Renderer(responses["tokenizer"]).tokenizer
    end = tokenizer.convert_tokens_to_ids("<jupyter_text>")
    ids = responses["token"]["token_ids"]
    assert end in ids, "the engine wrote the mark in other tokens"
    read = fields(responses, "token", TOKEN)
    assert read["answer"].strip() == tokenizer.decode(ids[ids.index(end) + 1 :], skip_special_tokens=True).strip()
