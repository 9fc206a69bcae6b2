"""Sensitivity and specificity of a judge on answers of a model that it was not measured on."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refusal_eval.stats.corrected.gold_rows import GoldRows

Floats = NDArray[np.float64]
RESAMPLES = (2_000, 20_000)  # at least and at most
MIN_ROWS = 10  # of each class, for an answering model's own sensitivity and specificity
_AT_ONCE = 4_000_000
_DRAWN = 10_000_000  # weights of rows that are drawn in all, where that is between the two
_JEFFREYS = 0.5


@dataclasses.dataclass(frozen=True)
class ErrorRates:
    """What gold of other models says of a judge's errors.

    Attributes:
        sensitivity: share of people's refusals that the judge finds.
        specificity: share of the rest that it leaves alone.
        drawn: 2 x resamples, both for a new answering model.
        spread: standard deviations of both between answering models, beyond chance; None with less than two models.
        by_model: each answering model with at least ten rows of both classes: its name, counts, both shares.
        n: rows.
        n_clusters: their clusters.
    """

    sensitivity: float
    specificity: float
    drawn: Floats
    spread: tuple[float, float] | None
    by_model: tuple[dict[str, Any], ...]
    n: int
    n_clusters: int


def error_rates(rows: GoldRows, seed: int, resamples: int | None = None) -> ErrorRates | None:
    """Return sensitivity and specificity with their uncertainty; None where people labelled no row of a class.

    Three things make them uncertain for a new model. Prompts and answering models are resampled together (Bayesian
    bootstrap: clusters and models have exponential weights, a row the product of its two, Owen 2007, Annals of Applied
    Statistics 1:386), with half a cluster of right and half a cluster of wrong rows of each class put in (Jeffreys'
    prior: a bootstrap cannot draw errors that the gold set happens to lack, and what it draws is clusters; with half a
    row a judge without an error on 10 clusters of 25 rows would be as certain as on 250 clusters). And a new model
    differs from the mean of models: to each resample comes a deviation with the covariance that answering models have
    beyond chance (method of moments), of a t distribution with as many degrees of freedom as there are models less one.
    """
    if not rows.people.any() or rows.people.all():
        return None
    if resamples is None:
        resamples = min(RESAMPLES[1], max(RESAMPLES[0], _DRAWN // len(rows.people)))
    by_model = _by_model(rows)
    covariance = _between(rows, by_model)
    rng = np.random.default_rng(seed)
    drawn = np.concatenate(list(_drawn(rows, rng, resamples)), axis=1)
    spread = None
    if covariance is not None:
        df = len(by_model) - 1
        deviations = rng.standard_normal((resamples, 2)) @ _root(covariance).T
        deviations *= np.sqrt(df / rng.chisquare(df, size=(resamples, 1)))
        drawn = np.clip(drawn + deviations.T, 0.0, 1.0)
        spread = (math.sqrt(covariance[0, 0]), math.sqrt(covariance[1, 1]))
    shares = [_share(rows, rows.people), _share(rows, ~rows.people)]
    groups = len(np.unique(rows.clusters))
    return ErrorRates(shares[0], shares[1], drawn, spread, tuple(by_model), len(rows.people), groups)


def _share(rows: GoldRows, mask: NDArray[np.bool_]) -> float:
    """Share of the rows of a class that the judge reads as people do."""
    right = (rows.judge == rows.people) & mask
    return math.fsum(rows.weights[right]) / math.fsum(rows.weights[mask])


def _by_model(rows: GoldRows) -> list[dict[str, Any]]:
    found = []
    for i, name in enumerate(rows.names):
        classes = [(rows.models == i) & (rows.people == positive) for positive in (True, False)]
        counts = [int(mask.sum()) for mask in classes]
        if min(counts) >= MIN_ROWS:
            shares = [_share(rows, mask) for mask in classes]
            names = ("sensitivity", "specificity", "n_positive", "n_negative")
            found.append({"answering_model": name, **dict(zip(names, (*shares, *counts), strict=True))})
    return found


def _between(rows: GoldRows, models: list[dict[str, Any]]) -> Floats | None:
    """Covariance of sensitivity and specificity between models, less what chance adds to it; None of one model.

    Chance is that of as many rows as the weights are worth, (sum of w)^2 / sum of w^2.
    """
    if len(models) < 2:
        return None
    shares = np.array([[model["sensitivity"], model["specificity"]] for model in models])
    own = [rows.models == rows.names.index(model["answering_model"]) for model in models]
    classes = (rows.people, ~rows.people)
    counts = np.array([[_worth(rows.weights[mask & of_class]) for of_class in classes] for mask in own])
    means = shares.mean(axis=0)
    chance = (means * (1 - means) / counts).mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(shares.T) - np.diag(chance))
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def _worth(weights: Floats) -> float:
    return math.fsum(weights) ** 2 / math.fsum(weights**2)


def _cluster_size(rows: GoldRows, mask: NDArray[np.bool_]) -> float:
    """Mean weight of the rows of a class in a cluster that has any."""
    return math.fsum(rows.weights[mask]) / len(np.unique(rows.clusters[mask]))


def _root(covariance: Floats) -> Floats:
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _drawn(rows: GoldRows, rng: np.random.Generator, resamples: int) -> Iterator[Floats]:
    """Yield sensitivity and specificity of resamples in blocks of 2 x resamples."""
    groups, models = int(rows.clusters.max()) + 1, len(rows.names)
    right = (rows.judge == rows.people).astype(float)
    columns = np.stack([right * rows.people, rows.people, right * ~rows.people, ~rows.people], axis=1)
    sizes = np.array([_cluster_size(rows, rows.people), _cluster_size(rows, ~rows.people)])
    block = max(1, _AT_ONCE // len(right))
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        weights = rng.standard_exponential((size, groups))[:, rows.clusters] * rows.weights
        if models > 1:
            weights *= rng.standard_exponential((size, models))[:, rows.models]
        total = weights @ columns.astype(float)
        extra = rng.gamma(_JEFFREYS, size=(2, 2, size)) * sizes[:, None, None]
        shares = [(total[:, 2 * i] + extra[i, 0]) / (total[:, 2 * i + 1] + extra[i].sum(axis=0)) for i in (0, 1)]
        yield np.stack(shares)
