"""The labels of all judges of a study on the same answers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from refusal_eval.core.states import JUDGED, LABELS
from refusal_eval.stats.estimates.estimands import Row

NO_LABEL = -1


class Unit(NamedTuple):
    """One answer of the study."""

    split: str
    model: str
    prompt_id: str
    sample: int
    turn: int


class Panel(NamedTuple):
    """Answers by judges: `labels` holds places in `states.LABELS`, -1 where a judge has no label, units x judges."""

    judges: tuple[str, ...]
    units: list[Unit]
    clusters: list[str]
    labels: NDArray[np.int8]

    def of_split(self, split: str) -> Panel:
        """Return the part of one split."""
        kept = [i for i, unit in enumerate(self.units) if unit.split == split]
        chosen = ([self.units[i] for i in kept], [self.clusters[i] for i in kept])
        return Panel(self.judges, *chosen, self.labels[kept])


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
    found: dict[Unit, list[int]] = {}
    for (judge, model, split), rows in verdicts.items():
        place = judges.index(judge)
        seen: set[Unit] = set()
        for row in rows:
            unit = Unit(split, model, row["prompt_id"], row["sample"], row["turn"])
            if unit in seen:
                raise ValueError(f"judge {judge} has two verdicts on {tuple(unit)}")
            if (split, unit.prompt_id) not in clusters:
                raise ValueError(f"a verdict of {judge} belongs to prompt {unit.prompt_id}, which is not in {split}")
            seen.add(unit)
            if scored is not None and (unit.prompt_id, unit.turn) not in scored[split]:
                continue
            labels = found.setdefault(unit, [NO_LABEL] * len(judges))
            labels[place] = LABELS.index(row["label"]) if row["state"] == JUDGED else NO_LABEL
    units = sorted(found)
    matrix = np.array([found[unit] for unit in units], dtype=np.int8).reshape(len(units), len(judges))
    return Panel(judges, units, [clusters[unit.split, unit.prompt_id] for unit in units], matrix)
