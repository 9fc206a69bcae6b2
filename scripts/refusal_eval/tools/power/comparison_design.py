"""The power of a planned comparison of two models, and the smallest difference it detects.

The model. A prompt has a probability of being refused by each model, and its K samples are independent given that.
Over prompts the probabilities of one model vary so that two samples of one prompt correlate by `prompt_correlation`
(the share of the variance p (1 - p) of an answer that lies between prompts); those of the two models correlate by
`model_correlation`; and the differences of prompts of one cluster by `cluster_correlation`. Then the variance of the
difference d of one prompt, with s^2 = p (1 - p) of each model, r the prompt and m the model correlation, is

    V = sum over the two models of s^2 (r + (1 - r) / K)  -  2 m r s_1 s_2

and that of the mean over G clusters of b prompts is (V + (b / e - 1) C) / (G b), where C is what differences of prompts
of one cluster share: `cluster_correlation` times V at the K that it was measured at. It does not shrink with K as V
does. b is the mean size of clusters and e their evenness, 1 where all have that size: their effective number is e G
(`intervals.effective_number`), and t has as many degrees of freedom less one.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize, stats

from refusal_eval.core.errors import UserError

STEPS = 200  # differences that are tried in search of the smallest


@dataclass(frozen=True)
class Design:
    """A comparison of two models on one split."""

    clusters: int  # G, independent clusters of prompts
    prompts_per_cluster: float  # b, on average; 1 where prompts share no clusters
    samples: int  # K
    rate: float  # refusal rate of the model that is compared against, in (0, 1)
    prompt_correlation: float  # r, in [0, 1]
    model_correlation: float  # m, in [-1, 1]; 1 for a model that differs nowhere but by chance, 0 for strangers
    cluster_correlation: float = 0.0  # of the differences of prompts of one cluster, in [0, 1]
    evenness: float = 1.0  # e, the effective number of clusters over their number; 1 where they have one size
    cluster_samples: int | None = None  # K of the answers that correlate so in a cluster; None: `samples`

    @property
    def effective_clusters(self) -> float:
        """The number of equal-sized clusters with the same variance."""
        return self.clusters * self.evenness


def difference_variance(design: Design, difference: float) -> float:
    """Return V, the variance of the difference of one prompt, where the second rate is `rate` + `difference`."""
    between = design.prompt_correlation
    variances = [p * (1 - p) for p in (design.rate, design.rate + difference)]
    own = sum(variances) * (between + (1 - between) / design.samples)
    return max(0.0, own - 2 * design.model_correlation * between * math.sqrt(variances[0] * variances[1]))


def standard_error(design: Design, difference: float) -> float:
    """Return the standard error of the mean difference over all prompts."""
    measured = replace(design, samples=design.cluster_samples or design.samples)
    shared = design.cluster_correlation * difference_variance(measured, difference)
    own = difference_variance(design, difference)
    prompts = design.clusters * design.prompts_per_cluster
    return math.sqrt((own + (design.prompts_per_cluster / design.evenness - 1) * shared) / prompts)


def power(design: Design, difference: float, alpha: float) -> float:
    """Return the probability that the test finds a true difference at the level `alpha`, by normal approximation.

    Raises:
        UserError: if the second rate would not lie between 0 and 1, or there are fewer than two clusters.
    """
    if not 0 <= design.rate + difference <= 1:
        raise UserError(f"{design.rate:g} and a difference of {difference:+g} make no rate between 0 and 1")
    if design.clusters < 2:
        raise UserError("a comparison needs at least two clusters")
    error = standard_error(design, difference)
    if error == 0:
        return float(difference != 0)
    critical = float(stats.t.ppf(1 - alpha / 2, max(1.0, design.effective_clusters - 1)))
    tails = (abs(difference) / error - critical, -abs(difference) / error - critical)
    return float(sum(stats.norm.cdf(tail) for tail in tails))


def detectable(design: Design, wanted: float, alpha: float, up: bool = True) -> float | None:
    """Return the smallest difference that is found with power `wanted`: positive for `up`, else negative.

    None if none that the rate leaves room for is found so often.
    """
    end = (1 - design.rate if up else -design.rate) * (1 - 1e-9)
    # Power is not monotone: near a rate of 0 or 1 the models' covariance vanishes, and the error grows again.
    steps = np.linspace(end * 1e-9, end, STEPS)
    first = next((n for n, difference in enumerate(steps) if power(design, difference, alpha) >= wanted), None)
    if first is None:
        return None
    if first == 0:
        return float(steps[0])
    found: float = optimize.brentq(lambda size: power(design, size, alpha) - wanted, steps[first - 1], steps[first])
    return found
