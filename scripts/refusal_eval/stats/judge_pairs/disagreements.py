"""The answers on which a study's judges disagree most, for people to read."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from refusal_eval.core.states import LABELS
from refusal_eval.stats.estimates.estimands import VOTES
from refusal_eval.stats.judge_pairs.verdict_panel import NO_LABEL, Panel

MOST_ROWS = 500
COLUMNS = ("disagreement", "split", "model", "prompt_id", "sample", "turn")


class Disputes(NamedTuple):
    """Answers that judges label differently: how many there are, and a row for those they disagree on most."""

    found: int
    rows: list[dict[str, Any]]


def disagreements(found: Panel, most: int = MOST_ROWS) -> Disputes:
    """Return the answers that judges label differently, those they disagree on most first, rows of at most `most`.

    Each row names the answer (its text is in answers/{model}/{split}.jsonl) and holds under `label_{judge}` the label
    of each judge, None where it has none. `disagreement` is the mean over pairs of judges of the distance of their
    labels: 1 between refusal and compliance, 0.5 between partial and either, 0 where equal.
    """
    votes = np.array([VOTES[label] for label in LABELS], dtype=float)
    rows = []
    for unit, labels in zip(found.units, found.labels, strict=True):
        given = votes[labels[labels != NO_LABEL]]
        if len(given) < 2 or given.min() == given.max():
            continue
        a, b = np.triu_indices(len(given), 1)
        distance = float(np.abs(given[a] - given[b]).sum() / (2 * len(a)))
        names = [None if label == NO_LABEL else LABELS[label] for label in labels]
        rows.append((distance, unit, {f"label_{j}": name for j, name in zip(found.judges, names, strict=True)}))
    rows.sort(key=lambda row: (-round(row[0], 9), row[1]))
    told = [{"disagreement": distance, **unit._asdict(), **labels} for distance, unit, labels in rows[:most]]
    return Disputes(len(rows), told)


def columns(found: Panel) -> list[str]:
    """Return the columns of the rows of `disagreements`."""
    return [*COLUMNS, *(f"label_{judge}" for judge in found.judges)]
