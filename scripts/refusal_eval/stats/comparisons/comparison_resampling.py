"""Which clusters a resample holds, where splits are strata and a cluster may lie in several of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

_DRAWS_AT_ONCE = 4_000_000  # bounds the memory to some 100 MB for any number of clusters


def drawn_counts(inside: NDArray[np.bool_], seed: int, resamples: int) -> Iterator[NDArray[np.float64]]:
    """Yield how often each cluster is drawn, in blocks of resamples x clusters.

    Clusters are drawn among those that lie in the same splits, as many as there are. One that is alone of its kind
    would be drawn in every resample; such ones are drawn together with those of the split that they lie in.

    Args:
        inside: splits x clusters, whether a cluster lies in a split. A cluster that lies in none is never drawn.
        seed: of the draws.
        resamples: number of resamples in all.
    """
    n_clusters = inside.shape[1]
    kinds = _strata(inside)
    groups = [np.flatnonzero(kinds == kind) for kind in np.unique(kinds[kinds >= 0])]
    rng = np.random.default_rng(seed)
    block = max(1, _DRAWS_AT_ONCE // n_clusters)
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        counts = np.zeros((rows, n_clusters))
        for group in groups:
            size = len(group)
            drawn = rng.integers(size, size=(rows, size)) + np.arange(rows)[:, None] * size
            counts[:, group] = np.bincount(drawn.ravel(), minlength=rows * size).reshape(rows, size)
        yield counts


def drawn_halves(n_clusters: int, seed: int, resamples: int) -> Iterator[NDArray[np.float64]]:
    """Yield which clusters are in a random half, each with probability one half: blocks of resamples x clusters."""
    rng = np.random.default_rng(seed)
    block = max(1, _DRAWS_AT_ONCE // n_clusters)
    for start in range(0, resamples, block):
        yield rng.integers(0, 2, size=(min(block, resamples - start), n_clusters), dtype=np.int8).astype(float)


def _strata(inside: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Number of each cluster's stratum, -1 for one that lies in no split."""
    patterns, kinds = np.unique(inside, axis=1, return_inverse=True)
    kinds = kinds.astype(np.intp).reshape(-1)
    sizes = np.bincount(kinds)
    # A stratum of one split is a home for lonely clusters of that split.
    home = {int(np.flatnonzero(p)[0]): kind for kind, p in enumerate(patterns.T) if p.sum() == 1}
    for kind, pattern in enumerate(patterns.T):
        if sizes[kind] == 1 and pattern.any():
            others = [home[split] for split in np.flatnonzero(pattern).tolist() if home.get(split, kind) != kind]
            if others:
                kinds[kinds == kind] = others[0]
        if not pattern.any():
            kinds[kinds == kind] = -1
    return kinds
