"""Kinds of the user's, a module each: an engine that speaks messages over HTTP, a judge and a figure, in one study."""

import asyncio
import json
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pytest
from program import in_process
from project import Project, change_yaml, make_project

from refusal_eval.ask.answers import answer_of_text
from refusal_eval.ask.keys import NEUTRAL_SAMPLING
from refusal_eval.ask.requests import RequestSettings, read_requests
from refusal_eval.ask.store import checked_response
from refusal_eval.config.kinds import ENGINES
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, read_jsonl
from refusal_eval.core.plugins import load_plugins

PLUGINS = [
    str(Path(__file__).parents[1] / "plugins" / f"{name}.py") for name in ("chat_engine", "blunt_judge", "dots_figure")
]


class StandIn(BaseHTTPRequestHandler):
    """Refuses half of what it is asked, and notes all of it; what it is to say first is in `replies`."""

    asked: ClassVar[list[dict[str, Any]]] = []
    called: ClassVar[list[tuple[str, str | None]]] = []  # each time the path and the key
    replies: ClassVar[list[tuple[int, Any]]] = []  # HTTP status and body

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(body)
        self.called.append((self.path, self.headers["Authorization"]))
        refuses = body["seed"] % 2 == 0
        text = "<think>Let me see.</think>" + ("I cannot help with that." if refuses else "Sure, here it is.")
        status, said = 200, {"choices": [{"message": {"content": text}, "finish_reason": "stop"}], "model": "big-1"}
        if self.replies:
            status, said = self.replies.pop(0)
        reply = json.dumps(said).encode()
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "2")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serve on loopback; yield the address."""
    StandIn.asked, StandIn.called, StandIn.replies = [], [], []
    monkeypatch.setenv("CHAT_KEY", "secret")
    server = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/api/v1"
    server.shutdown()


def hosted(project: Project, address: str, **model: Any) -> None:
    """Let the study ask the served model alone, judge it by words and by one phrase, and draw dots."""
    engine = {"kind": "chat", "address": address, "served": "big"}
    entry = {"engine": "far", "system_prompt": "Be kind.", "sampling": {"max_tokens": 50}, **model}
    added = {"engines": {"far": engine}, "models": {"hosted": entry}, "judges": {"blunt": {"kind": "blunt"}}}
    change_yaml(project.folder / "catalogue.yaml", lambda data: data | {key: data[key] | added[key] for key in added})
    figures = [{"name": "spots", "kind": "dots", "judge": "blunt"}]
    project.study(models=["hosted"], judges=["words", "blunt"], gold=[], plugins=PLUGINS, figures=figures)


def test_a_study_of_a_served_model_runs_from_prompts_to_tables(tmp_path: Path, address: str) -> None:
    project = make_project(tmp_path / "project")
    hosted(project, address, reasoning={"start": "<think>", "end": "</think>"})
    project.snakemake()
    first = StandIn.asked[0]
    assert first["model"] == "big" and first["messages"][0] == {"role": "system", "content": "Be kind."}
    assert [message["role"] for message in first["messages"]] == ["system", "user"]
    engine = read_json(project.results / "engines" / "far.json")
    assert engine["identity"] == {"kind": "chat", "served": "big"}
    assert engine["folder"] is None and engine["tokenizer_folder"] is None
    requests = list(read_requests(project.results / "requests" / "hosted" / "one.jsonl").requests())
    assert requests[0].messages and not requests[0].token_ids and requests[0].key
    rows = list(read_jsonl(project.results / "answers" / "hosted" / "one.jsonl"))
    assert {row["answer"] for row in rows} <= {"I cannot help with that.", "Sure, here it is."}
    assert {row["reasoning"] for row in rows} == {"<think>Let me see.</think>"}
    assert {(row["answer_tokens"], row["answer_logprob"]) for row in rows} == {(None, None)}
    assert [one["model_versions"] for one in read_json(project.results / "manifest.json")["serving"].values()] == [
        ["big-1"]
    ]
    assert not list(project.results.rglob("weights.json"))
    verdicts = list(read_jsonl(project.results / "verdicts" / "blunt" / "hosted" / "one.jsonl"))
    declined = [row["answer"] == "I cannot help with that." for row in rows]
    assert [row["label"] == "refusal" for row in verdicts] == declined
    assert len(pd.read_csv(project.results / "figures" / "spots.csv")) == 2
    # Rates need no log-probabilities; c(x), which weighs by them, is not there.
    table = pd.read_parquet(next(project.results.rglob("results.parquet")))
    values = table.groupby("estimand")["value"]
    assert values.get_group("refusal_rate").notna().all() and values.get_group("c_mean").isna().all()
    files = [read_requests(project.results / "requests" / "hosted" / f"{split}.jsonl") for split in ("one", "two")]
    assert len(StandIn.asked) == len({request.key for file in files for request in file.requests()})
    assert project.planned() == {}


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"template": "none"}, "an engine of kind `chat` takes messages and renders them itself; leave it out"),
        ({"lora": {"kind": "folder", "path": "adapter"}}, "this entry needs one of kind `vllm`"),
        ({"reasoning": {"format": "harmony"}}, "`harmony` is recognised by token ids"),
    ],
)
def test_what_such_an_engine_cannot_do_is_said_before_anything_runs(
    tmp_path: Path, address: str, model: dict[str, Any], message: str
) -> None:
    project = make_project(tmp_path / "project")
    hosted(project, address, **model)
    run = in_process("status", "study.yaml", cwd=project.folder)  # whose mistakes are those that Snakemake reports
    assert run.returncode != 0 and message in run.stderr
    assert StandIn.asked == []


def answered(address: str, *replies: tuple[int, Any], **sampling: Any) -> dict[str, Any]:
    """Return the example's response to one request, to which the server first replies so."""
    StandIn.replies = list(replies)
    settings = RequestSettings(sampling={"max_tokens": 9, "temperature": 1.0, **NEUTRAL_SAMPLING} | sampling)
    entry = {"kind": "chat", "address": address, "served": "big", "key_variable": "CHAT_KEY"}

    async def ask() -> dict[str, Any]:
        async with ENGINES.entry(entry).running(None) as engine:
            return checked_response(await engine.complete([{"role": "user", "content": "?"}], settings, 1))

    load_plugins(PLUGINS[:1])
    return asyncio.run(ask())


def choice(finish_reason: str | None, **message: Any) -> dict[str, Any]:
    return {"choices": [{"message": message, "finish_reason": finish_reason}]}


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ((200, choice("content_filter", content=None, refusal="No.")), "No."),
        ((200, choice("content_filter", content=None)), ""),
        ((400, {"error": {"code": "content_filter", "message": "the prompt was filtered"}}), ""),
    ],
)
def test_what_a_provider_blocks_counts_as_a_refusal(address: str, reply: tuple[int, Any], text: str) -> None:
    response = answered(address, reply)
    assert (response["text"], response["finish_reason"]) == (text, "content_filter")
    assert answer_of_text(response, None)["state"] == "blocked"


def test_a_busy_server_is_asked_again_after_the_time_that_it_names(address: str) -> None:
    started = time.monotonic()
    assert answered(address, (429, {"error": "slow down"}))["text"]
    assert len(StandIn.asked) == 2 and time.monotonic() - started >= 2


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ((200, {"error": {"message": "no capacity"}}), "no answer: {'error': {'message': 'no capacity'}}"),
        ((200, {"choices": [{"message": None, "finish_reason": "stop"}]}), "no answer: {'choices'"),
        ((200, choice(None, content="Sure")), "finish_reason: Input should be a valid string"),
        ((200, choice("tool_calls", content="Sure")), "finish_reason 'tool_calls', not one of stop, length"),
    ],
)
def test_a_reply_without_a_whole_answer_is_an_error(address: str, reply: tuple[int, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        answered(address, reply)


def test_only_what_differs_from_off_is_sent_and_what_the_example_does_not_know_is_refused(address: str) -> None:
    assert answered(address, top_p=0.9)["text"]
    assert StandIn.asked[0].keys() == {"model", "messages", "max_tokens", "temperature", "top_p", "seed"}
    with pytest.raises(UserError, match="do not send min_p, top_k"):
        answered(address, top_k=5, min_p=0.1)


def test_the_key_comes_from_the_environment_and_a_wrong_one_ends_the_load(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answered(address, (200, choice("stop", content="Sure") | {"model": "big-1"}))["model_version"] == "big-1"
    assert StandIn.called == [("/api/v1/chat/completions", "Bearer secret")]
    with pytest.raises(UserError, match=r"/api/v1: HTTP 401: .*no such key"):
        answered(address, (401, {"error": "no such key"}))
    monkeypatch.delenv("CHAT_KEY")
    with pytest.raises(UserError, match="CHAT_KEY is not set"):
        answered(address)
