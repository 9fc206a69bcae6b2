"""Agreement of two people on answers (docs/how-to/human_labels.md: What the weights do)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from independent_intervals import codes
from independent_judges import CARD_DRAWS, CLASSES, kappa, label_of, unseen, with_unseen
from independent_rates import Found
from independent_study import Array

LEAST_ROWS, LEAST_CLUSTERS = 10, 5


class Twice(NamedTuple):
    """A row that two people labelled, the answers behind it divided by its probability, and its cluster."""

    labels: tuple[str, str]
    weight: float
    cluster: str


def human_kappa(rows: Sequence[Twice], raters: int, reading: str, alpha: float) -> Found:
    """Return the kappa of people in a reading, or of three labels where that is empty."""
    numbers, count = codes([row.cluster for row in rows])
    size = 2 if reading else len(CLASSES)
    both = np.array([[label_of(label, reading) for label in row.labels] for row in rows], dtype=int).reshape(-1, 2)
    if len(rows) < LEAST_ROWS or count < LEAST_CLUSTERS or len(set(both.ravel().tolist())) < 2:
        return Found()
    tables = np.zeros((count, size, size))
    for number, row, (a, b) in zip(numbers, rows, both, strict=True):
        tables[number, a, b] += row.weight
    sides = [both[:, [0]], both[:, [1]]]
    if raters > 2:
        tables, sides = tables + tables.swapaxes(1, 2), [both, both]
    found = [[effective(rows, (side == k).any(axis=1)) for k in range(size)] for side in sides]
    turned = tables.swapaxes(1, 2)
    changed = [unseen(of, alpha, own) for of, own in zip((tables, turned), found, strict=True)]
    return with_unseen(alpha, tables, kappa, changed, CARD_DRAWS)


def effective(rows: Sequence[Twice], kept: Array) -> float:
    """Return the effective number of clusters of some rows (docs/reference/agreement.md: G n_K / n)."""
    own = [row for row, keep in zip(rows, kept, strict=True) if keep]
    if not own:
        return 0.0
    w = np.array([row.weight for row in own])
    return float(len({row.cluster for row in own}) * w.sum() ** 2 / (w**2).sum() / len(own))
