"""Whether interventions do to a model on this machine what they should, in every step and every size of batch.

They are two whose effect is known without a reference: scale 0 changes nothing, and moving the stream of each token all
the way to one vector after the last layer makes the next token's distribution the same for all tokens of all prompts.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from refusal_eval.activations.model_facts import model_facts
from refusal_eval.ask.keys import NEUTRAL_SAMPLING
from refusal_eval.core.errors import UserError
from refusal_eval.core.packing import unpack_floats
from refusal_eval.engines.server import Server
from refusal_eval.features.steering.intervention import FittedDirection, write_intervention
from refusal_eval.features.steering.intervention_file import CompiledIntervention
from refusal_eval.features.steering.loaded_intervention import LoadedIntervention
from refusal_eval.tools.check.check_lines import CheckOutcome, fail, not_applicable, ok
from refusal_eval.tools.check.check_report import first_line
from refusal_eval.tools.check.model_checks import ISSUE, MOST_NAMED_DIFFERENCE, Check, Trial, compared, engine_of_plan

# Far longer than any state, so that what a state is rounded to hardly turns the vector that takes its place.
SIZE = 1e4
NEUTRAL = {"gate": None, "offset": "none", "towards": "negative"}
AT_ONCE = (1, 2, 3, 4, 7, 8, 16, 31, 32, 64)  # CUDA graphs are captured for some of these; others are padded
TOKENS = 4  # the first is of a prefill step


async def steering_by_0(trial: Trial) -> CheckOutcome:
    """With an intervention of scale 0 after every layer, answers have the log-probabilities of the plain model."""
    if not trial.model.steered:
        return not_applicable("the model's entry has no `intervention`")
    try:
        async with _steer(trial, "add", 0.0) as server:
            return await compared(trial, server)
    except UserError as error:
        return fail(first_line(str(error)), ISSUE)


async def steering_of_every_token(trial: Trial) -> CheckOutcome:
    """Check that moving all streams to one vector gives all tokens of all prompts one probability, at any load."""
    if not trial.model.steered:
        return not_applicable("the model's entry has no `intervention`")
    sampling = trial.settings({**NEUTRAL_SAMPLING, "max_tokens": TOKENS, "temperature": 0.0})
    prompts, counts = [one.request.token_ids for one in trial.one_per_prompt], _counts(trial)
    found: list[np.ndarray] = []
    try:
        async with _steer(trial, "pull", 1.0) as server:
            for count in counts:
                asked = [server.complete(prompts[n % len(prompts)], sampling, None) for n in range(count)]
                found += [unpack_floats(reply["logprobs"]) for reply in await asyncio.gather(*asked)]
    except UserError as error:
        return fail(first_line(str(error)), ISSUE)
    apart = float(np.ptp(np.concatenate(found)))
    seen = f"{len(found)} answers, up to {counts[-1]} at once: their tokens are at most {apart:.1e} nats apart"
    # Also for NaN.
    return ok(seen) if apart <= MOST_NAMED_DIFFERENCE else fail(seen, f"some steps are not steered; {ISSUE}")


def _counts(trial: Trial) -> list[int]:
    most = max(1, trial.model.plan.in_flight)
    return [count for count in AT_ONCE if count <= most]


def _steer(trial: Trial, mode: str, scale: float) -> Server:
    """Return the engine with a made-up intervention: after all layers for scale 0, else after the last one."""
    plan = trial.model.plan
    direction = made_up_direction(plan.folder or "")
    layers = direction.layers[-1:] if scale else direction.layers
    file = trial.model.log.with_name(f"{mode}.safetensors")
    card = write_intervention(file, "checked", [direction], {"mode": mode, "layers": layers, "scale": scale, **NEUTRAL})
    steered = dataclasses.replace(plan, changes=[LoadedIntervention([CompiledIntervention.of_card(card, str(file))])])
    return engine_of_plan(steered, trial.model.log.with_name(f"{mode}.server.log"))


def made_up_direction(folder: str) -> FittedDirection:
    """Return a direction for the model in a folder, out of random numbers.

    Raises:
        UserError: if the folder does not say how many layers it has and how wide they are, or has quantized weights.
    """
    facts = model_facts(folder)
    layers = list(range(facts["model_layers"]))
    means = np.random.default_rng(0).normal(0.0, SIZE, (2, len(layers), facts["width"])).astype(np.float32)
    card: dict[str, Any] = {**facts, "direction": "made-up", "method": "md", "layers": layers, "ranking": layers}
    card |= {"model": "checked", "positions": "none", "dtype": "float32", "prompts": []}
    return FittedDirection("a made-up direction", card, means[0] - means[1], means[0], means[1])


STEERING: Sequence[Check] = (steering_by_0, steering_of_every_token)
