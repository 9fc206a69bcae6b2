"""Groups of prompts and their states, which are compared with those of another group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refusal_eval.core.errors import UserError

Floats = NDArray[np.float64]
States = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Group:
    """The prompts of one side: states [prompts, layers, width], and of each prompt its cluster and weight.

    Of one layer (`at`) the states are float64 [prompts, width].
    """

    states: NDArray[Any]
    clusters: Sequence[str]
    weights: Floats
    parts: Sequence[int] = ()  # of each the number of the part of its side, where that has several

    def __len__(self) -> int:
        return len(self.clusters)

    def kept(self, keep: NDArray[np.bool_]) -> Group:
        """Return the prompts where `keep` is true."""
        clusters = [cluster for cluster, kept in zip(self.clusters, keep, strict=True) if kept]
        parts = [part for part, kept in zip(self.parts, keep, strict=True) if kept] if self.parts else ()
        return Group(self.states[keep], clusters, self.weights[keep], parts)

    def of_clusters(self, wanted: set[str], inside: bool = True) -> Group:
        """Return the prompts of these clusters, or those of all others."""
        return self.kept(np.array([(cluster in wanted) == inside for cluster in self.clusters], dtype=bool))

    def at(self, place: int) -> Group:
        """Return the group at one layer, by its place among the layers of the states."""
        return replace(self, states=self.states[:, place].astype(np.float64))

    def mean(self) -> Floats:
        """Return the weighted mean of the states of one layer, [width]."""
        mean: Floats = np.average(self.states, axis=0, weights=self.weights)
        return mean


def refuse_not_finite(number: int, *states: NDArray[Any]) -> None:
    """Raise `UserError` if states of a layer are NaN or infinite, as where a number format overflowed."""
    if not all(np.isfinite(part).all() for part in states):
        raise UserError(f"layer {number} has activations that are not finite")
