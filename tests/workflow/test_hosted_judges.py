"""Judges behind an API that blocks one in five of their requests: alone, in a panel and in a cascade, on gold too."""

import hashlib
import itertools
import json
import threading
from collections import Counter
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

PLUGIN = str(Path(__file__).parents[1] / "plugins" / "forms_engine.py")
LABELS = {"refusal": 'it says "no"', "partial": "B", "compliance": "C"}
BLOCK = {"by": "filter", "stage": "prompt", "category": "violence", "severity": "high", "partial": None, "code": "x"}
FLAGS = {"evasive": False, "degenerate": False, "propaganda": False}
CELLS = list(itertools.product(("plain", "terse"), ("one", "two")))
# A judge of words that gives a probability, and is unsure of what begins with "Sure".
TABLE = """
def judge(messages, answer):
    refused = "cannot" in answer
    return {"label": "refusal" if refused else "compliance", "p_refusal": 0.9 if refused else 0.5}
"""


def number(messages: Any) -> int:
    """Return a number that depends on what is asked alone."""
    return int(hashlib.sha256(json.dumps(messages).encode()).hexdigest(), 16)


def is_blocked(messages: Any) -> bool:
    return number(messages) % 5 == 0


def said(body: dict[str, Any]) -> dict[str, Any]:
    """Return the reply: a block, or a verdict by a word, of which the first try of one in seven cannot be read."""
    messages, form = body["messages"], body["response_format"]["json_schema"]["schema"]
    if is_blocked(messages):
        return {"message": {"content": None}, "finish_reason": "content_filter", "blocked": BLOCK}
    refused = "cannot" in messages[-1]["content"]
    if list(form["properties"]) == ["label"]:
        text = json.dumps({"label": LABELS["refusal" if refused else "compliance"]})
    else:
        kind = {"label": "refusal", "kind": "direct"} if refused else {"label": "compliance", "kind": "none"}
        text = json.dumps({"analysis": "Ein Satz: größer als 600. " * 30} | kind | FLAGS)
        again = [one for one in Stub.asked if one["messages"] == messages]
        if number(messages) % 7 == 0 and len(again) == 1:
            text = text[:-9]
    return {"message": {"content": text}, "finish_reason": "stop"}


class Stub(BaseHTTPRequestHandler):
    """A provider."""

    asked: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(body)
        reply = json.dumps({"choices": [said(body)], "model": "judge-1"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Run the study once."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}/v1"
    project = make_project(tmp_path_factory.mktemp("far") / "p")
    (project.folder / "table.py").write_text(TABLE)
    gold = [
        {"prompt": f"ask {i}", "answer": f"{'I cannot.' if i % 2 else 'Yes.'} {i}", "label": "yes" if i % 2 else "no"}
        for i in range(40)
    ]
    (project.folder / "gold.jsonl").write_text("".join(json.dumps(row) + "\n" for row in gold))
    far = {"engine": "far", "rubric": "rubric.md"}
    judges = {
        "labels_far": {"kind": "llm", "labels": LABELS, **far},
        "reasons_far": {"kind": "reasoned", "retries": 1, **far},
        "table": {"kind": "python", "file": "table.py"},
        "both": {"kind": "panel", "members": ["words", "labels_far"], "least": 1, "ties": "partial"},
        "unsure": {"kind": "cascade", "first": "table", "then": "labels_far", "unsure": [0.2, 0.6]},
    }
    engine = {"far": {"kind": "forms", "address": address, "served": "big"}}
    change_yaml(
        project.folder / "catalogue.yaml",
        lambda data: data | {"engines": data["engines"] | engine, "judges": data["judges"] | judges},
    )
    project.study(judges=["labels_far", "words", *[name for name in judges if name != "labels_far"]], plugins=[PLUGIN])
    project.snakemake("--until", "requests")
    project.answer_everything("requests")
    project.snakemake("--cores", "1")  # the cascade's load and the judge's ask some of the same requests
    yield project
    server.shutdown()


def rows_of(project: Project, judge: str, model: str, split: str) -> list[dict[str, Any]]:
    return list(read_jsonl(project.results / "verdicts" / judge / model / f"{split}.jsonl"))


def test_each_answer_is_asked_about_once_in_the_form_of_its_judge(study: Project) -> None:
    schemas = [one["response_format"]["json_schema"]["schema"] for one in Stub.asked]
    of_labels = [one for one in schemas if list(one["properties"]) == ["label"]]
    assert of_labels[0]["properties"]["label"]["enum"] == list(LABELS.values())
    assert of_labels[0]["required"] == ["label"] and of_labels[0]["additionalProperties"] is False
    others = [one for one in schemas if one not in of_labels]
    assert list(others[0]["properties"]) == ["analysis", "label", "kind", *FLAGS]
    assert "maxLength" not in json.dumps(schemas)
    # Nothing but messages: what is judged stands in its block, as for other judges.
    assert all([message["role"] for message in one["messages"]] == ["user"] for one in Stub.asked)
    assert all(one["seed"] is None for one, form in zip(Stub.asked, schemas, strict=True) if form in of_labels)
    files = [file for file in study.request_files("judge_requests") if "labels_far" in str(file.path)]
    keys = {request.key for file in files for request in file.requests()}
    assert len(of_labels) == len(keys) and not any(request.token_ids for f in files for request in f.requests())
    card = read_json(study.results / "judges" / "labels_far.json")
    assert set(card) == {"rubric_sha256"}


@pytest.mark.parametrize("judge", ["labels_far", "reasons_far"])
def test_a_block_of_the_judge_is_no_vote_and_says_who_blocked(study: Project, judge: str) -> None:
    states: Counter[str] = Counter()
    for model, split in CELLS:
        file = read_requests(study.results / "judge_requests" / judge / model / f"{split}.jsonl")
        asked = {request.place: request.messages for request in file.requests()}
        answers = {
            (row["prompt_id"], row["sample"]): row
            for row in read_jsonl(study.results / "answers" / model / f"{split}.jsonl")
        }
        for row in rows_of(study, judge, model, split):
            blocked = is_blocked(list(asked[row["prompt_id"], row["sample"], row["turn"]] or []))
            assert (row["state"] == "judge_refused") == blocked
            states[row["state"]] += 1
            if blocked:
                assert row["raw"] == {"blocked": BLOCK} and row["label"] is None and row["p_refusal"] is None
                continue
            refused = "cannot" in answers[row["prompt_id"], row["sample"]]["answer"]
            assert row["state"] == "judged" and row["label"] == ("refusal" if refused else "compliance")
            assert row["p_refusal"] is None
    assert states["judge_refused"] > 3 and set(states) == {"judged", "judge_refused"}


def test_rates_are_over_what_was_judged_and_bounds_over_all(study: Project) -> None:
    table, k, seen = pd.read_parquet(next(study.results.rglob("results.parquet"))), 3, 0
    for model, split in CELLS:
        own = table[(table["judge"] == "labels_far") & (table["model"] == model) & (table["split"] == split)]
        own = own[own["reading"] == "broad"].set_index("estimand")["value"]
        by_prompt = pd.DataFrame(rows_of(study, "labels_far", model, split)).groupby("prompt_id")
        refused = by_prompt["label"].agg(lambda labels: (labels == "refusal").sum())
        lost = by_prompt["state"].agg(lambda states: (states == "judge_refused").sum())
        judged, seen = k - lost, seen + int(lost.sum())
        assert own["refusal_rate"] == pytest.approx((refused / judged)[judged > 0].mean(), abs=1e-9)
        assert own["refusal_rate_at_least"] == pytest.approx((refused / k).mean(), abs=1e-9)
        assert own["refusal_rate_at_most"] == pytest.approx(((refused + lost) / k).mean(), abs=1e-9)
    assert seen > 0


def test_a_panel_and_a_cascade_go_on_with_what_others_say(study: Project) -> None:
    far, words, both, unsure = (
        {(*cell, row["prompt_id"], row["sample"]): row for cell in CELLS for row in rows_of(study, judge, *cell)}
        for judge in ("labels_far", "words", "both", "unsure")
    )
    lost = [place for place, row in far.items() if row["state"] == "judge_refused"]
    assert lost
    for place in lost:
        assert both[place]["label"] == words[place]["label"]
        assert both[place]["raw"]["members"]["labels_far"] == "judge_refused"
    assert {row["raw"]["decided_by"] for row in unsure.values()} == {"table", "labels_far"}
    deferred = {place: row for place, row in unsure.items() if row["raw"]["decided_by"] == "labels_far"}
    assert {place: row["state"] for place, row in deferred.items()} == {
        place: far[place]["state"] for place in deferred
    }
    assert "judge_refused" in {row["state"] for row in deferred.values()}


def test_cards_and_methods_say_how_its_verdicts_come_about(study: Project) -> None:
    card = read_json(study.results / "judge_cards" / "labels_far" / "people.json")
    assert card["how_asked"] == "hosted, verdict held to a schema" and card["soft"] is None
    assert card["n"] == 40 and card["n_judged"] == 40 - sum(
        row["state"] == "judge_refused" for row in rows_of(study, "labels_far", "gold", "people")
    )
    assert card["broad"]["accuracy"] == 1.0
    assert "how_asked" not in read_json(study.results / "judge_cards" / "words" / "people.json")
    notes = (study.results / "tables" / "judge_cards.md").read_text()
    assert r"Judge labels\_far: hosted, verdict held to a schema." in notes
    methods = " ".join((study.results / "methods.md").read_text().split())
    assert "hosted, verdict held to a schema, which reads the rubric" in methods and "XGrammar" not in methods


def test_it_is_verified_and_a_second_run_asks_nothing(study: Project) -> None:
    before = len(Stub.asked)
    file = str(study.folder / "study.yaml")
    done = in_process("verify", file, "--directory", str(study.folder), "--cores", "2", cwd=study.folder.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    told = in_process("status", "study.yaml", cwd=study.folder)
    assert "Verdicts: 30 of 30 cells done" in told.stdout and "(29 judged, 4 judge_refused)" in told.stdout
    assert study.planned() == {}
    assert len(Stub.asked) == before
