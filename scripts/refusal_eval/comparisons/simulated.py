"""Made-up comparisons of a known design, to see what the test and the interval do."""

from __future__ import annotations

import numpy as np
from scipy import special, stats

from refusal_eval.comparisons.design import Design, difference_variance
from refusal_eval.comparisons.panel import Floats
from refusal_eval.comparisons.sign_flips import sign_flip_p

_GRID = np.linspace(-8.5, 8.5, 6801)


def shared_part(design: Design, difference: float) -> float:
    """Return how much of what is a model's own in a prompt its cluster shares, for the design's cluster correlation.

    Raises:
        ValueError: if no share gives so high a correlation: the samples' own noise is not shared.
    """
    if design.cluster_correlation == 0:
        return 0.0
    variances = sum(p * (1 - p) for p in (design.rate, design.rate + difference))
    own = (1 - design.model_correlation) * design.prompt_correlation * variances
    wanted = design.cluster_correlation * difference_variance(design, difference)
    if wanted > own:
        raise ValueError("so high a cluster correlation cannot be with these models' correlation and K")
    return wanted / own


def simulated_refusals(design: Design, difference: float, runs: int, seed: int) -> Floats:
    """Return the refusals out of K of each prompt under both models: 2 x runs x clusters x prompts.

    Probabilities are of beta distributions, tied together by normal ones (a Gaussian copula), so that correlations come
    out close to the design's, a little lower for rates near 0 and 1.
    """
    rng = np.random.default_rng(seed)
    shape = (runs, design.clusters, round(design.prompts_per_cluster))
    share = shared_part(design, difference)
    common = rng.standard_normal(shape) if design.model_correlation else 0.0
    found = []
    for rate in (design.rate, design.rate + difference):
        own = rng.standard_normal(shape)
        if share:
            own = np.sqrt(share) * rng.standard_normal((*shape[:2], 1)) + np.sqrt(1 - share) * own
        normal = np.sqrt(design.model_correlation) * common + np.sqrt(1 - design.model_correlation) * own
        found.append(rng.binomial(design.samples, probabilities(normal, rate, design.prompt_correlation)))
    return np.array(found, dtype=float)


def probabilities(normal: Floats, rate: float, correlation: float) -> Floats:
    """Return standard normal numbers turned into probabilities with mean `rate`, whose samples correlate so."""
    if correlation == 0 or rate in (0, 1):
        return np.full(np.shape(normal), rate)
    if correlation == 1:
        return (normal > stats.norm.ppf(1 - rate)).astype(float)
    scale = 1 / correlation - 1
    quantiles = stats.beta.ppf(special.ndtr(_GRID), rate * scale, (1 - rate) * scale)
    return np.clip(np.interp(normal, _GRID, quantiles), 0.0, 1.0)


def simulated_power(design: Design, difference: float, alpha: float, runs: int, seed: int) -> float:
    """Return the share of made-up comparisons in which the sign-flip test finds a difference at the level `alpha`."""
    first, second = simulated_refusals(design, difference, runs, seed)
    sums = (second - first).sum(axis=2).astype(np.int64)
    return float(np.mean([sign_flip_p(own, seed + i)[0] <= alpha for i, own in enumerate(sums)]))
