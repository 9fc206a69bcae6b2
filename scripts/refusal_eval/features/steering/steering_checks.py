"""Whether interventions do to a model on this machine what they should, in every step and every size of batch.

They are two whose effect is known without a reference: scale 0 changes nothing, and moving the stream of each token all
the way to one vector after the last layer makes the next token's distribution the same for all tokens of all prompts.
"""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from refusal_eval.ask.keys import NEUTRAL_SAMPLING
from refusal_eval.config.change import changes
from refusal_eval.core.errors import UserError
from refusal_eval.core.packing import unpack_floats
from refusal_eval.program.check_lines import ISSUE, SAME_LOGPROB, CheckOutcome, fail, not_applicable, ok

if TYPE_CHECKING:
    from refusal_eval.engines.server import Server
    from refusal_eval.tools.check.model_checks import Trial

AT_ONCE = (1, 2, 3, 4, 7, 8, 16, 31, 32, 64)  # CUDA graphs are captured for some of these; others are padded
TOKENS = 4  # the first is of a prefill step


async def steering_by_0(trial: Trial) -> CheckOutcome:
    """With an intervention of scale 0 after every layer, answers have the log-probabilities of the plain model."""
    if not _is_steered(trial):
        return not_applicable("the model's entry has no `intervention` along a direction")
    try:
        async with _changed(trial, alike=False) as server:
            return await trial.same_scores(server)
    except UserError as error:
        return trial.failure(error)


async def steering_of_every_token(trial: Trial) -> CheckOutcome:
    """Check that moving all streams to one vector gives all tokens of all prompts one probability, at any load."""
    if not _is_steered(trial):
        return not_applicable("the model's entry has no `intervention` along a direction")
    sampling = trial.settings({**NEUTRAL_SAMPLING, "max_tokens": TOKENS, "temperature": 0.0})
    prompts, counts = [one.request.token_ids for one in trial.one_per_prompt], _counts(trial)
    found: list[np.ndarray] = []
    try:
        async with _changed(trial, alike=True) as server:
            for count in counts:
                asked = [server.complete(prompts[n % len(prompts)], sampling, None) for n in range(count)]
                found += [unpack_floats(reply["logprobs"]) for reply in await asyncio.gather(*asked)]
    except UserError as error:
        return trial.failure(error)
    apart = float(np.ptp(np.concatenate(found)))
    seen = f"{len(found)} answers, up to {counts[-1]} at once: their tokens are at most {apart:.1e} nats apart"
    # Also for NaN.
    return ok(seen) if apart <= SAME_LOGPROB else fail(seen, f"some steps are not steered; {ISSUE}")


def _is_steered(trial: Trial) -> bool:
    """Tell whether the model has an intervention that its engine serves; of other kinds it is asked elsewhere."""
    return trial.model.left_out and "model_changes" in trial.local_engine.able()


def _counts(trial: Trial) -> list[int]:
    most = max(1, trial.model.plan.in_flight)
    return [count for count in AT_ONCE if count <= most]


def _changed(trial: Trial, alike: bool) -> Server:
    """Return the engine with a made-up change in place of the model's own."""
    plan, log = trial.model.plan, trial.model.log
    change = next(change for change in changes() if change.made_up_code)
    changed = dataclasses.replace(plan, changes=[change.made_up(plan.folder or "", log.parent, alike)])
    return trial.other_engine(changed, log.with_name(f"{'alike' if alike else 'no_effect'}.server.log"))
