"""Which configuration is chosen on one half of the prompts, and what it does to the other half.

With c and c_g the refusal scores of a prompt under the plain model and a configuration g, and l and l_g the mean
log-probability of their answers to it (over samples; each model's own answers, in nats per token):

    removal  mean of c - c_g over the prompts of the splits `refusals`
    shift    mean of |l_g - l| over the prompts of the splits `others`

Of the configurations whose removal on the choosing half is at least tau, the one with the smallest shift there is
chosen; of equal shifts the one with the larger removal. After Refusal Steering (arXiv 2512.16602), whose shift is over
128 fixed conversations that are not published. Ours is another quantity: it is blind to answers that change their words
and not their probability.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import sha256_of
from refusal_eval.stats.estimates.estimate import Estimate, NumberInterval, estimate_from
from refusal_eval.stats.estimates.flags import derived_flags, few_flags
from refusal_eval.stats.estimates.intervals import cluster_t, effective_number
from refusal_eval.stats.estimates.units import JudgedCell, Units, clusters_apart, read_units

CHOOSING, REPORTING = "choosing", "reporting"
REMOVAL, SHIFT, CHOSEN = "choice_removal", "choice_shift", "choice_made"
POSSIBLE = {REMOVAL: (-2.0, 2.0), SHIFT: (0.0, math.inf)}  # no interval goes beyond


def measure(files: Mapping[str, Sequence[str]], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of the analysis' file (`workflow.analysis.Analysis.measure`), with what each choice chose."""
    cells = cells_read(params)
    units = {cell: read_units(path, keep_samples=False) for cell, path in zip(cells, files["scores"], strict=True)}
    units = clusters_apart(units, params["sources"])
    found: list[Estimate] = []
    made: dict[str, str | None] = {}
    for choice in params["choices"]:
        own, chosen = made_choice(choice, units, params["level"])
        found += [dataclasses.replace(one, judge=choice["judge"], samples=params["samples"]) for one in own]
        made[choice["name"]] = chosen
    return {"estimates": [estimate.row() for estimate in found], "chosen": made}


def cells_read(params: Mapping[str, Any]) -> list[JudgedCell]:
    """Return the cells that all choices read, each once."""
    cells = (
        (choice["judge"], model, split)
        for choice in params["choices"]
        for model in (choice["against"], *choice["models"])
        for split in (*choice["refusals"], *choice["others"])
    )
    return list(dict.fromkeys(cells))


def made_choice(
    choice: Mapping[str, Any], units: Mapping[JudgedCell, Units], level: float
) -> tuple[list[Estimate], str | None]:
    """Return the numbers of a choice, and the model that is chosen; None if no model removes enough.

    Args:
        choice: its entry, with a judge.
        units: the scored prompts of its cells, with clusters that mean the same in all of them.

    Raises:
        UserError: if its prompts are too few clusters for two halves.
    """
    choosing = choosing_half(choice, units)
    on_half = {model: _numbers(choice, model, units, choosing, level, CHOOSING) for model in choice["models"]}
    chosen = best(
        {model: (removal.value, shift.value) for model, (removal, shift) in on_half.items()}, float(choice["tau"])
    )
    found = [estimate for pair in on_half.values() for estimate in pair]
    split = on_half[choice["models"][0]][0].split
    found += [
        Estimate(CHOSEN, float(model == chosen), model=model, split=split, parameter=place_of(choice, CHOOSING))
        for model in choice["models"]
    ]
    if chosen is not None:
        found += _numbers(choice, chosen, units, choosing, level, REPORTING)
    return found, chosen


def best(found: Mapping[str, tuple[float | None, float | None]], tau: float) -> str | None:
    """Return the model with the smallest shift among those whose removal is at least tau; None if there is none.

    Args:
        found: removal and shift of each model; a model that lacks one is not chosen.
    """
    enough = [
        (shift, -removal, place, model)
        for place, (model, (removal, shift)) in enumerate(found.items())
        if removal is not None and shift is not None and removal >= tau
    ]
    return min(enough)[-1] if enough else None


def choosing_half(choice: Mapping[str, Any], units: Mapping[JudgedCell, Units]) -> set[str]:
    """Return the clusters on whose prompts the choice is made: half of those of each split, whole clusters.

    Clusters that the same splits have are ranked by a hash of seed and name, and every other one is taken, so that
    neither the order of prompts nor other clusters matter.

    Raises:
        UserError: if a split has one cluster only, or all its clusters fall into one half.
    """
    places: dict[str, set[str]] = {}
    splits = (*choice["refusals"], *choice["others"])
    for split in splits:
        for cluster in units[choice["judge"], choice["against"], split]["cluster"]:
            places.setdefault(str(cluster), set()).add(split)
    strata: dict[frozenset[str], list[str]] = {}
    for cluster, where in places.items():
        strata.setdefault(frozenset(where), []).append(cluster)
    chosen: set[str] = set()
    for own in strata.values():
        chosen |= set(sorted(own, key=lambda cluster: sha256_of(["choice", choice["seed"], cluster]))[::2])
    for split in splits:
        own_clusters = {cluster for cluster, where in places.items() if split in where}
        if not own_clusters & chosen or own_clusters <= chosen:
            raise UserError(
                f"choice {choice['name']}: the prompts of split {split} are too few clusters ({len(own_clusters)}) to "
                "choose on one half and report on the other; add prompts"
            )
    return chosen


def place_of(choice: Mapping[str, Any], half: str) -> str:
    """Return the `parameter` of a choice's rows: its name, and which half of the prompts they are of."""
    return f"{choice['name']}: {half} half"


def _numbers(
    choice: Mapping[str, Any],
    model: str,
    units: Mapping[JudgedCell, Units],
    choosing: set[str],
    level: float,
    half: str,
) -> tuple[Estimate, Estimate]:
    """Return removal and shift of a model on one half."""
    found = []
    for estimand, splits, value in ((REMOVAL, choice["refusals"], _c), (SHIFT, choice["others"], _logprobs)):
        parts, flags = [], []
        for split in splits:
            plain, steered = (units[choice["judge"], name, split] for name in (choice["against"], model))
            flags += [plain.flags, steered.flags]
            both = pd.concat({"plain": value(plain), "steered": value(steered)}, axis=1).dropna()
            difference = both["plain"] - both["steered"]
            clusters = plain.frame["cluster"].astype(str).loc[both.index]
            inside = clusters.isin(choosing) if half == CHOOSING else ~clusters.isin(choosing)
            parts.append(pd.DataFrame({"value": difference[inside], "cluster": clusters[inside]}))
        rows = pd.concat(parts)
        values = rows["value"].abs() if estimand == SHIFT else rows["value"]
        about = {"model": model, "split": "+".join(splits), "parameter": place_of(choice, half)}
        found.append(_mean(estimand, values.tolist(), rows["cluster"].tolist(), level, flags, about))
    return found[0], found[1]


def _c(units: Units) -> pd.Series:
    return pd.Series(np.asarray(units["c"], dtype=float), index=units.frame.index)


def _logprobs(units: Units) -> pd.Series:
    """The mean log-probability of the answers to each prompt that have one, NaN where none has."""
    if units.logprobs is None:
        return pd.Series(np.nan, index=units.frame.index)
    return pd.DataFrame(units.logprobs, index=units.frame.index).mean(axis=1, skipna=True)


def _mean(
    estimand: str,
    values: list[float],
    clusters: list[str],
    level: float,
    flags: Iterable[Sequence[str]],
    about: Mapping[str, Any],
) -> Estimate:
    if not values:
        return Estimate(estimand, None, n_prompts=0, n_clusters=0, **about)
    ends = cluster_t(values, clusters, level)
    sizes = np.unique(clusters, return_counts=True)[1].astype(float)
    marks = derived_flags(flags, few_flags(effective_number(sizes)))
    value = math.fsum(values) / len(values)
    least, most = POSSIBLE[estimand]
    low, high = (None if end is None else min(max(end, least), most) for end in (ends.low, ends.high))
    number = NumberInterval(value, low, high, ends.method)
    return estimate_from(estimand, number, level, flags=marks, n_prompts=len(values), n_clusters=len(sizes), **about)
