"""The scores of several cells side by side: a row per prompt (of dialogues per scored turn), a column per cell."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from refusal_eval.stats.estimates.clusters import names_apart
from refusal_eval.stats.estimates.estimands import READINGS
from refusal_eval.stats.estimates.near_duplicates import Place, copies

UNIT = ["prompt_id", "turn"]
_NUMBERS = [f"{what}_{reading}" for reading in READINGS for what in ("rate", "low", "high")]
_VOTES = {"refuse": 1.0, "comply": 0.0}  # a tie is no decision
_ROUNDED = 10**9  # rates whose common denominator is larger are kept to nine digits

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Panel:
    """Rates of the same prompts in several columns.

    Attributes:
        units: index (split, prompt_id, turn) of the rows.
        clusters: number of each row's cluster, from 0 on; a cluster may lie in several splits.
        splits: number of each row's split, from 0 on.
        rates: rows x columns, NaN where no sample counts or the column lacks the prompt.
        lows: the rates if every unjudged sample complied, 0 for what a column lacks.
        highs: the rates if every unjudged sample refused, 1 for what a column lacks.
        votes: majority of the samples, 1 refuses, 0 complies, NaN for a tie or none.
        unit: whole number in whose parts the rates are kept: a common denominator of all of them where `exact`.
        exact: whether `unit` is one.
    """

    units: pd.MultiIndex
    clusters: Codes
    splits: Codes
    rates: Floats
    lows: Floats
    highs: Floats
    votes: Floats
    unit: int
    exact: bool


def read_cell(path: str | Path) -> pd.DataFrame:
    """Return what comparisons need of a score CSV, with the index (prompt_id, turn).

    Columns: cluster, counting (samples that count), rate_*, low_* and high_* (NaN for none), majority_*.
    """
    words = ["prompt_id", "cluster", *(f"majority_{reading}" for reading in READINGS)]
    counts = ["turn", "n_judged", "n_blocked"]
    types = dict.fromkeys(words, str) | dict.fromkeys(counts, int) | dict.fromkeys(_NUMBERS, float)
    frame = pd.read_csv(
        path,
        usecols=list(types),
        dtype=types,
        keep_default_na=False,
        na_values={name: [""] for name in _NUMBERS},
    )
    frame["counting"] = frame["n_judged"] + frame["n_blocked"]
    return frame.set_index(UNIT)


def panel_of(
    cells: Mapping[str, Sequence[pd.DataFrame]],
    readings: Mapping[str, str],
    left_out: Collection[tuple[str, str]] = (),
    sources: Mapping[str, str] | None = None,
) -> Panel:
    """Return the panel of some splits.

    Args:
        cells: for each split the frames (`read_cell`) of its columns, as many for each split.
        readings: `strict` or `broad`, by split.
        left_out: (split, prompt id) of prompts that are not to be counted.
        sources: a word for the source of each split (see `clusters.names_apart`); None where they have the same.
    """
    parts = [_part(split, cells[split], readings[split], left_out) for split in sorted(cells)]
    units = parts[0]["units"].append([part["units"] for part in parts[1:]])
    names = {split: part["clusters"].tolist() for split, part in zip(sorted(cells), parts, strict=True)}
    if sources is not None:
        apart = names_apart(names, sources)
        names = {split: [apart[split][name] for name in own] for split, own in names.items()}
    clusters = np.array([name for own in names.values() for name in own], dtype=str)
    unit = math.lcm(*(part["unit"] for part in parts))
    return Panel(
        units=units,
        clusters=np.unique(clusters, return_inverse=True)[1].astype(np.intp),
        splits=np.repeat(np.arange(len(parts)), [len(part["units"]) for part in parts]),
        **{key: np.concatenate([part[key] for part in parts]) for key in ("rates", "lows", "highs", "votes")},
        unit=min(unit, _ROUNDED),
        exact=unit <= _ROUNDED,
    )


def repeated(pairs: Iterable[Sequence[Mapping[str, Any]]], splits: Collection[str]) -> set[Place]:
    """Return the prompts of some splits that repeat a prompt of another one of these and are not to be counted again.

    Args:
        pairs: near-duplicates as in estimates/duplicates.json, each two prompts with `split` and `prompt_id`.
        splits: the splits that are pooled.
    """
    places = ((Place(**first), Place(**second)) for first, second in pairs)
    return set(copies(pair for pair in places if all(place.split in splits for place in pair)))


def _part(
    split: str, frames: Sequence[pd.DataFrame], reading: str, left_out: Collection[tuple[str, str]]
) -> dict[str, Any]:
    index = frames[0].index
    for frame in frames[1:]:
        if not frame.index.equals(index):
            index = index.union(frame.index)
    index = index.sort_values()
    gone = {prompt for of, prompt in left_out if of == split}
    if gone:
        index = index[~index.get_level_values("prompt_id").isin(gone)]
    aligned = [frame.reindex(index) for frame in frames]
    clusters = aligned[0]["cluster"]
    for frame in aligned[1:]:
        clusters = clusters.fillna(frame["cluster"])
    counts = {int(n) for frame in frames for n in np.unique(frame["counting"]) if n > 0}

    def columns(name: str, missing: float = math.nan) -> Floats:
        return np.column_stack([frame[f"{name}_{reading}"].to_numpy(float, na_value=missing) for frame in aligned])

    votes = np.column_stack([frame[f"majority_{reading}"].map(_VOTES).to_numpy(float) for frame in aligned])
    return {
        "units": pd.MultiIndex.from_arrays([[split] * len(index), *(index.get_level_values(name) for name in UNIT)]),
        "clusters": clusters.to_numpy(object),
        "rates": columns("rate"),
        "lows": columns("low", 0.0),
        "highs": columns("high", 1.0),
        "votes": votes,
        "unit": math.lcm(*counts),
    }
