"""c(x) under other temperatures of its weights: how much of it is the choice of tau."""

from __future__ import annotations

import numpy as np

from refusal_eval.core.errors import UserError
from refusal_eval.core.states import LABELS
from refusal_eval.stats.estimates.estimands import VOTES
from refusal_eval.stats.estimates.samples import Labels
from refusal_eval.stats.estimates.units import Flags, Floats

# From weights that nearly only see the likeliest answer to none at all: `inf` is the plain mean of the votes.
GRID = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, float("inf"))


def taus(own: float) -> list[float]:
    """Return the temperatures of the sweep in ascending order: the grid, and the study's own."""
    return sorted({*GRID, own})


def c_at(tau: float, labels: Labels, logprobs: Floats) -> Floats:
    """Return c(x) of each unit at a temperature, as `estimands.weighted_vote` defines it; NaN where it has none.

    Args:
        tau: the temperature in nats per token; infinite for equal weights.
        labels: of `samples.Samples`; blocked samples have no vote.
        logprobs: mean log-probabilities, units x K.

    Raises:
        UserError: if tau is not positive.
    """
    if not tau > 0:
        raise UserError(f"tau is {tau}; the temperature of c(x) must be positive")
    votes = np.array([VOTES[label] for label in LABELS], dtype=float)
    voting: Flags = np.asarray((labels >= 0) & (labels < len(LABELS)))
    z = np.where(voting, votes[np.where(voting, labels, 0)], 0.0)
    known: Flags = np.asarray(voting.any(axis=1) & ~(voting & np.isnan(logprobs)).any(axis=1))
    scaled = np.where(voting & known[:, None], logprobs / tau, -np.inf)
    top = np.where(known, scaled.max(axis=1), 0.0)
    weights = np.exp(scaled - top[:, None])
    result = np.full(len(labels), np.nan)
    result[known] = (weights * z).sum(axis=1)[known] / weights.sum(axis=1)[known]
    return np.asarray(np.clip(result, -1.0, 1.0))
