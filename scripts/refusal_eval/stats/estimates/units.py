"""The scored prompts of cells as frames; of dialogues, the scored turns of prompts."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from refusal_eval.stats.estimates.scores import MIXED_SERVING, SCORE_COLUMNS, cell_flags, score_flags

Cell = tuple[str, str, str]  # judge, model, split
Flags = NDArray[np.bool_]

PLACE = ["prompt_id", "turn"]
_PROMPT_ID = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, eq=False)
class Units:
    """The scored prompts of a cell, and what is known of the whole cell."""

    frame: pd.DataFrame  # as `read_scores` returns it
    flags: tuple[str, ...] = ()  # of the cell (`scores.score_flags`), for the numbers that are made of it
    max_tokens: int | None = None  # the limit of its answers, None without one
    _arrays: dict[str, NDArray[Any]] = field(default_factory=dict, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.frame)

    def __getitem__(self, column: str) -> NDArray[Any]:
        """Return a column, or a level of the index, as an array."""
        if column not in self._arrays:
            values = self.frame.index.get_level_values(column) if column in PLACE else self.frame[column]
            self._arrays[column] = np.asarray(values)
        return self._arrays[column]

    def refusals(self, reading: str) -> NDArray[np.int64]:
        """Return the number of samples that refuse in a reading, `strict` or `broad`."""
        return np.asarray(self["n_refusal"] + self["n_blocked"] + (self["n_partial"] if reading == "broad" else 0))

    def own_flags(self, n_clusters: int) -> tuple[str, ...]:
        """Return the flags of a rate of these rows alone, as of a category: by their answers, on so many clusters."""
        answers, unjudged, truncated = (int(self[f"n_{name}"].sum()) for name in ("samples", "unjudged", "truncated"))
        own = cell_flags(answers, unjudged, truncated, self.max_tokens, n_clusters)
        return (*own, *({MIXED_SERVING} & set(self.flags)))

    def kept(self, keep: Flags) -> Units:
        """Return the part where `keep` is true."""
        return replace(self, frame=self.frame[keep])


def read_scores(source: str | Path | TextIO) -> pd.DataFrame:
    """Return a score CSV with the index (prompt_id, turn).

    `counting` is the number of samples that enter rates: judged or blocked. Rates, bounds and c are NaN for none, words
    (category, cluster, band, majority_*, any_*) empty.

    Raises:
        ValueError: if its columns are others.
    """
    numbers = [name for name in SCORE_COLUMNS if name.startswith(("rate_", "low_", "high_")) or name == "c"]
    counts = [name for name in SCORE_COLUMNS if name.startswith("n_") or name == "turn"]
    types = dict.fromkeys(SCORE_COLUMNS, "str") | dict.fromkeys(numbers, "float64") | dict.fromkeys(counts, "int64")
    missing = {name: [""] for name in numbers}
    frame = pd.read_csv(source, dtype=types, keep_default_na=False, na_values=missing)
    if tuple(frame.columns) != SCORE_COLUMNS:
        raise ValueError(f"not a score CSV: its columns are {list(frame.columns)}")
    frame["counting"] = frame["n_judged"] + frame["n_blocked"]
    return frame.set_index(PLACE)


def read_units(source: str | Path | TextIO, score: Mapping[str, Any]) -> Units:
    """Return the scored prompts of a score CSV with the flags that the cell's summary (`scores.cell_score`) has.

    Raises:
        ValueError: as `read_scores` does.
    """
    return Units(read_scores(source), score_flags(score), score["max_tokens"])


def dialogue_splits(units: Mapping[Cell, Units]) -> list[str]:
    """Return the splits in which a prompt has several scored turns, so that their numbers are not over prompts."""
    return sorted({split for (_, _, split), own in units.items() if len(np.unique(own["prompt_id"])) < len(own)})


def names_apart(clusters: Mapping[str, Collection[str]], sources: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return for each split the name that each of its clusters has among the clusters of all splits.

    What a column of a source calls a cluster, such as `1` or `weapons`, means something within that source only. So a
    name that splits of different sources have is told apart by the source; any other name stays as it is. So does the
    id of a prompt, the name of a cluster that no column gives: it says what the prompt is, wherever it comes from.

    Args:
        sources: a word for the source of each split; splits of one source have the same.
    """
    used: dict[str, set[str]] = {}
    for split, names in clusters.items():
        for name in set(names):
            used.setdefault(name, set()).add(sources[split])
    return {
        split: {
            name: name if len(used[name]) == 1 or _PROMPT_ID.fullmatch(name) else f"{name} of {sources[split]}"
            for name in set(names)
        }
        for split, names in clusters.items()
    }


def clusters_apart(units: Mapping[Cell, Units], sources: Mapping[str, str]) -> dict[Cell, Units]:
    """Return the same cells with clusters that mean the same in each of them, see `names_apart`."""
    found: dict[str, set[str]] = {}
    for (_, _, split), own in units.items():
        found.setdefault(split, set()).update(own["cluster"])
    names = names_apart(found, sources)
    return {
        cell: replace(own, frame=own.frame.assign(cluster=[names[cell[2]][name] for name in own["cluster"]]))
        for cell, own in units.items()
    }


def independent_within(clusters: Sequence[str], prompts: Sequence[str]) -> list[str]:
    """Return what varies independently within a category: its clusters, or its prompts where they are all one cluster.

    What makes prompts of that one cluster alike is the category's own effect, and the question is about this very one.
    """
    return list(prompts if len(set(clusters)) == 1 else clusters)
