"""What `refusal-eval check --model` makes of an engine that steers attention too much, or not at all."""

import asyncio
from dataclasses import replace

import pytest
import yaml
from engine_entries import engine_of
from test_check_model import MODEL, trial
from test_server_engine import ENTRY

from refusal_eval.core.packing import pack_floats
from refusal_eval.features.attention.attention_check import attention_steering
from refusal_eval.features.eager.eager_engine import EagerEngine
from refusal_eval.features.steering.steering_checks import steering_by_0, steering_of_every_token
from refusal_eval.tools.check.checked_model import written_entry
from refusal_eval.tools.check.model_checks import forms

pytestmark = pytest.mark.feature("attention", "eager", "steering")


class Steering:
    """Stands for an engine; `shift` gives how far alpha moves the log-probability of the first token."""

    def __init__(self, shift):
        self.shift, self.asked = shift, []

    async def complete(self, token_ids, settings, seed):
        change = settings.changes.get("attention")
        self.asked.append(change)
        moved = 0.0 if change is None else self.shift(change["alpha"])
        return {"token_ids": [7], "logprobs": pack_floats([-3.0 + moved])}


def outcome(shift, kind=EagerEngine):
    found = trial(entry=MODEL)
    engine = engine_of(ENTRY, kind) if kind else found.model.plan.engine
    found.model = replace(found.model, plan=replace(found.model.plan, engine=engine))
    found.engine = Steering(shift)
    return asyncio.run(attention_steering(found)), found


@pytest.mark.parametrize(
    ("shift", "state"),
    [
        (lambda alpha: 0.0 if alpha == 1 else -0.5, "ok"),
        (lambda alpha: 0.0, "fail"),  # it is not obeyed
        (lambda alpha: -0.5, "fail"),  # alpha 1 changes answers
        (lambda alpha: float("nan"), "fail"),
    ],
)
def test_alpha_1_must_change_nothing_and_a_small_one_something(shift, state):
    result, found = outcome(shift)
    assert result.state == state
    plain, same, small = found.engine.asked[:3]
    assert plain is None and same["alpha"] == 1 and small["alpha"] < 0.01
    prompt = found.samples[0].request.token_ids
    assert same["positions"] == small["positions"] and set(same["positions"]) < set(range(len(prompt)))


def test_a_model_with_attention_steering_is_checked_as_the_plain_one_without_directions(tmp_path):
    own = {"less": {"like": "smollm2-plain", "intervention": {"kind": "attention", "span": "focus", "alpha": 0.1}}}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump({"models": own}))
    assert written_entry("less", [str(tmp_path / "own.yaml")]) == ("less", True)
    _, found = outcome(lambda alpha: 0.0)
    found.model = replace(found.model, left_out=True)
    for check in (steering_by_0, steering_of_every_token):
        assert asyncio.run(check(found)).state == "not applicable"


def test_an_engine_that_cannot_is_not_checked_nor_are_forms_where_there_are_none():
    result, _ = outcome(lambda alpha: 0.0, kind=None)
    assert result.state == "not applicable"
    _, found = outcome(lambda alpha: 0.0)
    assert asyncio.run(forms(found)).state == "not applicable"
