"""Capturing activations: where a model is loaded to, whether it fits the memory, and how long it may take."""

import dataclasses
import sys
import time
import types
from pathlib import Path

import numpy as np
import psutil
import pytest
from engine_entries import engine_of
from safetensors.numpy import save_file

from refusal_eval.activations import capture
from refusal_eval.activations.capture_program import load_model, refuse_made_up
from refusal_eval.activations.tensor_files import write_states
from refusal_eval.core.errors import UserError
from refusal_eval.core.time_limit import TimeLimit
from refusal_eval.engines import engine_program
from refusal_eval.engines.engine_program import check_memory, loaded_size, run_program
from refusal_eval.engines.load_plan import LoadPlan


@pytest.mark.parametrize(
    ("device", "gpus", "placed"), [("cuda", 1, {"": "cuda"}), ("cuda", 2, "auto"), ("cpu", 0, None)]
)
@pytest.mark.parametrize(("cap", "attention"), [(None, None), (50.0, "eager")])
def test_a_model_is_loaded_straight_onto_its_device_and_keeps_its_cap_on_attention(
    monkeypatch, device, gpus, placed, cap, attention
):
    asked, text = {}, types.SimpleNamespace(attn_logit_softcapping=cap)

    class Loader:
        @staticmethod
        def from_pretrained(folder, **options):
            asked.update(options)
            given = types.SimpleNamespace(eval=lambda: "model", get_text_config=lambda: text)
            return (given, {"missing_keys": {"x"}}) if options.get("output_loading_info") else given

    transformers = types.ModuleType("transformers")
    transformers.AutoConfig = transformers.AutoModelForCausalLM = transformers.AutoModelForImageTextToText = Loader
    monkeypatch.setitem(sys.modules, "transformers", transformers)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(float32="float32"))
    job = {"folder": "m", "dtype": "float32", "device": device, "gpus": gpus, "trust_remote_code": False}
    assert load_model(job) == ("model", {"x"})
    assert (asked.get("device_map"), asked.get("attn_implementation")) == (placed, attention)


def test_a_model_whose_decoder_lacks_weights_is_not_captured():
    """Its files may name them otherwise: transformers then computes with random ones."""
    parts = {"vision.weight": object(), "model.layers.0.weight": object(), "lm_head.weight": object()}
    model = types.SimpleNamespace(named_parameters=parts.items)
    decoder = types.SimpleNamespace(parameters=lambda: [parts["model.layers.0.weight"]])
    refuse_made_up(model, decoder, {"vision.weight", "lm_head.weight"})
    with pytest.raises(SystemExit, match=r"no model\.layers\.0\.weight \(1 weights"):
        refuse_made_up(model, decoder, {"model.layers.0.weight"})


def test_the_size_of_weights_is_that_of_the_format_they_are_loaded_in(tmp_path):
    for part in range(2):
        save_file({"a": np.zeros((10, 3), np.float32)}, tmp_path / f"model-{part}.safetensors")
    assert (loaded_size(tmp_path, "bfloat16"), loaded_size(tmp_path, "float32")) == (2 * 30 * 2, 2 * 30 * 4)


def test_a_model_that_does_not_fit_the_memory_is_refused_before_it_is_loaded(tmp_path, monkeypatch):
    save_file({"a": np.zeros((1000, 256), np.float32)}, tmp_path / "model.safetensors")
    monkeypatch.setattr(engine_program, "main_memory", lambda: (2**30, 1_000_000))
    check_memory([(str(tmp_path), "bfloat16")])  # 512 kB
    with pytest.raises(UserError, match=r"too little memory: the model takes 0\.0 GiB in float32"):
        check_memory([(str(tmp_path), "float32")])


def test_weights_in_bfloat16_which_numpy_lacks_are_counted_too(tmp_path):
    write_states(tmp_path / "model.safetensors", np.zeros((2, 3, 4), np.uint16), "BF16", {})
    assert loaded_size(tmp_path, "bfloat16") == 48 and loaded_size(tmp_path, "float32") == 96


def test_a_model_whose_engine_was_edited_while_the_job_waited_is_not_captured(tmp_path):
    """Its activations would be stored as those of the engine that it was."""
    plan = LoadPlan(engine_of({"dtype": "float16"}), "engine", "m", None, "python", "cpu", "seeded", 1, 0.0, "store")
    was, has = ({"weights": {"repo": "a/b"}, "dtype": dtype} for dtype in ("bfloat16", "float16"))
    plan = dataclasses.replace(plan, identity=was, now=lambda: {"engine": "e", "identity": has, "folder": "m"})
    store = types.SimpleNamespace(missing=lambda keys, layers: list(keys))
    asked = [types.SimpleNamespace(key="k")]
    with pytest.raises(UserError, match=r"engine `e` \(dtype\) in m has changed since this run was planned; run again"):
        capture.capture_missing(store, asked, [0], 2, plan, None, tmp_path / "log")


# ---------------------------------------------------------------- how long it may take


@pytest.fixture
def run(tmp_path):
    """Return a function that captures with a program, a shell script, and returns what it was stopped with."""
    save_file({"a": np.zeros(3, np.float32)}, tmp_path / "model.safetensors")
    job = {"folder": str(tmp_path), "dtype": "float32", "device": "cpu", "items": []}

    def run(script, limit=None, **entry):
        program = tmp_path / "python"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        engine = engine_of({"kind": "vllm", "python": str(program), "start_timeout": 600, "stall_timeout": 600} | entry)
        plan = LoadPlan(engine, "engine", str(tmp_path), None, str(program), "cpu", "seeded", 1, 0.0, "store")
        log = tmp_path / "capture.log"
        with pytest.raises(UserError) as stopped:
            run_program(capture.PROGRAM, job, dataclasses.replace(plan, limit=limit), log, [(str(tmp_path), "float32")])
        return str(stopped.value)

    return run


def test_the_time_limit_ends_a_program_that_hangs(run, tmp_path):
    now = time.monotonic()
    said = run(f"echo $$ > {tmp_path}/pid; exec sleep 600", TimeLimit(take=now, stop=now + 1))
    assert "the time limit is reached; what was captured is kept" in said
    assert not psutil.pid_exists(int(Path(tmp_path, "pid").read_text()))


@pytest.mark.parametrize(("before", "seconds"), [("", 2), ("echo captured 1 of 2 prompts; ", 1)])
def test_a_program_of_which_nothing_comes_is_ended(run, before, seconds):
    said = run(f"{before}echo loading; exec sleep 600", start_timeout=1, stall_timeout=1)
    assert f"nothing was captured for {seconds} s" in said and "loading" in said
