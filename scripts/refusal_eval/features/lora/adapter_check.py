"""Whether the adapter of a model is in use on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from refusal_eval.program.check_lines import ISSUE, CheckOutcome, fail, not_applicable, ok

if TYPE_CHECKING:
    from refusal_eval.tools.check.model_checks import Trial


async def adapter(trial: Trial) -> CheckOutcome:
    """Check that without the model's adapter an answer has other log-probabilities."""
    if trial.settings({}).served_as is None:
        return not_applicable("the model's entry has no `lora`")
    sample = trial.one_per_prompt[0]
    with_it, without = [await trial.score(trial.engine, sample, changed) for changed in (True, False)]
    mean = abs(np.subtract(with_it, without)).mean()
    seen = f"with and without it, tokens of an answer are {mean:.1e} nats apart on average"
    return ok(seen) if mean > 0 else fail(seen, f"it changes nothing; {ISSUE}")
