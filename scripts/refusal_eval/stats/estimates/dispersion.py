"""How undecided a model is over the K samples of one prompt."""

from __future__ import annotations

import numpy as np

from refusal_eval.stats.estimates.units import Floats, Ints


def decision_entropy(refusals: Ints, counting: Ints) -> Floats:
    """Return the entropy in bits of refuse or not over the samples of each prompt; NaN where fewer than two count.

    It is that of the observed shares and lies below the entropy of the model's own probability: by about
    1 / (2 n ln 2) bits where both answers are likely (Miller 1955), with n samples. So it must not be compared between
    different K.
    """
    share = _shares(refusals, counting)
    with np.errstate(divide="ignore", invalid="ignore"):
        bits = -(share * np.log2(share) + (1 - share) * np.log2(1 - share))
    return np.asarray(np.where(np.isnan(share), np.nan, np.where((share == 0) | (share == 1), 0.0, bits)))


def flip_rate(refusals: Ints, counting: Ints) -> Floats:
    """Return the share of pairs of samples of each prompt that disagree, refuse or not; NaN where fewer than two count.

    r (n - r) / (n (n - 1) / 2) for r refusals of n samples: without bias for 2 q (1 - q), where q is the probability
    that the model refuses the prompt, for any n (the U-statistic of the pair), so comparable between different K. At
    most 1/2 is expected of a prompt, though a prompt with two samples shows 0 or 1.
    """
    flips = np.full(len(counting), np.nan)
    np.divide(refusals * (counting - refusals), counting * (counting - 1) / 2, out=flips, where=counting > 1)
    return flips


def _shares(refusals: Ints, counting: Ints) -> Floats:
    shares = np.full(len(counting), np.nan)
    np.divide(refusals, counting, out=shares, where=counting > 1)
    return shares
