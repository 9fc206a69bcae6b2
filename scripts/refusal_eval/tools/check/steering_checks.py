"""Whether interventions do to a model on this machine what they should, in every step and every size of batch.

They are two whose effect is known without a reference: scale 0 changes nothing, and moving the stream of each token all
the way to one vector after the last layer makes the next token's distribution the same for all tokens of all prompts.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence

import numpy as np

from refusal_eval.ask.keys import NEUTRAL_SAMPLING
from refusal_eval.config.change import changes
from refusal_eval.core.errors import UserError
from refusal_eval.core.packing import unpack_floats
from refusal_eval.engines.server import Server
from refusal_eval.tools.check.check_lines import CheckOutcome, fail, not_applicable, ok
from refusal_eval.tools.check.check_report import first_line
from refusal_eval.tools.check.model_checks import ISSUE, MOST_NAMED_DIFFERENCE, Check, Trial, compared, engine_of_plan

AT_ONCE = (1, 2, 3, 4, 7, 8, 16, 31, 32, 64)  # CUDA graphs are captured for some of these; others are padded
TOKENS = 4  # the first is of a prefill step


async def steering_by_0(trial: Trial) -> CheckOutcome:
    """With an intervention of scale 0 after every layer, answers have the log-probabilities of the plain model."""
    if not trial.model.steered:
        return not_applicable("the model's entry has no `intervention`")
    try:
        async with _changed(trial, alike=False) as server:
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
        async with _changed(trial, alike=True) as server:
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


def _changed(trial: Trial, alike: bool) -> Server:
    """Return the engine with a made-up change in place of the model's own."""
    plan, log = trial.model.plan, trial.model.log
    change = next(change for change in changes() if change.made_up_code)
    changed = dataclasses.replace(plan, changes=[change.made_up(plan.folder or "", log.parent, alike)])
    return engine_of_plan(changed, log.with_name(f"{'alike' if alike else 'no_effect'}.server.log"))


STEERING: Sequence[Check] = (steering_by_0, steering_of_every_token)
