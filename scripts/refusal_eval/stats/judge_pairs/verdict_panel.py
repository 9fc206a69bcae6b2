"""The labels of all judges of a study on the same answers, and the answers on which they disagree most."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from refusal_eval.core.states import JUDGED, LABELS
from refusal_eval.stats.estimates.estimands import VOTES, Row
from refusal_eval.stats.estimates.samples import NO_LABEL

MOST_ROWS = 500
UNIT = ["split", "model", "prompt_id", "sample", "turn"]  # what names an answer of the study


class Panel(NamedTuple):
    """Answers by judges."""

    judges: tuple[str, ...]  # their names
    units: pd.DataFrame  # the answers: the columns `UNIT`, and the `cluster` of the prompt
    labels: NDArray[np.int8]  # places in `states.LABELS`, -1 where a judge has no label, units x judges

    def of_split(self, split: str) -> Panel:
        """Return the part of one split."""
        kept = (self.units["split"] == split).to_numpy(bool)
        return Panel(self.judges, self.units[kept], self.labels[kept])


class Disputes(NamedTuple):
    """Answers that judges label differently: how many there are, and a row for those they disagree on most."""

    found: int
    rows: list[dict[str, Any]]


def panel(
    verdicts: Mapping[tuple[str, str, str], Iterable[Row]],
    clusters: Mapping[tuple[str, str], str],
    scored: Mapping[str, Collection[tuple[str, int]]] | None = None,
) -> Panel:
    """Return the labels of all judges, units sorted by split, model, prompt, sample and turn; judges by name.

    Args:
        verdicts: rows of the verdict files by (judge, model, split).
        clusters: the cluster of each prompt by (split, prompt id).
        scored: (prompt id, turn) of the answers that count, by split: judges read the other turns of dialogues, too.
            None for all.

    Raises:
        ValueError: for two verdicts of one judge on one answer, or one on a prompt that its split lacks.
    """
    judges = tuple(sorted({judge for judge, _, _ in verdicts}))
    found: dict[tuple[Any, ...], list[int]] = {}
    for (judge, model, split), rows in verdicts.items():
        seen: set[tuple[Any, ...]] = set()
        for row in rows:
            prompt, turn = row["prompt_id"], row["turn"]
            unit = (split, model, prompt, row["sample"], turn)
            if unit in seen:
                raise ValueError(f"judge {judge} has two verdicts on {unit}")
            if (split, prompt) not in clusters:
                raise ValueError(f"a verdict of {judge} belongs to prompt {prompt}, which is not in {split}")
            seen.add(unit)
            if scored is None or (prompt, turn) in scored[split]:
                label = LABELS.index(row["label"]) if row["state"] == JUDGED else NO_LABEL
                found.setdefault(unit, [NO_LABEL] * len(judges))[judges.index(judge)] = label
    units = pd.DataFrame(sorted(found), columns=UNIT)
    units["cluster"] = [clusters[place] for place in zip(units["split"], units["prompt_id"], strict=True)]
    labels = np.array([found[unit] for unit in sorted(found)], dtype=np.int8).reshape(len(units), len(judges))
    return Panel(judges, units, labels)


def disagreements(found: Panel, most: int = MOST_ROWS) -> Disputes:
    """Return the answers that judges label differently, those they disagree on most first, rows of at most `most`.

    Each row names the answer (its text is in answers/{model}/{split}.jsonl) and holds under `label_{judge}` the label
    of each judge, None where it has none. `disagreement` is the mean over pairs of judges of the distance of their
    labels: 1 between refusal and compliance, 0.5 between partial and either, 0 where equal.
    """
    votes = np.array([*(VOTES[label] for label in LABELS), np.nan])[found.labels]  # NO_LABEL is the last place
    a, b = np.triu_indices(len(found.judges), 1)
    gaps = np.abs(votes[:, a] - votes[:, b])
    pairs = np.isfinite(gaps).sum(axis=1)
    distances = np.divide(np.nansum(gaps, axis=1), 2 * pairs, out=np.zeros(len(gaps)), where=pairs > 0)
    places = np.flatnonzero(distances > 0)
    order = places[np.argsort(-distances[places].round(9), kind="stable")]  # units are sorted
    names = [*LABELS, None]
    rows = [
        {"disagreement": float(distances[i])}
        | found.units[UNIT].iloc[i].to_dict()
        | {f"label_{judge}": names[label] for judge, label in zip(found.judges, found.labels[i], strict=True)}
        for i in order[:most].tolist()
    ]
    return Disputes(len(order), rows)


def columns(found: Panel) -> list[str]:
    """Return the columns of the rows of `disagreements`."""
    return ["disagreement", *UNIT, *(f"label_{judge}" for judge in found.judges)]
