"""The script behind `generate` and `judge`: what it checks before it starts an engine, and while a batch is executed.

Marks of reasoning are looked at where answers are made, too.
"""

import asyncio
import errno
import os
import re
import shutil
from dataclasses import replace
from types import SimpleNamespace

import collect_answers
import execute
import pytest
from engine_entries import settings_of
from store_files import response as stored_response
from tokenizer_folders import byte_tokenizer
from transformers import AutoTokenizer

from refusal_eval.ask import store
from refusal_eval.ask.reasoning_check import ENOUGH
from refusal_eval.ask.requests import Ask, read_requests, write_requests
from refusal_eval.ask.store import StoreReader, StoreWriter
from refusal_eval.config.kinds import ENGINES
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, read_jsonl
from refusal_eval.core.packing import pack_floats
from refusal_eval.engines import running_jobs
from refusal_eval.engines.engine_base import EngineDied, RunningEngine
from refusal_eval.engines.execution import Outcome
from refusal_eval.engines.load_plan import LoadPlan
from refusal_eval.engines.local_engine import LocalEngine
from refusal_eval.features.lora import adapter_probe
from refusal_eval.features.lora.loaded_adapters import LoadedAdapters
from refusal_eval.features.steering.intervention_file import CompiledIntervention
from refusal_eval.features.steering.loaded_intervention import LoadedIntervention
from refusal_eval.weights.engine_file import describe_engine
from refusal_eval.weights.weights_manifest import write_manifest

RIGHT, WRONG = {"start": "<think>", "end": "</think>"}, {"end": "</thinking>"}
SAMPLES = 5 * ENOUGH
DESCRIBED = {"engine": "e", "engine_id": "id", "identity": {}, "folder": "model", "tokenizer_folder": "model"}
HUB = {"kind": "hub", "repo": "a/b", "revision": "0" * 40}
FOLDER = {"kind": "folder", "path": "model"}


def engine_entry(**more):
    return {"weights": FOLDER, "device": "cpu", "python": "no/python", "max_model_len": 99} | more


def describe(engine):
    """Return what the rule `identify_engine` writes of an entry, under an id of our own."""
    manifest = "weights.json" if engine["weights"] == HUB else None
    return describe_engine("e", ENGINES.entry(engine), engine["weights"], manifest, "cache") | {"engine_id": "id"}


def run_batch(
    tmp_path,
    reasoning=None,
    weights=None,
    gpus=0,
    cells=("thinker",),
    protocol="default",
    whole=False,
    steered=(),
    changes=(),
    attempt=1,
    described=None,
    determinism="seeded",
    **entry,
):
    """Execute the cell's batch as the rule `generate` does; `described` is None for an engine that is as it was."""
    engine = engine_entry(weights=weights or FOLDER, **entry)
    config = {"engine_entries": {"e": engine}, "determinism": determinism}
    config |= {"requests_in_flight": 1, "failure_limit": 0.0, "store_dir": "store"}
    config["cache_dir"] = "cache"
    config["protocol"] = protocol
    config["model_entries"] = {
        "thinker": {"engine": "e", "reasoning": reasoning, "judged_whole": whole},
        "other": {"engine": "e", "reasoning": None, "judged_whole": False},
        "gpt-oss": {"engine": "another", "reasoning": {"format": "harmony"}, "judged_whole": False},
    }
    models = execute.reasoning_models(config, "e")
    changes = [*changes, *([LoadedIntervention(steered)] if steered else [])]
    described = described or describe(engine)
    plan = LoadPlan.of_study(config, described, ["weights.json"], tmp_path, reasoning=models, changes=changes)
    requests = [f"requests/{cell}/split.jsonl" for cell in cells]
    execute.main(requests, "receipts/0.json", tmp_path / "log", gpus, plan, attempt)


class Engine(RunningEngine):
    """An engine whose every response is a reasoning and an answer, as a template that opens the reasoning has it."""

    asked = 0

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def serving_record(self):
        return {"vllm": "none"}

    async def complete(self, prompt, settings, seed):
        type(self).asked += 1
        await asyncio.sleep(0)
        return response(self.tokenizer)


def response(tokenizer, text="why\n</think>\n\nYes."):
    ids = [*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    shown = {"text": tokenizer.decode(ids, skip_special_tokens=True), "logprobs": pack_floats([-1.0] * len(ids))}
    return shown | {"token_ids": ids, "finish_reason": "stop", "stop_reason": tokenizer.eos_token_id}


@pytest.fixture
def cell(tmp_path, monkeypatch):
    """Write the request file of a cell of the model `thinker`; return its tokenizer."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running_jobs, "SETTLE_SECONDS", 0.0)
    tokenizer = AutoTokenizer.from_pretrained(byte_tokenizer(tmp_path / "model", tokens=["<think>", "</think>"]))
    for name in ("config.json", "model.safetensors"):
        (tmp_path / "model" / name).write_text("{}")
    opened = tokenizer("<think>\n", add_special_tokens=False)["input_ids"]
    asks = [Ask(f"p{prompt}", opened, [(0, prompt), (1, prompt + SAMPLES)]) for prompt in range(SAMPLES // 2)]
    write_requests("requests/thinker/split.jsonl", asks, settings_of(DESCRIBED, {"max_tokens": 99}), 1000)
    Engine.asked = 0
    monkeypatch.setattr(LocalEngine, "running", lambda self, load: Engine(tokenizer))
    return tokenizer


@pytest.fixture
def no_engine(tmp_path, monkeypatch):
    """Write a request file, and fetched weights with their manifest; no engine can be started."""
    monkeypatch.chdir(tmp_path)
    settings = settings_of(DESCRIBED, {"max_tokens": 4, "temperature": 1.0})
    write_requests("requests/thinker/split.jsonl", [Ask("p", [1, 2], [(0, 7)])], settings, 100)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_text("weights")
    (tmp_path / "model" / "config.json").write_text("{}")
    write_manifest("weights.json", "model", ["model.safetensors"], {"kind": "hub"})


# ---------------------------------------------------------------- before an engine starts


@pytest.mark.parametrize(("content", "what"), [("weig", "has another size"), (None, "is missing")])
def test_weights_that_are_not_whole_are_named_before_an_engine_starts(no_engine, tmp_path, content, what):
    file = tmp_path / "model" / "model.safetensors"
    file.unlink() if content is None else file.write_text(content)
    with pytest.raises(UserError, match=rf"model/model\.safetensors {what}.*; delete weights\.json to fetch it again"):
        run_batch(tmp_path, weights=HUB, described=DESCRIBED)
    assert not (tmp_path / "receipts").exists()


def test_a_local_folder_has_no_manifest(no_engine, tmp_path):
    with pytest.raises(UserError, match=r"no engine environment at .*no/python"):
        run_batch(tmp_path, memory_share=0.001)


@pytest.fixture
def identified(cell):
    """Return the identity file of the engine, as it was when the run was planned."""
    return describe(engine_entry())


def test_a_local_folder_that_changed_while_the_job_waited_is_refused_before_an_engine_starts(
    identified, tmp_path, monkeypatch
):
    """A training loop may save its next variant there: its answers would be stored as those of the old weights."""
    run_batch(tmp_path, RIGHT, described=identified)
    assert Engine.asked == SAMPLES
    (tmp_path / "model" / "model.safetensors").write_text("[]")
    monkeypatch.setattr(LocalEngine, "running", lambda self, load: pytest.fail("the engine was started"))
    shutil.rmtree(tmp_path / "store")
    with pytest.raises(UserError, match="model has changed since this run was planned; run again"):
        run_batch(tmp_path, RIGHT, described=identified)


def test_a_local_folder_that_changes_while_the_engine_loads_is_asked_nothing(identified, tmp_path, monkeypatch):
    async def load(self):
        (tmp_path / "model" / "model.safetensors").write_text("[]")
        return self

    monkeypatch.setattr(Engine, "__aenter__", load)
    with pytest.raises(UserError, match="model has changed since this run was planned; run again"):
        run_batch(tmp_path, RIGHT, described=identified)
    assert Engine.asked == 0


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"dtype": "float16"}, "dtype"),
        ({"quantization": "fp8", "trust_remote_code": True}, "quantization, trust_remote_code"),
        ({"args": {"rope-theta": 5}}, "args"),
    ],
)
def test_an_engine_that_was_edited_while_the_job_waited_is_refused_before_it_starts(
    identified, tmp_path, monkeypatch, change, what
):
    """A job on a cluster reads study and catalogue when its turn has come: another engine under the old one's keys."""
    monkeypatch.setattr(LocalEngine, "running", lambda self, load: pytest.fail("the engine was started"))
    why = rf"engine `e` \({what}\) in model has changed since this run was planned; run again"
    with pytest.raises(UserError, match=why):
        run_batch(tmp_path, RIGHT, described=identified, **change)


def test_another_way_of_serving_does_not_stop_a_job_that_waited(identified, tmp_path):
    run_batch(tmp_path, RIGHT, described=identified, memory_share=0.5, max_model_len=90, args={"max-num-seqs": 4})
    assert Engine.asked == SAMPLES


def test_a_folder_with_the_same_weights_at_another_place_is_the_one_that_is_started(identified, tmp_path, monkeypatch):
    loads = []
    running = LocalEngine.running
    monkeypatch.setattr(LocalEngine, "running", lambda self, load: loads.append(load) or running(self, load))
    shutil.copytree(tmp_path / "model", tmp_path / "moved")
    run_batch(tmp_path, RIGHT, described=identified, weights=FOLDER | {"path": "moved"})
    assert [load.folder for load in loads] == ["moved"]


def test_another_determinism_than_that_of_the_keys_is_refused(identified, tmp_path):
    why = "thinker/split.jsonl was made for `determinism: seeded`, and the study now has `strict`; run again"
    with pytest.raises(UserError, match=why):
        run_batch(tmp_path, RIGHT, described=identified, determinism="strict")
    assert Engine.asked == 0


def test_too_few_gpus_are_reported_with_what_to_do(no_engine, tmp_path):
    with pytest.raises(UserError, match=r"this job got 1 GPUs and needs 4.*--resources gpu=4"):
        run_batch(tmp_path, weights=HUB, gpus=1, device="cuda", tensor_parallel=4)


def test_an_engine_for_gpus_does_not_start_from_the_cpu_build(no_engine, tmp_path):
    (tmp_path / ".venv" / "engine").mkdir(parents=True)
    (tmp_path / ".venv" / "engine" / "engine-kind").write_text("cpu\n")
    with pytest.raises(UserError, match=r"`device: cuda`, and .* is the CPU build: run `make setup ENGINE=cuda`"):
        run_batch(tmp_path, weights=HUB, gpus=1, device="cuda", python=None)
    with pytest.raises(UserError, match=r"no engine environment at .*no/python"):  # one of the user's own may have CUDA
        run_batch(tmp_path, weights=HUB, gpus=1, device="cuda")


def test_without_anything_to_do_neither_gpus_nor_weights_are_needed(no_engine, tmp_path):
    (tmp_path / "model" / "model.safetensors").unlink()
    with StoreWriter("store", "id", "job") as writer:
        (key,) = read_requests("requests/thinker/split.jsonl").keys()
        writer.append(key, stored_response("hi"), "serving")
    run_batch(tmp_path, weights=HUB, described=DESCRIBED, device="cuda", tensor_parallel=4)
    receipt = read_json("receipts/0.json")
    assert (receipt["requests"], receipt["executed"]) == (1, 0)


@pytest.mark.parametrize("cells", [["other"], ["thinker", "other"]])
def test_requests_of_another_engine_are_refused(no_engine, tmp_path, cells):
    settings = settings_of(DESCRIBED | {"engine_id": "another"}, {"max_tokens": 4, "temperature": 1.0})
    write_requests("requests/other/split.jsonl", [Ask("p", [1, 2], [(0, 7)])], settings, 100)
    why = r"requests/other/split\.jsonl was made for engine another, and this load starts engine id; delete it"
    with pytest.raises(UserError, match=why):
        run_batch(tmp_path, cells=cells)
    assert not (tmp_path / "receipts").exists()


def test_what_the_engine_refuses_is_a_result_and_what_failed_for_now_is_not():
    refused = {"key": "k", "status": 400, "message": "no such parameter"}
    execute.refuse_incomplete(Outcome(executed=2, rejected=[refused]))
    with pytest.raises(UserError, match="1 requests failed for a reason that may pass"):
        execute.refuse_incomplete(Outcome(executed=2, failed=["k"]))


@pytest.mark.parametrize(("share", "requests", "most"), [(0.05, 1, 1), (0.05, 20, 1), (0.05, 21, 2), (0.0, 100, 0)])
def test_the_failure_limit_is_rounded_up(share, requests, most):
    assert execute.most_failures(share, requests) == most


def test_a_store_that_cannot_be_written_is_reported_before_an_engine_starts(cell, tmp_path, monkeypatch):
    monkeypatch.setattr(LocalEngine, "running", lambda self, load: pytest.fail("the engine was started"))
    (tmp_path / "store").write_text("a file in place of the folder")
    with pytest.raises(UserError, match=r"the store cannot be written: store/id/.*: Not a directory"):
        run_batch(tmp_path, RIGHT)


def test_a_store_on_a_full_disk_is_reported_before_an_engine_starts(cell, tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(LocalEngine, "running", lambda self, load: pytest.fail("the engine was started"))
    monkeypatch.setattr(store, "_flush_to_disk", full)
    with pytest.raises(UserError, match=r"the disk with the store is full: store/id/.*; free space and run again"):
        run_batch(tmp_path, RIGHT)
    assert list((tmp_path / "store" / "id").iterdir()) == []


def probed(monkeypatch, probe):
    """Let a probe stand for that of adapters."""
    monkeypatch.setattr(adapter_probe, "probe_adapters", probe)
    monkeypatch.setattr(LoadPlan, "load", lambda self, log, pending: SimpleNamespace(changes=self.changes))


def test_what_the_probe_of_adapters_refuses_is_not_stored(cell, tmp_path, monkeypatch):
    async def refuse(engine, pending, limit):
        raise UserError(f"changes nothing for {len(pending)} requests")

    probed(monkeypatch, refuse)
    with pytest.raises(UserError, match=f"changes nothing for {SAMPLES} requests"):
        run_batch(tmp_path, RIGHT, changes=[LoadedAdapters([])])
    assert Engine.asked == 0 and not (tmp_path / "receipts" / "0.json").exists()
    assert StoreReader("store", "id").missing(read_requests("requests/thinker/split.jsonl").keys())


def test_the_receipt_holds_what_the_probe_found_and_counts_none_of_its_requests(cell, tmp_path, monkeypatch):
    async def probe(engine, pending, limit):
        type(engine).asked = 3
        return {"adapters": {"thinker": {"difference": 0.5}}}

    async def metrics(engine):
        names = ("requests", "prompt_tokens", "generated_tokens", "prefix_cache_hits", "prefix_cache_queries")
        return dict.fromkeys(names, float(engine.asked))

    probed(monkeypatch, probe)
    monkeypatch.setattr(Engine, "metrics", metrics)
    run_batch(tmp_path, RIGHT, changes=[LoadedAdapters([])])
    found = read_json(tmp_path / "receipts" / "0.json")["engine"]
    assert found["adapters"] == {"thinker": {"difference": 0.5}}
    assert found["counters"]["requests"] == SAMPLES


# ---------------------------------------------------------------- while a batch is executed


def test_a_wrong_mark_ends_the_load_after_a_few_responses(cell, tmp_path):
    with pytest.raises(UserError, match=rf"none of {ENOUGH} responses of `thinker` has an answer"):
        run_batch(tmp_path, WRONG)
    assert ENOUGH <= Engine.asked < 2 * ENOUGH
    assert not (tmp_path / "receipts" / "0.json").exists()


def test_marks_of_another_engines_model_are_not_looked_for_in_this_engines_tokenizer(cell, tmp_path):
    """The tokenizer of `thinker` has no channels, which `gpt-oss` of the same study names."""
    run_batch(tmp_path, RIGHT)
    assert Engine.asked == SAMPLES and (tmp_path / "receipts" / "0.json").exists()


def test_a_reasoning_model_without_reasoning_in_its_entry_ends_the_load_after_a_few_prompts(cell, tmp_path):
    with pytest.raises(UserError, match=rf"{ENOUGH} of {ENOUGH} responses of `thinker` have `</think>`"):
        run_batch(tmp_path)
    assert ENOUGH <= Engine.asked < 3 * ENOUGH


@pytest.mark.parametrize(("start", "end"), [("[THINK]", "[/THINK]"), ("<|channel>", "<channel|>"), ("", "</think>")])
def test_marks_that_are_special_tokens_and_that_no_text_shows_are_seen_too(cell, tmp_path, monkeypatch, start, end):
    special = [token for token in (start, end) if token]
    own = AutoTokenizer.from_pretrained(byte_tokenizer(tmp_path / "model", special=special))
    written = response(own, f"{start}why{end}Yes.")

    async def complete(self, prompt, settings, seed):
        return written

    monkeypatch.setattr(Engine, "complete", complete)
    assert written["text"] == "whyYes."
    said = re.escape(f"of `thinker` have `{end}` in what counts as the answer")
    with pytest.raises(UserError, match=said):
        run_batch(tmp_path)
    with pytest.raises(UserError, match=said):
        collect(None, own, f"{start}why{end}Yes.")


@pytest.mark.parametrize("how", [{"protocol": "compat"}, {"whole": True}])
def test_whole_responses_are_taken_by_the_published_protocol_and_where_the_entry_says_so(cell, tmp_path, how):
    run_batch(tmp_path, **how)
    assert Engine.asked == SAMPLES
    kept = {"judged_whole": True} if "whole" in how else how
    assert {row["answer"] for row in collect(None, cell, **kept)} == {"why\n</think>\n\nYes."}


def test_a_prompt_that_kills_its_engine_keeps_the_others_of_its_batch_from_being_stored_only_once(
    cell, tmp_path, monkeypatch
):
    complete, asked = Engine.complete, []

    async def die(self, prompt, settings, seed):
        asked.append(seed)
        if seed == 0:
            raise EngineDied("exit code 1")
        return await complete(self, prompt, settings, seed)

    monkeypatch.setattr(Engine, "complete", die)
    for count in (1, SAMPLES):
        with pytest.raises(EngineDied, match="asked for p0 of thinker/split alone"):
            run_batch(tmp_path, RIGHT)
        assert len(asked) == count and asked[-1] == 0
        asked.clear()


def test_a_job_that_came_first_and_is_seen_while_the_engine_starts_ends_the_load(cell, tmp_path, monkeypatch):
    looked = iter([None, UserError("another job executes the same requests")])

    def wait_for_others(*_):
        if (trouble := next(looked)) is not None:
            raise trouble

    monkeypatch.setattr(running_jobs, "_wait_for_others", wait_for_others)
    with pytest.raises(UserError, match="another job"):
        run_batch(tmp_path, RIGHT)
    assert Engine.asked == 0


@pytest.mark.parametrize("answered", [False, True])
def test_the_store_is_read_again_only_where_another_job_wrote_meanwhile(cell, tmp_path, monkeypatch, answered):
    read, pending = [], execute.pending_requests
    monkeypatch.setattr(execute, "pending_requests", lambda *a, **more: read.append(1) or pending(*a, **more))
    first, *_ = read_requests("requests/thinker/split.jsonl").keys()

    def wait_for_others(*_):
        if answered and not Engine.asked:
            with StoreWriter("store", "id", "other") as writer:
                writer.append(first, response(cell), "serving")

    monkeypatch.setattr(running_jobs, "_wait_for_others", wait_for_others)
    run_batch(tmp_path, RIGHT)
    assert len(read) == 1 + answered and Engine.asked == SAMPLES - answered


async def hang():
    await asyncio.sleep(3600)


async def fail():
    raise ConnectionError("the engine's counters cannot be read: HTTP 500")


async def none():
    return {}


@pytest.mark.parametrize(("counters", "why"), [(hang, "no answer after 0.2 s"), (fail, "HTTP 500"), (none, "")])
def test_a_load_whose_engine_does_not_tell_its_counters_at_the_end_says_why_and_has_its_receipt(
    cell, tmp_path, monkeypatch, caplog, counters, why
):
    monkeypatch.setattr(execute, "METRICS_SECONDS", 0.2)
    monkeypatch.setattr(Engine, "metrics", lambda _: counters())
    run_batch(tmp_path, RIGHT)
    assert (tmp_path / "receipts" / "0.json").exists()
    assert ("the engine's counters are not known" in caplog.text) is bool(why) and why in caplog.text


def collect(reasoning, tokenizer, text="why\n</think>\n\nYes.", **more):
    with StoreWriter("store", "id", "job") as writer:
        stored = StoreReader("store", "id").lookup(keys := list(read_requests("requests/thinker/split.jsonl").keys()))
        for key in keys:
            if key not in stored:
                writer.append(key, response(tokenizer, text), "s")
    files = SimpleNamespace(requests="requests/thinker/split.jsonl", receipts=[])
    how = {"reasoning": reasoning, "trust_remote_code": False, **more}
    collect_answers.main(files, "store", "model", how, "answers.jsonl")
    return list(read_jsonl("answers.jsonl"))


@pytest.mark.parametrize("wrong", [None, WRONG, {"start": "[THINK]", "end": "[/THINK]"}])
def test_a_cell_without_an_answer_becomes_an_error_and_no_file(cell, tmp_path, wrong):
    with pytest.raises(UserError, match=rf"of {SAMPLES} responses of `thinker`"):
        collect(wrong, cell)
    assert not (tmp_path / "answers.jsonl").exists()


def test_with_the_right_marks_only_the_answer_is_there_to_be_judged(cell):
    rows = collect(RIGHT, cell)
    assert len(rows) == SAMPLES
    assert {(row["state"], row["answer"]) for row in rows} == {("complete", "\n\nYes.")}


GATED = CompiledIntervention("thinker", "a" * 64, 1, "gated", (3,), "file", gate=0.5)


@pytest.fixture
def reports(monkeypatch):
    """Return how to let the engine report what passed its gate, load after load; the last counts stay."""

    def told(*counts):
        left = list(counts)

        async def report(self, change):
            return left.pop(0) if len(left) > 1 else left[0]

        monkeypatch.setattr(Engine, "report", report, raising=False)
        monkeypatch.setattr(LoadPlan, "load", lambda self, log, pending: SimpleNamespace(changes=self.changes))
        monkeypatch.setattr(LoadedIntervention, "refuse_changed", lambda self: None)

    return told


def test_a_receipt_says_which_share_of_the_tokens_passed_the_gate(cell, tmp_path, reports):
    reports({"tokens": 40, "passed": {"3": 4, "5": 0}})
    run_batch(tmp_path, RIGHT, steered=[GATED])
    assert read_json("receipts/0.json")["engine"]["gate"] == {"tokens": 40, "passed": {"3": 4, "5": 0}, "share": 0.05}
    assert sorted(path.name for path in tmp_path.glob("log*")) == []
    run_batch(tmp_path, steered=[GATED])  # a load that finds everything in the store, of another study too
    assert read_json("receipts/0.json")["engine"]["gate"]["share"] == 0.05


def test_only_who_runs_again_takes_the_answers_of_a_gate_that_no_token_passed(cell, tmp_path, reports):
    reports({"tokens": 40, "passed": {"3": 0}})
    for attempt in (1, 2, 3):  # as `--retries 2` makes them
        with pytest.raises(UserError, match=r"no token passed the gate of 0\.5 of `thinker`"):
            run_batch(tmp_path, RIGHT, steered=[GATED], attempt=attempt)
    assert Engine.asked == SAMPLES and not (tmp_path / "receipts" / "0.json").exists()
    other = replace(GATED, sha256="b" * 64)  # of which nothing is known
    run_batch(tmp_path, RIGHT, steered=[other], attempt=2)
    (tmp_path / "log.gate.json").unlink()  # what another study has not, nor this one without its logs
    with pytest.raises(UserError, match="no token passed the gate"):
        run_batch(tmp_path, RIGHT, steered=[GATED])
    run_batch(tmp_path, RIGHT, steered=[GATED])
    assert read_json("receipts/0.json")["engine"]["gate"] == {"tokens": 40, "passed": {"3": 0}, "share": 0}
    assert Engine.asked == SAMPLES


def test_a_gate_of_which_the_store_says_nothing_is_not_known(cell, tmp_path, caplog):
    collect(RIGHT, cell)  # puts all responses into the store
    run_batch(tmp_path, RIGHT, steered=[replace(GATED, mode="add", gate=None)])
    assert "engine" not in read_json("receipts/0.json") and "gate" not in caplog.text
    run_batch(tmp_path, RIGHT, steered=[GATED])
    assert read_json("receipts/0.json")["engine"] == {"gate": None}
    assert "how many tokens passed the gate of `thinker` is not known of 1 of the 1 loads" in caplog.text


def test_a_load_that_is_stopped_keeps_what_passed_its_gate_for_the_next_one(cell, tmp_path, reports):
    """Only harmless prompts may be left for the next load, of which no token has to pass."""
    reports({"tokens": 40, "passed": {"3": 4}}, {"tokens": 5, "passed": {"3": 0}}, {})
    with pytest.raises(UserError, match="has an answer"):
        run_batch(tmp_path, WRONG, steered=[GATED])
    run_batch(tmp_path, RIGHT, steered=[GATED])
    summed = {"tokens": 45, "passed": {"3": 4}, "share": 4 / 45}
    assert read_json("receipts/0.json")["engine"]["gate"] == summed
    run_batch(tmp_path, RIGHT, steered=[GATED])  # a load that finds everything in the store
    assert read_json("receipts/0.json")["engine"]["gate"] == summed
    last = sorted((tmp_path / "store" / "id").glob("*.jsonl"))[-1]
    for path in last.parent.glob(f"{last.stem}*"):
        path.unlink()
    run_batch(tmp_path, RIGHT, steered=[GATED])  # a load that does not tell its own
    known = {"tokens": 40, "passed": {"3": 4}, "share": 0.1}
    assert read_json("receipts/0.json")["engine"]["gate"] == known | {"loads_without_counts": 1}


def test_what_passed_a_gate_is_summed_over_the_loads_that_gave_the_responses(tmp_path):
    loaded = LoadedIntervention([GATED])
    files = [tmp_path / f"{name}.jsonl" for name in ("first", "second", "of_others", "killed")]
    for file, tokens, passed in zip(files, (100, 5, 1000), (30, 0, 9), strict=False):
        file.touch()  # the few of the second load may all stay below the gate
        loaded.keep({"tokens": tokens, "passed": {"3": passed}}, file)
    summed = {"tokens": 105, "passed": {"3": 30}, "share": 30 / 105}
    assert loaded.receipt(files[:2]) == {"gate": summed}
    files[3].touch()
    assert loaded.receipt({files[0], files[1], files[3]}) == {"gate": summed | {"loads_without_counts": 1}}
    nothing = loaded.receipt({files[1], files[3]})
    loaded.accept(nothing, tmp_path / "log", by_the_user=False)  # the killed load may have passed some
    with pytest.raises(UserError, match="no token passed the gate"):
        loaded.accept(loaded.receipt({files[1]}), tmp_path / "log", by_the_user=False)
    assert LoadedIntervention([replace(GATED, sha256="b" * 64)]).receipt(files) == {"gate": None}
    loaded.keep(summed, tmp_path / "removed.jsonl")  # by a writer without responses
    assert not (tmp_path / "removed.gate.json").exists()
