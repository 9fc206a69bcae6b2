"""The script behind `generate` and `judge`: what it checks before it starts an engine."""

import execute
import pytest
from engine_entries import settings_of
from store_files import response

from refusal_eval.ask.requests import Ask, read_requests, write_requests
from refusal_eval.ask.store import StoreWriter
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json
from refusal_eval.engines.execution import Outcome
from refusal_eval.engines.load_plan import LoadPlan
from refusal_eval.weights.weights_manifest import write_manifest

ENGINE = {"engine": "e", "engine_id": "id", "identity": {"dtype": "bfloat16"}}
HUB = {"kind": "hub", "repo": "a/b", "revision": "0" * 40}
ENGINE |= {"folder": "nowhere", "tokenizer_folder": "nowhere"}
SAMPLING = {"max_tokens": 4, "temperature": 1.0}


def config_of(kind, **entry):
    """Return what of a study the script reads; no engine can be started with it."""
    weights = HUB if kind == "hub" else {"kind": kind, "path": "nowhere"}
    engine = {"weights": weights, "max_model_len": 99, "device": "cpu", "python": "no/python", **entry}
    study = {"determinism": "seeded", "requests_in_flight": 1, "failure_limit": 0.05, "store_dir": "store", "shards": 1}
    return {"engine_entries": {"e": engine}, **study}


@pytest.fixture
def batch(tmp_path, monkeypatch):
    """Write a request file, and fetched weights with their manifest; return how to run the script on them."""
    monkeypatch.chdir(tmp_path)
    write_requests("requests.jsonl", [Ask("p", [1, 2], [(0, 7)])], settings_of(ENGINE, SAMPLING), 100)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_text("weights")
    write_manifest("weights.json", "model", ["model.safetensors"], {"kind": "hub"})

    def run(config, gpus=0):
        plan = LoadPlan.of_study(config, ENGINE, ["weights.json"], tmp_path)
        execute.main(["requests.jsonl"], "receipts/0.json", tmp_path / "log", gpus, plan)

    return run


@pytest.mark.parametrize(("content", "what"), [("weig", "has another size"), (None, "is missing")])
def test_weights_that_are_not_whole_are_named_before_an_engine_starts(batch, tmp_path, content, what):
    file = tmp_path / "model" / "model.safetensors"
    file.unlink() if content is None else file.write_text(content)
    with pytest.raises(UserError, match=rf"model/model\.safetensors {what}.*; delete weights\.json to fetch it anew"):
        batch(config_of("hub"))
    assert not (tmp_path / "receipts").exists()


def test_a_local_folder_has_no_manifest(batch):
    with pytest.raises(UserError, match=r"no engine environment at .*no/python"):
        batch(config_of("folder", memory_share=0.001))


def test_too_few_gpus_are_told_with_what_to_do(batch):
    with pytest.raises(UserError, match=r"this job got 1 GPUs and needs 4.*--resources gpu=4"):
        batch(config_of("hub", device="cuda", tensor_parallel=4), gpus=1)


def test_without_anything_to_do_neither_gpus_nor_weights_are_needed(batch, tmp_path):
    (tmp_path / "model" / "model.safetensors").unlink()
    with StoreWriter("store", "id", "job") as writer:
        (key,) = read_requests("requests.jsonl").keys()
        writer.append(key, response("hi"), "serving")
    batch(config_of("hub", device="cuda", tensor_parallel=4))
    receipt = read_json("receipts/0.json")
    assert (receipt["requests"], receipt["executed"]) == (1, 0)


def test_what_the_engine_refuses_is_a_result_and_what_failed_for_now_is_not():
    refused = {"key": "k", "status": 400, "message": "no such parameter"}
    execute.refuse_incomplete(Outcome(executed=2, rejected=[refused]))
    with pytest.raises(UserError, match="1 requests failed for a reason that may pass"):
        execute.refuse_incomplete(Outcome(executed=2, failed=["k"]))


@pytest.mark.parametrize(("share", "requests", "most"), [(0.05, 1, 1), (0.05, 20, 1), (0.05, 21, 2), (0.0, 100, 0)])
def test_the_failure_limit_is_rounded_up(share, requests, most):
    assert execute.most_failures(share, requests) == most
