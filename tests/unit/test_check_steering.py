"""What `refusal-eval check --model` makes of interventions: hooks that miss a step or change too much are noticed."""

import asyncio
import json
from dataclasses import replace

import numpy as np
import pytest
import yaml
from test_check_model import MODEL, Engine, trial

from refusal_eval.core.errors import UserError
from refusal_eval.core.packing import pack_floats
from refusal_eval.features.steering.intervention_file import read_compiled
from refusal_eval.features.steering.made_up_intervention import SIZE
from refusal_eval.tools.check import steering_checks
from refusal_eval.tools.check.checked_model import written_entry
from refusal_eval.tools.check.steering_checks import steering_by_0, steering_of_every_token

LAYERS, WIDTH = 3, 8


class Steered(Engine):
    """Stands for an engine under an intervention: each request's log-probabilities follow from how many are asked."""

    async def __aenter__(self):
        if self.wrong.get("start"):
            raise UserError("the engine cannot be given the intervention of `checked`")
        self.open = 0
        return self

    async def __aexit__(self, *_):
        pass

    async def complete(self, token_ids, settings, seed):
        self.open += 1
        await asyncio.sleep(0)
        values = self.wrong.get("values", lambda at_once: [-3.0] * 4)(self.open)
        await asyncio.sleep(0)
        self.open -= 1
        return {"token_ids": [7] * 4, "logprobs": pack_floats(values)}


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Return a function that gives a trial of a steered model, whose further loads are as named."""
    config = {"num_hidden_layers": LAYERS, "hidden_size": WIDTH, "architectures": ["LlamaForCausalLM"]}
    (tmp_path / "config.json").write_text(json.dumps(config))

    def give(steered=True, **wrong):
        found = trial(entry=MODEL)
        plan = replace(found.model.plan, folder=str(tmp_path))
        found.model = replace(found.model, plan=plan, log=tmp_path / "engine.server.log", steered=steered)
        monkeypatch.setattr(steering_checks, "engine_of_plan", lambda plan, log: Steered(found.samples, **wrong))
        return found

    return give


def outcome(check, found):
    return asyncio.run(check(found))


@pytest.mark.parametrize("check", [steering_by_0, steering_of_every_token])
def test_a_plain_model_is_not_checked_and_a_load_that_does_not_start_fails(made, check):
    assert outcome(check, made(steered=False)).state == "not applicable"
    failed = outcome(check, made(start=True))
    assert failed.state == "fail" and "cannot be given the intervention" in failed.seen


@pytest.mark.parametrize(("read", "state"), [(-0.5, "ok"), (-0.9, "fail"), (float("nan"), "fail")])
def test_scale_0_must_leave_log_probabilities_as_they_are(made, read, state):
    assert outcome(steering_by_0, made(again=[read] * 99)).state == state


@pytest.mark.parametrize(
    ("values", "state"),
    [
        (lambda at_once: [-3.0] * 4, "ok"),
        (lambda at_once: [-3.0, -3.0, -3.05, -3.0], "ok"),
        (lambda at_once: [-3.0, -1.0, -1.0, -1.0], "fail"),  # decode steps are not steered
        (lambda at_once: [-3.0 if at_once != 8 else -2.0] * 4, "fail"),  # one size of batch is not
        (lambda at_once: [float("nan")] * 4, "fail"),
    ],
)
def test_every_step_in_batches_of_every_size_must_be_steered(made, values, state):
    assert outcome(steering_of_every_token, made(values=values)).state == state


def test_the_interventions_are_as_the_checks_say(made, tmp_path):
    found = made()
    outcome(steering_by_0, found)
    outcome(steering_of_every_token, found)
    spec, tensors = read_compiled(tmp_path / "add.safetensors")
    assert spec["layers"] == [0, 1, 2] and not any(tensor.any() for tensor in tensors.values())
    spec, tensors = read_compiled(tmp_path / "pull.safetensors")
    assert spec["layers"] == [2] and tensors["2.share"] == 1
    assert np.linalg.norm(tensors["2.target"]) > SIZE


def test_a_steered_model_or_one_of_a_sweep_is_checked_without_its_study(tmp_path):
    entries = {
        "steered": {"like": "smollm2-plain", "intervention": {"direction": "d", "mode": "add", "layers": [3]}},
        "swept": {"like": "steered", "sweep": {"scale": [-1, 1]}},
    }
    entries["steered"]["intervention"]["scale"] = 1
    (tmp_path / "own.yaml").write_text(yaml.safe_dump({"models": entries}))
    files = [str(tmp_path / "own.yaml"), str(tmp_path / "gone.yaml")]
    assert written_entry("steered", files) == ("steered", True)
    assert written_entry("swept", files) == written_entry("swept.scale-1", files) == ("swept", True)
    assert written_entry("smollm2-plain", files) == ("smollm2-plain", False)
    assert written_entry("unknown", []) == ("unknown", False)
