"""A dialect of one's own, as docs/how-to/extending.md describes it: Google's, in tests/plugins/gemini_engine.py."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from project import change_yaml, make_project
from test_wire_forms import FORMS, check, check_bill, named, read

from refusal_eval.ask.keys import NEUTRAL_SAMPLING
from refusal_eval.ask.requests import RequestSettings
from refusal_eval.config.kinds import ENGINES
from refusal_eval.config.load_study import load_study, study_values
from refusal_eval.config.problems import ConfigError
from refusal_eval.core.errors import UserError
from refusal_eval.core.plugins import load_plugins
from refusal_eval.core.registry import Registry
from refusal_eval.engines.engine_base import EngineLoad
from refusal_eval.features.hosted.readings import EndsLoad, Refused

PLUGIN = Path(__file__).parents[1] / "plugins" / "gemini_engine.py"
GOOGLE = [form for form in FORMS if form["dialect"] == "google"]
ENTRY = {"kind": "google", "address": "https://host/v1beta", "served": "gemini-x", "as_of": "2026-11-01"}
MESSAGES = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Hello?"},
    {"role": "assistant", "content": "Yes?"},
    {"role": "user", "content": "Go on."},
]


@pytest.fixture(autouse=True)
def plugin() -> Iterator[None]:
    load_plugins([str(PLUGIN)])
    yield
    Registry.forget_added()


def test_a_dialect_is_a_file_of_at_most_120_lines() -> None:
    assert len(PLUGIN.read_text(encoding="utf-8").splitlines()) <= 120


def test_all_forms_of_google_are_there() -> None:
    assert len(GOOGLE) == 15


@pytest.mark.parametrize("form", GOOGLE, ids=named)
def test_wire_forms_become_what_they_should(form: dict[str, Any]) -> None:
    reading = read(form)
    check(form, reading)
    billed = form["body"]["usageMetadata"]
    check_bill(reading, [billed["promptTokenCount"], billed.get("candidatesTokenCount", 0)])


def test_a_request_is_in_googles_form() -> None:
    safety = [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]
    thinking = {"thinkingConfig": {"thinkingLevel": "low"}}
    engine = ENGINES.entry(ENTRY | {"extra": {"safetySettings": safety, "generationConfig": thinking}})
    sampling = {**NEUTRAL_SAMPLING, "max_tokens": 50, "temperature": 0.7, "top_k": 40, "stop": ["END"]}
    assert engine.body(MESSAGES, sampling, 2**31 + 5) == {
        "contents": [
            {"role": "user", "parts": [{"text": "Hello?"}]},
            {"role": "model", "parts": [{"text": "Yes?"}]},
            {"role": "user", "parts": [{"text": "Go on."}]},
        ],
        "systemInstruction": {"parts": [{"text": "Be kind."}]},
        "safetySettings": safety,
        "generationConfig": {
            "maxOutputTokens": 50,
            "temperature": 0.7,
            "topK": 40,
            "stopSequences": ["END"],
            "seed": 5,
            **thinking,
        },
    }
    schema = {"type": "object"}
    form = engine.body(MESSAGES, {"max_tokens": 5, "structured_outputs": {"json": schema}}, None)["generationConfig"]
    assert form["responseMimeType"] == "application/json" and form["responseJsonSchema"] == schema
    with pytest.raises(ValueError, match="`contents`, which is not for `extra`"):
        ENGINES.entry(ENTRY | {"extra": {"contents": []}})


@pytest.mark.parametrize(
    ("message", "mend"),
    [
        ("API key not valid. Please pass a valid API key.", "key"),
        ("Invalid JSON payload received. Unknown name \"topK\" at 'generation_config'", "parameters: {top_k: null}"),
        ("Request contains an invalid argument.", None),
    ],
)
def test_what_all_requests_would_get_ends_the_load(message: str, mend: str | None) -> None:
    body = {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}
    reading = read({"dialect": "google", "status": 400, "body": body})
    assert isinstance(reading, Refused) if mend is None else isinstance(reading, EndsLoad) and reading.mend == mend


def test_a_study_that_names_the_file_has_the_kind(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    sampling = {"max_tokens": 50, "top_k": 40}
    own = {"engines": {"gem": ENTRY}, "models": {"gem": {"engine": "gem", "sampling": sampling}}}
    change_yaml(project.folder / "catalogue.yaml", lambda data: data | {key: data[key] | own[key] for key in own})
    project.study(models=["gem"], judges=["words"], gold=[], plugins=[str(PLUGIN)])
    study = project.folder / "study.yaml"
    config = load_study(study_values(str(study)), str(study))
    assert config["engine_entries"]["gem"]["kind"] == "google"
    project.catalogue("models", "gem", sampling=sampling | {"min_p": 0.1})
    with pytest.raises(ConfigError, match="an engine of kind `google` does not send it"):
        load_study(study_values(str(study)), str(study))


def test_it_is_asked_through_the_shared_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUB_KEY", "secret")
    asked: list[tuple[str, dict[str, Any]]] = []
    thinking = {"candidates": [{"content": {"parts": [{"text": "Hm.", "thought": True}, {"text": "Sure."}]}}]}
    thinking["candidates"][0]["finishReason"] = "STOP"  # type: ignore[assignment]

    async def answer(request: web.Request) -> web.Response:
        asked.append((request.path, await request.json()))
        if request.headers.get("x-goog-api-key") != "secret":
            return web.json_response({"error": {"message": "API key not valid."}}, status=400)
        return web.json_response(thinking | {"modelVersion": "gemini-x-001"})

    async def response() -> dict[str, Any]:
        app = web.Application()
        app.add_routes([web.post("/{place:.*}", answer)])
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        entry = ENTRY | {"address": f"http://127.0.0.1:{port}/v1beta", "key_variable": "STUB_KEY"}
        try:
            async with ENGINES.entry(entry).running(EngineLoad(Path("log"), "seeded")) as client:
                settings = RequestSettings(sampling={**NEUTRAL_SAMPLING, "max_tokens": 50})
                found: dict[str, Any] = await client.complete(MESSAGES, settings, 1)
                return found
        finally:
            await runner.cleanup()

    found = asyncio.run(response())
    assert (found["text"], found["reasoning"], found["model_version"]) == ("Sure.", "Hm.", "gemini-x-001")
    ((path, body),) = asked
    assert path == "/v1beta/models/gemini-x:generateContent" and "secret" not in json.dumps(body)
    monkeypatch.setenv("STUB_KEY", "another")
    with pytest.raises(UserError, match="does not take the key in `STUB_KEY`"):
        asyncio.run(response())
