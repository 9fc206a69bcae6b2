"""The labels of all judges of a study on the same answers, and the answers on which they disagree most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from refusal_eval.core.states import LABELS
from refusal_eval.stats.estimates.estimands import VOTES
from refusal_eval.stats.estimates.units import NO_LABEL, PLACE, Cell, Units

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


def panel(cells: Mapping[Cell, Units]) -> Panel:
    """Return the labels of all judges, units sorted by split, model, prompt, sample and turn; judges by name.

    Answers count that a judge gave a verdict on, whatever its state.

    Args:
        cells: by (judge, model, split); their clusters mean the same in all splits (`units.clusters_apart`).
    """
    judges = sorted({judge for judge, _, _ in cells})
    numbers = {label: number for number, label in enumerate(LABELS)}
    parts = []
    for (judge, model, split), own in sorted(cells.items()):
        assert own.samples is not None
        read = own.samples.loc[own.samples["verdict"].notna(), ["prompt_id", "sample", "turn", "label"]]
        cluster = own.frame["cluster"].loc[pd.MultiIndex.from_frame(read[PLACE])].to_numpy(object)
        label = read["label"].map(numbers).fillna(NO_LABEL).astype(np.int8)
        parts.append(read.assign(split=split, model=model, judge=judge, cluster=cluster, label=label))
    read = pd.concat(parts)
    labels = read.pivot(index=UNIT, columns="judge", values="label").sort_index().reindex(columns=judges)
    clusters = read.drop_duplicates(UNIT).set_index(UNIT)["cluster"].reindex(labels.index)
    units = labels.index.to_frame(index=False).assign(cluster=clusters.to_numpy(object))
    return Panel(tuple(judges), units, labels.fillna(NO_LABEL).to_numpy(np.int8))


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
