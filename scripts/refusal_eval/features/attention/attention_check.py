"""Whether an engine steers attention as it should: not at all at alpha 1, and visibly near 0."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from refusal_eval.ask.keys import NEUTRAL_SAMPLING
from refusal_eval.core.packing import unpack_floats
from refusal_eval.program.check_lines import ISSUE, SAME_LOGPROB, CheckOutcome, fail, not_applicable, ok

if TYPE_CHECKING:
    from refusal_eval.tools.check.model_checks import Trial

TOKENS, SMALL = 8, 1e-3


async def attention_steering(trial: Trial) -> CheckOutcome:
    """Greedy answers keep their log-probabilities at alpha 1, and change at a small one."""
    if "steers_attention" not in trial.local_engine.able():
        return not_applicable("the engine cannot steer attention")
    sampling = trial.settings({**NEUTRAL_SAMPLING, "max_tokens": TOKENS, "temperature": 0.0})
    apart: dict[float, list[float]] = {1.0: [], SMALL: []}
    for sample in trial.one_per_prompt:
        prompt = sample.request.token_ids
        places = list(range(len(prompt) // 3, 2 * len(prompt) // 3 or 1))
        plain = await trial.engine.complete(prompt, sampling, None)
        for alpha, found in apart.items():
            changes = {**sampling.changes, "attention": {"alpha": alpha, "positions": places}}
            steered = await trial.engine.complete(prompt, dataclasses.replace(sampling, changes=changes), None)
            # Of the first token, which the same tokens precede.
            values = (unpack_floats(reply["logprobs"])[0] for reply in (plain, steered))
            found.append(abs(float(np.subtract(*values))))
    same, changed = max(apart[1.0]), max(apart[SMALL])
    seen = f"{len(apart[SMALL])} prompts: {same:.1e} nats apart at alpha 1, up to {changed:.2g} at {SMALL:g}"
    return ok(seen) if same <= SAME_LOGPROB < changed else fail(seen, f"attention is not steered as asked; {ISSUE}")
