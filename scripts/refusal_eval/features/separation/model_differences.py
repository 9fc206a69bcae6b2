"""The difference of two models in how far apart the same two groups of prompts lie in a layer of each.

Both models are measured on the prompts that they have in common, and each draw of the bootstrap holds the same prompts
of both, so that what is hard about a prompt cancels. The draws of each model are moved onto its value as its own
interval is (`separation.py` says why); the interval are the quantiles of their differences, moved so that their median
is the difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refusal_eval.activations.groups import Floats
from refusal_eval.core.errors import UserError
from refusal_eval.features.separation.separation import (
    INDICES,
    LEVEL,
    RATIOS,
    WITHOUT_INTERVAL,
    Bools,
    LayerSeparation,
    cluster_folds,
    cluster_weights,
    indices,
)
from refusal_eval.stats.estimates.estimate import NumberInterval

METHOD = "paired cluster bootstrap, its median moved to the value"
NO_INTERVAL = "none (a ratio of extremes)"


@dataclass(frozen=True, eq=False)
class GroupedStates:
    """The prompts of both groups of one model: states [prompts, layers, width], and of each its id and cluster."""

    states: NDArray[Any]
    prompts: Sequence[tuple[str, str]]  # side and id
    positive: Bools
    clusters: Sequence[str]

    def kept(self, wanted: Sequence[tuple[str, str]]) -> GroupedStates:
        """Return these prompts, in this order."""
        place = {prompt: row for row, prompt in enumerate(self.prompts)}
        rows = [place[prompt] for prompt in wanted]
        clusters = [self.clusters[row] for row in rows]
        return GroupedStates(self.states[rows], list(wanted), self.positive[rows], clusters)


def in_common(one: GroupedStates, other: GroupedStates) -> tuple[GroupedStates, GroupedStates]:
    """Return both with the prompts that they share, in the same order.

    Raises:
        UserError: if they share fewer than two of a group, or their states have different widths, whose indices are not
            comparable.
    """
    if one.states.shape[2] != other.states.shape[2]:
        widths = f"{one.states.shape[2]} and {other.states.shape[2]}"
        raise UserError(f"the widths are {widths}: indices of models of different widths are not comparable")
    shared = [prompt for prompt in one.prompts if prompt in set(other.prompts)]
    for side in ("positive", "negative"):
        count = sum(of == side for of, _ in shared)
        if count < 2:
            raise UserError(f"both have {count} prompts of the {side} side in common; at least two are needed")
    return one.kept(shared), other.kept(shared)


def index_differences(
    one: Floats, other: Floats, positive: Bools, clusters: Sequence[str], draws: int, seed: int
) -> dict[str, NumberInterval | None]:
    """Return by index that of one layer of a model less that of the other; None where either has none.

    Args:
        one, other: states [prompts, width] of the same prompts in one layer of each model.
        positive: which prompts are of the positive group.
        clusters: the cluster of each prompt; clusters are drawn whole.
        draws: of the bootstrap.
        seed: of these.
    """
    codes = np.unique(np.asarray(clusters, dtype=object), return_inverse=True)[1]
    folds, rng = cluster_folds(codes, positive, seed), np.random.default_rng(seed)
    weights = [np.ones(len(positive)), *(cluster_weights(codes, rng) for _ in range(draws))]
    both = [
        [indices(layer, positive, weight, folds) for weight in weights]
        for layer in map(LayerSeparation.of, (one, other))
    ]
    return {name: _difference(name, *both) for name in INDICES}


def _difference(
    name: str, one: Sequence[Mapping[str, float]], other: Sequence[Mapping[str, float]]
) -> NumberInterval | None:
    """The difference of an index, of which the first of each is the value and the others are draws."""
    values = [np.array([draw[name] for draw in draws]) for draws in (one, other)]
    value = float(values[0][0] - values[1][0])
    if not np.isfinite(value):
        return None
    if name in WITHOUT_INTERVAL:
        return NumberInterval(value, method=NO_INTERVAL)
    there = np.isfinite(values[0][1:]) & np.isfinite(values[1][1:])
    moved = [_moved(name, float(own[0]), own[1:][there]) for own in values]
    differences = moved[0] - moved[1]
    if len(differences) < 2 or not np.isfinite(differences).all():
        return NumberInterval(value)
    low, middle, high = (float(end) for end in np.quantile(differences, [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2]))
    return NumberInterval(value, value - middle + low, value - middle + high, METHOD)


def _moved(name: str, value: float, draws: Floats) -> Floats:
    middle = float(np.median(draws)) if len(draws) else float("nan")
    if name in RATIOS:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(draws * value / middle)
    return np.asarray(draws - middle + value)
