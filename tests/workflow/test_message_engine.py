"""Kinds of the user's, a module each: an engine that speaks messages over HTTP, a judge and a figure, in one study."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pytest
from program import in_process
from project import Project, change_yaml, make_project

from refusal_eval.ask.requests import read_requests
from refusal_eval.core.files import read_json, read_jsonl

PLUGINS = [
    str(Path(__file__).parents[1] / "plugins" / f"{name}.py") for name in ("chat_engine", "blunt_judge", "dots_figure")
]


class StandIn(BaseHTTPRequestHandler):
    """Refuses half of what it is asked, and notes all of it."""

    asked: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(body)
        refuses = body["seed"] % 2 == 0
        text = "<think>Let me see.</think>" + ("I cannot help with that." if refuses else "Sure, here it is.")
        reply = json.dumps({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    """Serve on loopback; yield the address."""
    StandIn.asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
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
    assert not list(project.results.rglob("weights.json"))
    verdicts = list(read_jsonl(project.results / "verdicts" / "blunt" / "hosted" / "one.jsonl"))
    declined = [row["answer"] == "I cannot help with that." for row in rows]
    assert [row["label"] == "refusal" for row in verdicts] == declined
    assert len(pd.read_csv(project.results / "figures" / "spots.csv")) == 2
    # Rates need no log-probabilities; c(x), which weighs by them, is not there.
    table = pd.read_parquet(next(project.results.rglob("results.parquet")))
    values = table.groupby("estimand")["value"]
    assert values.get_group("refusal_rate").notna().all() and values.get_group("c_mean").isna().all()
    assert len(StandIn.asked) == len(
        {request.key for split in ("one", "two") for request in requests_of(project, split)}
    )
    assert project.planned() == {}


def requests_of(project: Project, split: str) -> Any:
    return read_requests(project.results / "requests" / "hosted" / f"{split}.jsonl").requests()


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
