"""Intervals of measures of a whole set of texts, which no resampling with repeated texts can give.

A bootstrap draws texts several times over, and a text is like its copy: Self-BLEU would rise and distinct-2 fall for
that alone. The jackknife leaves clusters out instead.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import scipy

from refusal_eval.stats.estimates.estimate import NumberInterval
from refusal_eval.stats.estimates.resampling import cluster_codes

METHOD = "jackknife over clusters, t quantile"
MOST_GROUPS = 50


def jackknife(
    measure: Callable[[Sequence[int]], float | None], clusters: Sequence[str], level: float, seed: int
) -> NumberInterval | None:
    """Return a measure of all rows with its interval, value -+ t s; None where it is not defined.

    s^2 = (G - 1) / G sum_g (v_g - mean v)^2, where v_g is the measure without group g of the clusters, and t has G - 1
    degrees of freedom (Efron & Stein 1981, Annals of Statistics 9:586; of groups Kott 2001, Journal of Official
    Statistics 17:521). A group is a cluster; of more than MOST_GROUPS clusters, groups are random and of nearly equal
    size. The ends are cut off at 0 and 1. There is no interval with fewer than three groups.

    Args:
        measure: returns it of some rows, by their numbers; a share.
        clusters: of each row.
    """
    value = measure(range(len(clusters)))
    if value is None:
        return None
    codes = cluster_codes(clusters)
    count = int(codes.max()) + 1
    groups = min(count, MOST_GROUPS)
    of_cluster = np.random.default_rng(seed).permutation(count) % groups if count > groups else np.arange(count)
    of_row = of_cluster[codes]
    without = [measure(np.flatnonzero(of_row != group).tolist()) for group in range(groups)] if groups > 2 else []
    known = [one for one in without if one is not None]
    if groups < 3 or len(known) < groups:
        return NumberInterval(value)
    middle = math.fsum(known) / groups
    error = math.sqrt((groups - 1) / groups * math.fsum((one - middle) ** 2 for one in known))
    reach = float(scipy.special.stdtrit(groups - 1, (1 + level) / 2)) * error
    return NumberInterval(value, max(0.0, value - reach), min(1.0, value + reach), METHOD)
