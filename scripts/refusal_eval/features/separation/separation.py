"""How far apart two groups of prompts lie in a layer's states: indices of clusters, whose labels are the two groups.

Indices as in AQI (arXiv 2506.13901), of the states themselves and not of a projection; `aqi.py` has its composites. c
are the means of the groups, W the sum of squared distances of states to the mean of their group, n the number of
prompts.

    davies_bouldin     (S_1 + S_2) / |c_1 - c_2|, S the mean distance to the group's mean; lower is further apart
    calinski_harabasz  (n_1 n_2 / n) |c_1 - c_2|^2 (n - 2) / W
    xie_beni           W / (n |c_1 - c_2|^2); of two groups this is Calinski-Harabasz turned over: their product is
                       n_1 n_2 (n - 2) / n^2
    silhouette         mean of (b - a) / max(a, b), a and b the mean distances to the own and to the other group
    dunn               smallest distance between the groups / largest distance within one
    auc                area under the ROC curve of the projection on the difference of means, cross-fitted: each
                       prompt is projected on a difference to which no prompt of its cluster contributed

All follow from the inner products of states, which are computed once; draws of the bootstrap are weights of prompts.

With more dimensions than prompts, noise alone keeps the means of two groups apart, and a draw with replacement adds to
it: quantiles of draws lie beside the value. An interval is therefore the quantiles moved so that their median is the
value, on a logarithmic scale for indices that are ratios. It covers the index that this many prompts have on average.
Measured, 40 + 40 Gaussian prompts, 120 repetitions: in 10 dimensions .91 (Davies-Bouldin), .92 (Xie-Beni), .97
(silhouette) and .99 (area); in 400 dimensions .98, .98, 1.0 and 1.0, where plain quantiles cover 0, 0, 1.0 and .98.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from refusal_eval.activations.groups import Floats
from refusal_eval.core.errors import UserError

INDICES = ("davies_bouldin", "calinski_harabasz", "xie_beni", "silhouette", "dunn", "auc")
RATIOS = ("davies_bouldin", "calinski_harabasz", "xie_beni")
LOWER_IS_APART = ("davies_bouldin", "xie_beni")
# The smallest and the largest distance of a draw are those of fewer prompts: no bootstrap interval holds for them.
WITHOUT_INTERVAL = ("dunn",)
FOLDS = 5
LEVEL = 0.95
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class LayerSeparation:
    """The states of one layer as inner products and distances, [prompts, prompts]."""

    products: Floats
    distances: Floats

    @classmethod
    def of(cls, states: NDArray[Any]) -> LayerSeparation:
        """Return the layer of states [prompts, width]."""
        centred = states.astype(np.float64) - states.mean(axis=0, dtype=np.float64)
        products = centred @ centred.T
        squares = np.diag(products)
        distances = np.sqrt(np.maximum(squares[:, None] + squares[None, :] - 2 * products, 0.0))
        np.fill_diagonal(distances, 0.0)
        return cls(products, distances)


def indices(layer: LayerSeparation, positive: Bools, weights: Floats, folds: NDArray[np.int64]) -> dict[str, float]:
    """Return all indices of one layer; NaN where a group has no weight or both have the same mean.

    Args:
        layer: its states.
        positive: which prompts are of the positive group.
        weights: how often each prompt counts.
        folds: the fold of each prompt, for the cross-fitted area.
    """
    shares = [np.where(side, weights, 0.0) for side in (positive, ~positive)]
    totals = [share.sum() for share in shares]
    if min(totals) <= 0:
        return dict.fromkeys(INDICES, float("nan"))
    means = [share / total for share, total in zip(shares, totals, strict=True)]
    between = means[0] - means[1]
    gap = float(between @ layer.products @ between)
    n = sum(totals)
    squares = [_squares_to(layer, mean) for mean in means]
    within = sum(float(share @ square) for share, square in zip(shares, squares, strict=True))
    spread = sum(float(mean @ np.sqrt(square)) for mean, square in zip(means, squares, strict=True))
    apart = gap > 1e-12 * max(np.trace(layer.products) / len(weights), 1e-300)
    scattered = within > 0
    return {
        "davies_bouldin": spread / gap**0.5 if apart else float("nan"),
        "calinski_harabasz": totals[0] * totals[1] / n * gap * (n - 2) / within if scattered else float("nan"),
        "xie_beni": within / (n * gap) if apart else float("nan"),
        "silhouette": _silhouette(layer, positive, shares),
        "dunn": _dunn(layer, positive, weights),
        "auc": _cross_fitted_auc(layer, positive, weights, folds),
    }


def separation(
    states: NDArray[Any], positive: Bools, clusters: Sequence[str], draws: int, seed: int
) -> list[dict[str, Any]]:
    """Return the indices of one layer with intervals and a permutation test.

    Each row has `index`, `value`, `low` and `high` (bootstrap over clusters, 95 %, see above; NaN for `dunn`, of which
    it does not hold), `null` (the median where labels are permuted) and `p`, the share of permutations (and the
    observed labels) that lie as far apart or further. `apart` has the value and the index of each permutation, larger
    where further apart; layers with the same prompts, draws and seed have the same permutations.

    Args:
        states: [prompts, width].
        positive: which prompts are of the positive group.
        clusters: the cluster of each prompt; clusters are drawn and permuted whole.
        draws: of the bootstrap, and of the permutations.
        seed: of both.

    Raises:
        UserError: if a group has fewer than two prompts.
    """
    if min(positive.sum(), (~positive).sum()) < 2:
        raise UserError("separation needs two prompts in each group")
    codes = np.unique(np.asarray(clusters, dtype=object), return_inverse=True)[1]
    folds = cluster_folds(codes, positive, seed)
    layer = LayerSeparation.of(states)
    # Permutations that are the labels themselves count as far apart as these: one formula, to the last bit, for both.
    found = indices(layer, positive, np.ones(len(positive)), folds)
    rng = np.random.default_rng(seed)
    booted = [indices(layer, positive, cluster_weights(codes, rng), folds) for _ in range(draws)]
    null = []
    for _ in range(draws):
        labels = permuted(positive, codes, rng)
        null.append(indices(layer, labels, np.ones(len(labels)), cluster_folds(codes, labels, seed)))
    return [_row(name, found[name], booted, null) for name in INDICES]


def cluster_folds(codes: NDArray[np.int64], positive: Bools, seed: int) -> NDArray[np.int64]:
    """Return the fold of each prompt: clusters stay together, and those of each group are spread evenly."""
    first_is_positive = np.zeros(codes.max() + 1, dtype=bool)
    first_is_positive[codes[positive]] = True
    order = np.random.default_rng([seed, 1]).permutation(len(first_is_positive))
    of_cluster = np.empty(len(order), dtype=np.int64)
    for side in (True, False):
        own = order[first_is_positive[order] == side]
        of_cluster[own] = np.arange(len(own)) % FOLDS
    return of_cluster[codes]


def permuted(positive: Bools, codes: NDArray[np.int64], rng: np.random.Generator) -> Bools:
    """Return labels as they could be if groups did not matter: those of whole clusters change places.

    A cluster with prompts of both groups, such as a contrast pair, has its own labels shuffled.
    """
    labels = positive.copy()
    share = np.bincount(codes, weights=positive) / np.bincount(codes)
    whole = np.flatnonzero((share == 0) | (share == 1))
    moved = np.full(len(share), -1)
    moved[whole] = rng.permutation(share[whole])
    of_whole = moved[codes] >= 0
    labels[of_whole] = moved[codes][of_whole] == 1
    for cluster in np.flatnonzero((share > 0) & (share < 1)):
        own = codes == cluster
        labels[own] = rng.permutation(positive[own])
    return labels


def _row(
    name: str, value: float, booted: Sequence[Mapping[str, float]], null: Sequence[Mapping[str, float]]
) -> dict[str, Any]:
    drawn, chance = (np.array([draw[name] for draw in draws]) for draws in (booted, null))
    drawn, chance = drawn[~np.isnan(drawn)], chance[~np.isnan(chance)]
    low = high = float("nan")
    if len(drawn) and not np.isnan(value) and name not in WITHOUT_INTERVAL:
        low, high = _interval(name, value, drawn)
    further = chance <= value if name in LOWER_IS_APART else chance >= value
    p = (1 + further.sum()) / (1 + len(chance)) if not np.isnan(value) else float("nan")
    median = float(np.median(chance)) if len(chance) else float("nan")
    turned = np.array([value, *(draw[name] for draw in null)]) * (-1 if name in LOWER_IS_APART else 1)
    apart = np.where(np.isnan(turned), -np.inf, turned)
    row = {"index": name, "value": value, "low": low, "high": high, "null": median, "p": float(p)}
    return row | {"apart": apart}


def over_layers(apart: Sequence[Floats]) -> Floats:
    """Return p of an index at each layer, corrected for the number of layers (Westfall and Young's smallest p).

    It is the share of permutations (and the observed labels) whose smallest p over all layers is as small or smaller.

    Args:
        apart: of each layer what `separation` returns as `apart`.
    """
    values = np.stack(apart)
    p = 1 - (rankdata(values, method="min", axis=1) - 1) / values.shape[1]
    least = p.min(axis=0)
    corrected: Floats = (least[None, :] <= p[:, :1] + 1e-12).mean(axis=1)
    return np.where(np.isinf(values[:, 0]), np.nan, corrected)


def _interval(name: str, value: float, drawn: Floats) -> tuple[float, float]:
    """Return the quantiles of draws, moved so that their median is the value."""
    low, middle, high = (float(end) for end in np.quantile(drawn, [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2]))
    if name in RATIOS:
        if middle == 0:  # half of the draws hold too few prompts to differ
            return float("nan"), float("nan")
        return value * low / middle, value * high / middle
    least, most = (0.0, 1.0) if name == "auc" else (-1.0, 1.0)
    return max(least, value - middle + low), min(most, value - middle + high)


def cluster_weights(codes: NDArray[np.int64], rng: np.random.Generator) -> Floats:
    """Return how often each prompt is in a draw of clusters with replacement."""
    count = codes.max() + 1
    weights: Floats = np.bincount(rng.integers(count, size=count), minlength=count).astype(float)[codes]
    return weights


def _squares_to(layer: LayerSeparation, mean: Floats) -> Floats:
    """Return the squared distance of each state to a weighted mean."""
    to_mean = layer.products @ mean
    return np.asarray(np.maximum(np.diag(layer.products) - 2 * to_mean + mean @ to_mean, 0.0))


def _silhouette(layer: LayerSeparation, positive: Bools, shares: Sequence[Floats]) -> float:
    """Return the mean silhouette; a prompt's own copies in a draw are not its neighbours."""
    to_positive, to_negative = layer.distances @ shares[0], layer.distances @ shares[1]
    weights = shares[0] + shares[1]
    own = np.where(positive, to_positive, to_negative)
    other = np.where(positive, to_negative, to_positive)
    total_own = np.where(positive, shares[0].sum(), shares[1].sum()) - weights
    total_other = np.where(positive, shares[1].sum(), shares[0].sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        a, b = own / total_own, other / total_other
        values = (b - a) / np.maximum(a, b)
    values[(total_own <= 0) | ~np.isfinite(values)] = 0.0  # alone in its group, as scikit-learn has it
    return float(np.average(values, weights=weights))


def _dunn(layer: LayerSeparation, positive: Bools, weights: Floats) -> float:
    one, other = positive & (weights > 0), ~positive & (weights > 0)
    widest = max(float(layer.distances[np.ix_(side, side)].max()) for side in (one, other))
    return float(layer.distances[np.ix_(one, other)].min()) / widest if widest > 0 else float("nan")


def _cross_fitted_auc(layer: LayerSeparation, positive: Bools, weights: Floats, folds: NDArray[np.int64]) -> float:
    """Return the weighted share of pairs in the right order, over the pairs within each fold."""
    right = pairs = 0.0
    for fold in range(FOLDS):
        inside = folds == fold
        fitted = [np.where(side & ~inside, weights, 0.0) for side in (positive, ~positive)]
        one, other = inside & positive & (weights > 0), inside & ~positive & (weights > 0)
        if min(share.sum() for share in fitted) <= 0 or not one.any() or not other.any():
            continue
        direction = fitted[0] / fitted[0].sum() - fitted[1] / fitted[1].sum()
        projected = layer.products @ direction
        compared = projected[one][:, None] - projected[other][None, :]
        each = weights[one][:, None] * weights[other][None, :]
        right += float((each * ((compared > 0) + 0.5 * (compared == 0))).sum())
        pairs += float(each.sum())
    return right / pairs if pairs else float("nan")
