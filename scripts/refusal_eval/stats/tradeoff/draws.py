"""Resamples of clusters, drawn together for every split that they touch.

Clusters are drawn within a component: splits that share a cluster, directly or by others, such as the safe and the
unsafe half of contrast pairs. So each component keeps its number of clusters, and twins move together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refusal_eval.stats.estimates.intervals import seed_of

_AT_ONCE = 4_000_000  # weights at one time: bounds the memory to some 100 MB


def components(clusters: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """Return the splits in groups that share clusters, each sorted, the groups by their first split.

    Args:
        clusters: the names of the clusters of each split.
    """
    group = {split: {split} for split in clusters}
    owner: dict[str, str] = {}
    for split in sorted(clusters):
        for name in set(clusters[split]):
            other = owner.setdefault(name, split)
            if group[other] is not group[split]:
                joined = group[other] | group[split]
                for member in joined:
                    group[member] = joined
    return sorted({tuple(sorted(members)) for members in group.values()})


def numbered(names: Sequence[Sequence[str]]) -> tuple[list[NDArray[np.intp]], int]:
    """Return the number of each row's cluster in each list, one numbering for all, and how many clusters there are."""
    number = {name: i for i, name in enumerate(sorted({name for part in names for name in part}))}
    return [np.array([number[name] for name in part], dtype=np.intp) for part in names], len(number)


def totals(sums: NDArray[np.float64], *names: str, resamples: int) -> NDArray[np.float64]:
    """Return the total of `sums` (clusters x columns) in each resample of clusters: resamples x columns.

    Of G clusters G - 1 are drawn, each with the weight G / (G - 1), so that the variance over the resamples is that of
    independent clusters and not (G - 1) / G of it (Rao & Wu 1988, JASA 83:231). One cluster is never left out.

    Args:
        sums: of each cluster.
        names: decide the draws; the same names and number of clusters give the same draws.
        resamples: how many.
    """
    return np.concatenate([weights @ sums for weights in _weights(len(sums), seed_of(*names), resamples)])


def _weights(groups: int, seed: int, resamples: int) -> Iterator[NDArray[np.float64]]:
    """Yield the weights of clusters in blocks of resamples x clusters."""
    if groups == 1:
        yield np.ones((resamples, 1))
        return
    rng = np.random.default_rng(seed)
    block = max(1, _AT_ONCE // groups)
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        drawn = rng.integers(groups, size=(rows, groups - 1)) + np.arange(rows)[:, None] * groups
        counts = np.bincount(drawn.ravel(), minlength=rows * groups).reshape(rows, groups)
        yield np.asarray(counts * (groups / (groups - 1)), dtype=float)


def by_cluster(values: NDArray[Any], codes: NDArray[np.intp], groups: int) -> NDArray[np.float64]:
    """Return the sums of `values` (anything x rows) in each cluster: clusters x anything."""
    sums = np.zeros((groups, values.shape[0]))
    np.add.at(sums, codes, values.T)
    return sums
