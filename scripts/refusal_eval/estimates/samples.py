"""What became of each sample of a cell: labels and log-probabilities as matrices, units x K."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refusal_eval.estimates.units import Floats, Units
from refusal_eval.states import BLOCKED, LABELS

Labels = NDArray[np.int8]
Row = Mapping[str, Any]

# Places in states.LABELS, and beside them:
BLOCKED_LABEL = len(LABELS)
NO_LABEL = -1


def label_matrix(units: Units, verdicts: Iterable[Row], answers: Iterable[Row], samples: int) -> Labels:
    """Return a label for each unit and sample: its place in `states.LABELS`, 3 where blocked, -1 where none counts.

    Args:
        units: the cell's scored prompts.
        verdicts: the judge's verdicts, in any order; those on turns that are not scored play no part.
        answers: the answers; only blocked ones are looked at.
        samples: K.

    Raises:
        ValueError: if the score CSV was not made from these rows.
    """
    places = _places(units)
    numbers: dict[str | None, int] = {label: i for i, label in enumerate(LABELS)}
    labels = np.full((len(units), samples), NO_LABEL, dtype=np.int8)
    for row in verdicts:
        place = places.get((row["prompt_id"], row["turn"]))
        if place is not None:
            labels[place, row["sample"]] = numbers.get(row["label"], NO_LABEL)
    for row in answers:
        if row["state"] == BLOCKED and (row["prompt_id"], row["turn"]) in places:
            labels[places[row["prompt_id"], row["turn"]], row["sample"]] = BLOCKED_LABEL
    wanted = [units.counts[name] for name in ("n_refusal", "n_partial", "n_compliance", "n_blocked")]
    if any(((labels == i).sum(axis=1) != counts).any() for i, counts in enumerate(wanted)):
        raise ValueError("the scores were not made from these answers and verdicts")
    return labels


def logprob_matrix(units: Units, answers: Iterable[Row], samples: int) -> Floats:
    """Return the mean log-probability of the answer tokens of each unit and sample, NaN where there is none."""
    places = _places(units)
    found = np.full((len(units), samples), np.nan)
    for row in answers:
        place = places.get((row["prompt_id"], row["turn"]))
        if place is not None and row["answer_logprob"] is not None:
            found[place, row["sample"]] = row["answer_logprob"]
    return found


def _places(units: Units) -> dict[tuple[str, int], int]:
    return {(name, int(turn)): i for i, (name, turn) in enumerate(zip(units.prompt_ids, units.turns, strict=True))}
