"""Krippendorff's alpha for labels without an order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refusal_eval.stats.agreement.measures import Counts


def coincidences(labels: NDArray[Any], classes: int) -> tuple[Counts, int]:
    """Return each unit's table of coincidences times a whole number, and that number: units x classes x classes.

    Among the m labels of a unit each ordered pair of two judges' labels counts 1 / (m - 1); a unit with one label or
    none has no pairs. Tables of merged classes are sums of cells.

    Args:
        labels: units x judges; a label is a number from 0 to classes - 1, anything below 0 is none.
        classes: how many labels there are.
    """
    counts = np.stack([(labels == label).sum(axis=1) for label in range(classes)], axis=-1).astype(float)
    m = counts.sum(axis=1)
    pairs = counts[:, :, None] * counts[:, None, :] - counts[:, :, None] * np.eye(classes)
    scale = math.lcm(*range(1, max(2, labels.shape[1]))) if labels.shape[1] < 20 else 1
    weights = np.where(m > 1, scale / np.maximum(m - 1, 1), 0.0)
    return pairs * weights[:, None, None], scale


def krippendorff_alpha(tables: Counts) -> NDArray[np.float64]:
    """Return alpha = 1 - D_observed / D_expected of tables of coincidences, in the last two axes.

    Nominal metric (Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", University of Pennsylvania). NaN
    where all labels are the same, or none has a partner: there is no disagreement to expect.
    """
    each = tables.sum(axis=-1)
    n = each.sum(axis=-1)
    observed = n - np.trace(tables, axis1=-2, axis2=-1)
    expected = n * n - (each * each).sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(expected > 0, 1 - (n - 1) * observed / expected, np.nan)
