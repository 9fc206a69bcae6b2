"""Directions: one vector per layer that separates two groups of prompts in a model's activations.

Formulas of Refusal Steering (arXiv 2512.16602, sections 3.2 and 3.3): P are the positive prompts, N the negative ones,
h the states of a layer, w the weights of prompts. The paper subtracts the mean o of neutral prompts from h and scales
vectors to length 1; o cancels in every difference and covariance below, and here a vector is as long as the difference
of means, so that a scale of 1 means the same for each method.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve
from scipy.stats import rankdata

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import sha256_of

FORMULAS_VERSION = 1  # a corrected formula has another: directions are then fitted anew
WEIGHTED, RIDGE = ("wmd", "wrmd"), ("rmd", "wrmd")
LEAST_FITTED = 2  # prompts of a side that a vector is made from
Floats = NDArray[np.float64]
States = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Group:
    """The prompts of one side: states [prompts, layers, width], and of each prompt its cluster and weight."""

    states: States
    clusters: Sequence[str]
    weights: Floats

    def __len__(self) -> int:
        return len(self.clusters)

    def kept(self, keep: NDArray[np.bool_]) -> Group:
        """Return the prompts where `keep` is true."""
        clusters = [cluster for cluster, kept in zip(self.clusters, keep, strict=True) if kept]
        return Group(self.states[keep], clusters, self.weights[keep])

    def of_clusters(self, wanted: set[str], inside: bool = True) -> Group:
        """Return the prompts of these clusters, or those of all others."""
        return self.kept(np.array([(cluster in wanted) == inside for cluster in self.clusters], dtype=bool))

    def mean(self, layer: int) -> Floats:
        """Return the weighted mean of a layer's states, [width]."""
        return np.average(self.states[:, layer].astype(np.float64), axis=0, weights=self.weights)


@dataclass(frozen=True)
class Method:
    """How a vector is made of two groups.

    Attributes:
        name: `md`, `wmd`, `rmd`, `wrmd` or `random`.
        ridge: lambda.
        relative: whether lambda is multiplied by the mean of the covariance's diagonal.
        seed: of `random`.
    """

    name: str
    ridge: float = 0.01
    relative: bool = False
    seed: int = 0

    def weighting(self, group: Group) -> Group:
        """Return the group with the weights that count: equal ones, unless the method is weighted."""
        return group if self.name in WEIGHTED else replace(group, weights=np.ones(len(group)))

    def vector(self, positive: Group, negative: Group, layer: int, number: int) -> Floats:
        """Return the vector of one layer, [width], from the negative to the positive side.

        md      mean_P h - mean_N h
        wmd     the same with means weighted by |c(x)|
        rmd     the direction of (Sigma_N + lambda I)^-1 (mean_P h - mean_N h), Sigma_N the covariance of N
        wrmd    the same with weighted means, and Sigma_N weighted and divided by the sum of the weights
        random  a Gaussian direction

        All are as long as the difference of (weighted) means. The covariance is divided by the number of prompts, so
        that `wrmd` with equal weights is `rmd`.

        Args:
            positive, negative: the sides.
            layer: the layer's place in their states.
            number: the layer's number in the model, for `random`.
        """
        positive, negative = self.weighting(positive), self.weighting(negative)
        difference = positive.mean(layer) - negative.mean(layer)
        vector = difference
        if self.name in RIDGE:
            vector = solve(self._covariance(negative, layer), difference, assume_a="pos")
        elif self.name == "random":
            vector = np.random.default_rng([self.seed, number]).standard_normal(len(difference))
        else:
            return difference
        return vector * (np.linalg.norm(difference) / np.linalg.norm(vector))

    def _covariance(self, group: Group, layer: int) -> Floats:
        centred = group.states[:, layer].astype(np.float64) - group.mean(layer)
        covariance: Floats = (centred.T * group.weights) @ centred / group.weights.sum()
        ridge = self.ridge * (np.trace(covariance) / len(covariance) if self.relative else 1.0)
        covariance[np.diag_indices_from(covariance)] += ridge
        return covariance


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted direction: arrays [layers, width] in units of the residual stream, and what is known of each layer."""

    direction: States
    mean_positive: States
    mean_negative: States
    ranking: list[int]  # the numbers of the layers, the best first
    card: dict[str, Any]

    def tensors(self) -> dict[str, States]:
        """Return the arrays by the names that they have in the file."""
        return {
            "direction": self.direction,
            "mean_positive": self.mean_positive,
            "mean_negative": self.mean_negative,
        }


def fit(positive: Group, negative: Group, layers: Sequence[int], method: Method, hold_out: float, seed: int) -> Fitted:
    """Return the direction of two groups.

    Held-out clusters enter no mean, no covariance and no vector. Layers are ranked by the area under the ROC curve of
    the projections of held-out prompts on the layer's vector; of equal ones the lower layer comes first.

    Args:
        positive, negative: the sides.
        layers: the numbers of the layers of their states.
        method: how vectors are made.
        hold_out: the share of the prompts that is held out.
        seed: decides which clusters.

    Raises:
        UserError: if a side has too few prompts or clusters, or a layer has states that are no numbers, or none that
            differ between the sides.
    """
    held = held_out_clusters(positive.clusters, negative.clusters, hold_out, seed)
    fitting, held_out = _split(positive, negative, held)
    for side, group in zip(("positive", "negative"), fitting, strict=True):
        if len(group) < LEAST_FITTED:
            raise UserError(f"the {side} side has {len(group)} prompts to fit on, and needs {LEAST_FITTED}")
    halves = _halves(*fitting, seed)
    vectors, aucs, cosines = [], [], []
    for layer, number in enumerate(layers):
        if not all(np.isfinite(group.states[:, layer]).all() for group in (positive, negative)):
            raise UserError(f"layer {number} has activations that are no finite numbers")
        vector = method.vector(*fitting, layer, number)
        if not np.any(vector):
            raise UserError(f"at layer {number} both sides have the same mean, which gives no direction")
        vectors.append(vector)
        aucs.append(auc(*(group.states[:, layer].astype(np.float64) @ vector for group in held_out)))
        parts = [method.vector(*half, layer, number) for half in halves] if method.name != "random" else []
        cosines.append(cosine(*parts) if parts else None)
    means = [[method.weighting(group).mean(layer) for layer in range(len(layers))] for group in fitting]
    ranking = [number for _, number in sorted((-value, number) for value, number in zip(aucs, layers, strict=True))]
    card = {
        "n": {"positive": len(positive), "negative": len(negative)},
        "n_fitted": {"positive": len(fitting[0]), "negative": len(fitting[1])},
        "n_held_out": {"positive": len(held_out[0]), "negative": len(held_out[1])},
        "layers": [
            {"layer": number, "held_out_auc": value, "split_half_cosine": cosine_of_halves}
            | {"norm": float(np.linalg.norm(vector)), "negative_mean_norm": float(np.linalg.norm(mean))}
            for number, value, cosine_of_halves, vector, mean in zip(
                layers, aucs, cosines, vectors, means[1], strict=True
            )
        ],
    }
    direction, *both_means = (np.asarray(rows, dtype=np.float32) for rows in (vectors, *means))
    return Fitted(direction, both_means[0], both_means[1], ranking, card)


def held_out_clusters(
    positive: Sequence[str], negative: Sequence[str], share: float, seed: int, purpose: str = "held out"
) -> set[str]:
    """Return the clusters that are held out: about `share` of those of each side, and of those that are on both.

    Drawn by a hash of seed and cluster, so that neither the order of prompts nor other clusters matter much. Of each
    side at least one cluster is held out and one is left, where it has two.

    Raises:
        UserError: if a side has only one cluster.
    """
    sides = set(positive), set(negative)
    for name, clusters in zip(("positive", "negative"), sides, strict=True):
        if len(clusters) < 2:
            raise UserError(f"the prompts of the {name} side are one cluster, and two are needed: one is held out")
    held: set[str] = set()
    for stratum in (sides[0] & sides[1], sides[0] - sides[1], sides[1] - sides[0]):
        ranked = sorted(stratum, key=lambda cluster: sha256_of([purpose, seed, cluster]))
        held |= set(ranked[: round(share * len(ranked))])
    for own in sides:
        ranked = sorted(own, key=lambda cluster: sha256_of([purpose, seed, cluster]))
        if not own & held:
            held.add(ranked[0])
        elif own <= held:
            held.discard(ranked[-1])
    return held


def _split(positive: Group, negative: Group, held: set[str]) -> tuple[tuple[Group, Group], tuple[Group, Group]]:
    """Return both sides without these clusters, and both sides with them alone."""
    rest = positive.of_clusters(held, inside=False), negative.of_clusters(held, inside=False)
    return rest, (positive.of_clusters(held), negative.of_clusters(held))


def _halves(positive: Group, negative: Group, seed: int) -> list[tuple[Group, Group]]:
    """Return two halves of both sides, clusters kept together; none where a side has one cluster."""
    if min(len(set(group.clusters)) for group in (positive, negative)) < 2:
        return []
    return list(_split(positive, negative, held_out_clusters(positive.clusters, negative.clusters, 0.5, seed, "half")))


def auc(positive: Floats, negative: Floats) -> float:
    """Return the area under the ROC curve: the chance that a positive value exceeds a negative one, ties half."""
    ranks = rankdata(np.concatenate([positive, negative]))
    wins = ranks[: len(positive)].sum() - len(positive) * (len(positive) + 1) / 2
    return float(wins / (len(positive) * len(negative)))


def cosine(one: Floats, other: Floats) -> float:
    """Return the cosine of two vectors; 0 where one has no length."""
    lengths = np.linalg.norm(one) * np.linalg.norm(other)
    return float(one @ other / lengths) if lengths else 0.0


def made_from(sides: Mapping[str, Sequence[Mapping[str, Any]]], **how: Any) -> str:
    """Return the SHA-256 of what a direction is made from: it is fitted once, and kept in the store under this.

    Args:
        sides: for each side what its prompts are, in order: activation keys, cluster, weight.
        how: method, ridge, layers, hold-out and seed.
    """
    return sha256_of({"formulas_version": FORMULAS_VERSION, "sides": sides, **how})
