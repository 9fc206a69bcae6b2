"""Directions: one vector per layer that separates two groups of prompts in a model's activations.

Formulas after Refusal Steering (arXiv 2512.16602, sections 3.2 and 3.3): P are the positive prompts, N the negative
ones, h the states of a layer, w the weights of prompts. What differs from the paper:

    offset   the paper subtracts the mean o of neutral prompts from h; o cancels in all differences and covariances here
             and counts in projections (projections.py)
    wmd      the code that it builds on scales both means to length 1 after subtracting o, and then subtracts them; o
             does not cancel there. Here it is the difference of weighted means
    length   the paper's vectors have length 1; here they are as long as the difference of means, so that a scale of 1
             means the same for each method
    step     the paper adds alpha s v, with s the ratio of the 95 % (alpha < 0: 5 %) quantiles of projections and c(x)
             on validation prompts: its alpha is another step than a scale here (projections.py has s)
    ranking  the paper ranks layers by r - RMSE (projections.py) and drops the deepest, about 5 %; here by the held-out
             area, of all captured layers, unless an intervention asks for the paper's
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy  # alone: its parts are loaded when first used, and requests are rendered with names of this module only

from refusal_eval.activations.groups import Floats, Group, States, refuse_not_finite
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import sha256_of
from refusal_eval.features.steering.held_out import held_out_of, split_held

LOG = logging.getLogger(__name__)
FORMULAS_VERSION = 2  # a corrected formula has another: directions are then fitted again
WEIGHTED, RIDGE = ("wmd", "wrmd"), ("rmd", "wrmd")
LEAST_FITTED = 2  # prompts of a side that a vector is made from


@dataclass(frozen=True)
class FitMethod:
    """How a vector is made of two groups.

    Attributes:
        name: `md`, `wmd`, `rmd` or `wrmd`.
        ridge: lambda.
        relative: whether lambda is multiplied by the mean of the covariance's diagonal.
    """

    name: str
    ridge: float = 0.01
    relative: bool = False

    def weighting(self, group: Group) -> Group:
        """Return the group with the weights that count: equal ones, unless the method is weighted."""
        return group if self.name in WEIGHTED else replace(group, weights=np.ones(len(group)))

    def vector(self, positive: Group, negative: Group, number: int) -> Floats:
        """Return the vector of one layer, [width], from the negative to the positive side.

        md      mean_P h - mean_N h
        wmd     the same with means weighted by |c(x)|
        rmd     the direction of (Sigma_N + lambda I)^-1 (mean_P h - mean_N h), Sigma_N the covariance of N
        wrmd    the same with weighted means, and Sigma_N weighted and divided by the sum of the weights

        All are as long as the difference of (weighted) means. The covariance is divided by the number of prompts, so
        that `wrmd` with equal weights is `rmd`.

        Args:
            positive, negative: the sides at that layer.
            number: the layer's number in the model, for messages.

        Raises:
            UserError: if both sides have the same mean, or one has no weight, or the ridge is too small.
        """
        positive, negative = self.weighting(positive), self.weighting(negative)
        if not (positive.weights.sum() and negative.weights.sum()):
            raise UserError("c(x) is 0 for all prompts of one side that the vector is made from, so none has a weight")
        difference = positive.mean() - negative.mean()
        if not difference.any():
            raise UserError(f"at layer {number} both sides have the same mean, which gives no direction")
        if self.name not in RIDGE:
            return difference
        vector = self._solved(negative, difference, number)
        return np.asarray(vector * (np.linalg.norm(difference) / np.linalg.norm(vector)))

    def _solved(self, negative: Group, difference: Floats, number: int) -> Floats:
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", scipy.linalg.LinAlgWarning)
                vector: Floats = scipy.linalg.solve(self._covariance(negative), difference, assume_a="pos")
        except scipy.linalg.LinAlgError as error:
            raise UserError(
                f"at layer {number} the covariance of the negative side cannot be inverted with `ridge.value` "
                f"{self.ridge:g}; take a larger one, such as 0.01"
            ) from error
        for warning in caught:
            message = str(warning.message).rstrip(".")
            LOG.warning("layer %d: %s; a larger `ridge.value` than %g helps", number, message, self.ridge)
        return vector

    def _covariance(self, group: Group) -> Floats:
        centred = group.states - group.mean()
        covariance: Floats = (centred.T * group.weights) @ centred / group.weights.sum()
        ridge = self.ridge * (np.trace(covariance) / len(covariance) if self.relative else 1.0)
        covariance[np.diag_indices_from(covariance)] += ridge
        return covariance


@dataclass(frozen=True, eq=False)
class FittedVectors:
    """A fitted direction: arrays [layers, width] in units of the residual stream, and what is known of each layer."""

    direction: States
    mean_positive: States
    mean_negative: States
    ranking: list[int]  # the numbers of the layers, the best first
    card: dict[str, Any]
    controlled: States | None = None  # of a control the vectors that it is the control of
    mean_neutral: States | None = None  # of a direction with neutral prompts

    def tensors(self) -> dict[str, States]:
        """Return the arrays by the names that they have in the file."""
        own = {"direction": self.direction, "mean_positive": self.mean_positive, "mean_negative": self.mean_negative}
        more = {"controlled": self.controlled, "mean_neutral": self.mean_neutral}
        return own | {name: tensor for name, tensor in more.items() if tensor is not None}


def fit(
    positive: Group, negative: Group, layers: Sequence[int], method: FitMethod, hold_out: float, seed: int
) -> FittedVectors:
    """Return the direction of two groups.

    Held-out clusters enter no mean, no covariance and no vector. Layers are ranked by the area under the ROC curve of
    the projections of held-out prompts on the layer's vector. Few prompts give equal areas, often 1; of such layers the
    one with the larger Cohen's d of these projections comes first, and of equal ones the lower.

    Args:
        layers: the numbers of the layers of their states.
        hold_out: the share of the prompts that is held out.
        seed: decides which clusters.

    Raises:
        UserError: if a side has too few prompts or clusters, or a layer has states that are not finite, or none that
            differ between the sides.
    """
    held = held_out_of(positive, negative, hold_out, seed)
    counts = {"n": (len(positive), len(negative))}
    vectors, separated = list[Floats](), list[Separated]()
    cosines = list[float | None]()
    means: tuple[list[Floats], list[Floats]] = ([], [])
    for place, number in enumerate(layers):
        both = positive.at(place), negative.at(place)
        refuse_not_finite(number, *(group.states for group in both))
        fitting, held_out = split_held(*both, held)
        for side, group in zip(("positive", "negative"), fitting, strict=True):
            if len(group) < LEAST_FITTED:
                raise UserError(f"the {side} side has {len(group)} prompts to fit on, and needs {LEAST_FITTED}")
        counts |= {"n_fitted": (len(fitting[0]), len(fitting[1])), "n_held_out": (len(held_out[0]), len(held_out[1]))}
        vector = method.vector(*fitting, number)
        vectors.append(vector)
        for group, own in zip(fitting, means, strict=True):
            own.append(method.weighting(group).mean())
        separated.append(Separated.by(vector, *held_out))
        cosines.append(_cosine_of_halves(method, fitting, number, seed))
    ranked = sorted(zip(separated, layers, strict=True), key=lambda pair: (*pair[0].order(), pair[1]))
    ranking = [number for _, number in ranked]
    card = {
        **{name: {"positive": one, "negative": other} for name, (one, other) in counts.items()},
        "best_auc_layers": sum(value.auc == ranked[0][0].auc for value in separated),
        "layers": [
            {"layer": number, "held_out_auc": value.auc, "held_out_cohens_d": value.cohens_d}
            | {"split_half_cosine": cosine_of_halves}
            | {"norm": float(np.linalg.norm(vector)), "negative_mean_norm": float(np.linalg.norm(mean))}
            for number, value, cosine_of_halves, vector, mean in zip(
                layers, separated, cosines, vectors, means[1], strict=True
            )
        ],
    }
    direction, mean_positive, mean_negative = (np.asarray(rows, dtype=np.float32) for rows in (vectors, *means))
    return FittedVectors(direction, mean_positive, mean_negative, ranking, card)


def control_of(
    fitted: FittedVectors,
    positive: Group,
    negative: Group,
    layers: Sequence[int],
    hold_out: float,
    seed: int,
    controlled: str,
    draw: int,
) -> FittedVectors:
    """Return the random control of a direction: its vectors, turned together into a random place.

    With V [layers, width] = R' B', where the columns of B are an orthonormal basis of what the vectors span, the
    control is R' C' with as many random orthonormal columns C. Lengths and the angles between layers stay. Vectors
    of neighbouring layers point nearly the same way, so that what several layers add to the stream gathers; of vectors
    drawn for each layer alone it would be shorter, by the square root of the number of layers. Means and ranking are
    the direction's own: a control differs in its vectors, not in where they are used.

    Args:
        positive, negative, layers, hold_out, seed: what it was fitted with.
        controlled: the SHA-256 of what the direction is made from, so that controls of two directions differ.
        draw: which of the random places.
    """
    _, triangle = _qr(fitted.direction.T.astype(np.float64))
    draws = np.random.default_rng([draw, int(controlled, 16)]).standard_normal(
        (fitted.direction.shape[1], len(triangle))
    )
    vectors = (_qr(draws)[0] @ triangle).T
    held = held_out_of(positive, negative, hold_out, seed)
    by_layer = list[dict[str, Any]]()
    for place, (vector, of_direction) in enumerate(zip(vectors, fitted.card["layers"], strict=True)):
        value = Separated.by(vector, *split_held(positive.at(place), negative.at(place), held)[1])
        own = {"held_out_auc": value.auc, "held_out_cohens_d": value.cohens_d, "split_half_cosine": None}
        by_layer.append(of_direction | own)
    card = fitted.card | {"layers": by_layer}
    return replace(fitted, direction=vectors.astype(np.float32), card=card, controlled=fitted.direction)


def _qr(matrix: Floats) -> tuple[Floats, Floats]:
    """Return the QR decomposition with a diagonal of R that is not negative, so that it is the same everywhere."""
    columns, triangle = np.linalg.qr(matrix)
    signs = np.where(np.diag(triangle) < 0, -1.0, 1.0)
    return columns * signs, signs[:, None] * triangle


@dataclass(frozen=True)
class Separated:
    """How well the projections of held-out prompts on a vector tell the sides apart."""

    auc: float
    cohens_d: float | None  # None where the projections have no spread, as of one prompt a side

    @classmethod
    def by(cls, vector: Floats, positive: Group, negative: Group) -> Separated:
        """Return it for a vector and the held-out prompts of both sides, at one layer."""
        one, other = positive.states @ vector, negative.states @ vector
        return cls(auc(one, other), cohens_d(one, other))

    def order(self) -> tuple[float, float]:
        """Return what is smallest for the layer that comes first."""
        return -self.auc, float("inf") if self.cohens_d is None else -self.cohens_d


def _cosine_of_halves(method: FitMethod, fitting: tuple[Group, Group], number: int, seed: int) -> float | None:
    """Return the cosine of the vectors of two halves of both sides, clusters kept together.

    None where a half gives no vector.
    """
    positive, negative = fitting
    if min(len(set(group.clusters)) for group in fitting) < 2:
        return None
    half = held_out_of(positive, negative, 0.5, seed, "half")
    try:
        one, other = (method.vector(*part, number) for part in split_held(positive, negative, half))
    except UserError:
        return None
    return cosine(one, other)


def auc(positive: Floats, negative: Floats) -> float:
    """Return the area under the ROC curve: the chance that a positive value exceeds a negative one, ties half."""
    ranks = scipy.stats.rankdata(np.concatenate([positive, negative]))
    wins = ranks[: len(positive)].sum() - len(positive) * (len(positive) + 1) / 2
    return float(wins / (len(positive) * len(negative)))


def cohens_d(positive: Floats, negative: Floats) -> float | None:
    """Return the difference of means over the pooled standard deviation; None where that is 0 or not defined."""
    freedom = len(positive) + len(negative) - 2
    if freedom < 1:
        return None
    squares = sum(float(((side - side.mean()) ** 2).sum()) for side in (positive, negative))
    pooled = (squares / freedom) ** 0.5
    return float((positive.mean() - negative.mean()) / pooled) if pooled > 0 else None


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
