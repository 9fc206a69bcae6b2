"""Judges ranked by their agreement with one gold set, and groups of indistinguishable ones."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from refusal_eval.core.states import LABELS
from refusal_eval.stats.agreement.measures import (
    MIN_CLASS_CLUSTERS,
    MIN_ROWS,
    cluster_tables,
    kappa,
    measure_interval,
    two_class,
)
from refusal_eval.stats.agreement.weighting import units
from refusal_eval.stats.estimates.intervals import Floats, seed_of
from refusal_eval.stats.estimates.resampling import cluster_codes, expanded_tail, resample_sums

STILL = 1e-12  # a standard error of nothing but rounding


def judge_ranks(rows: Mapping[str, pd.DataFrame], gold: str, reading: str, level: float) -> list[dict[str, Any]]:
    """Return the judges by falling kappa: `judge`, `kappa`, `rank` [low, high] and `groups`, numbers from 0 on.

    Two judges differ if the difference of their kappas is more than c standard errors. All judges see the same
    resamples of clusters, and c is the quantile, over resamples, of the largest studentized deviation among all pairs:
    all statements hold together at `level`. If no resample changes the difference (as between a judge without errors
    and one that always gives one class), they differ if their intervals with unseen errors
    (`measures.measure_interval`, Bonferroni over judges) do not overlap. A judge's rank is at least 1 + the number of
    judges shown to be better and at most the number of judges less those shown to be worse (Mogstad, Romano, Shaikh &
    Wilhelm 2024, Review of Economic Studies 91:476). A group is a maximal set of judges of which no two differ; a judge
    may be in several.

    Kappa is over the answers that the judge labelled. If the labels define none, it is None, and the judge is last and
    differs from no other. A judge with fewer than 20 of gold's refusals, or of its other answers, or with those in
    fewer than 5 clusters, differs from no other either: with 5 refusals, one pair of equal judges in nine was declared
    different. With one cluster nothing differs.

    Args:
        rows: of each judge the same gold rows in the same order (`compared.compared`).
    """
    judges = sorted(rows)
    sums = two_class(np.stack([_tables(rows[judge], weighted=True) for judge in judges], axis=1), reading)
    values = kappa(sums.sum(axis=0))
    counts = two_class(np.stack([_tables(rows[judge], weighted=False) for judge in judges], axis=1), reading).sum(-1)
    enough = (counts.sum(axis=0) >= MIN_ROWS).all(-1) & ((counts > 0).sum(axis=0) >= MIN_CLASS_CLUSTERS).all(-1)
    drawn = resample_sums(sums, seed_of("judge ranks", gold))
    better = _better(np.where(enough, values, np.nan), sums, drawn, level)
    order = sorted(range(len(judges)), key=lambda i: (-np.nan_to_num(values[i], nan=-2.0), judges[i]))
    tied = {i: {j for j in order if j != i and not better[i, j] and not better[j, i]} for i in order}
    groups = sorted(_cliques(tied, (), set(order), set()), key=lambda group: sorted(map(order.index, group)))
    return [
        {
            "judge": judges[i],
            "kappa": float(values[i]) if np.isfinite(values[i]) else None,
            "rank": [1 + int(better[:, i].sum()), len(judges) - int(better[i].sum())],
            "groups": [number for number, group in enumerate(groups) if i in group],
        }
        for i in order
    ]


def _tables(rows: pd.DataFrame, weighted: bool) -> Floats:
    human, machine = (pd.Categorical(rows[side], LABELS).codes for side in ("human", "machine"))
    weights = units(rows["weight"].tolist()) if weighted else None
    return cluster_tables(cluster_codes(rows["cluster"]), human, machine, weights)


def _better(values: Floats, sums: Floats, tables: Floats, level: float) -> Any:
    """Return a matrix: whether the row's judge is shown to be better than the column's.

    `sums` are 2 x 2 tables (clusters x judges), `tables` those of resamples (resamples x judges).
    """
    found, clusters, draws = np.zeros((len(values), len(values)), dtype=bool), len(sums), kappa(tables)
    pairs = [pair for pair in itertools.combinations(range(len(values)), 2) if np.isfinite(values[list(pair)]).all()]
    if clusters < 2 or not pairs:
        return found
    first, second = np.transpose(pairs)
    gaps = values[first] - values[second]
    moved = draws[:, first] - draws[:, second] - gaps
    errors = np.nanstd(moved, axis=0)
    moves = errors > STILL
    largest = np.nan_to_num(np.abs(moved) / np.where(moves, errors, np.inf)).max(axis=1)
    shown = np.abs(gaps) > np.quantile(largest, 1 - 2 * expanded_tail(level, clusters - 1)) * errors
    for pair in np.flatnonzero(~moves):
        ends = [_ends(sums[:, i], tables[:, i], 1 - (1 - level) / len(values)) for i in pairs[pair]]
        shown[pair] = max(low for low, _ in ends) > min(high for _, high in ends)
    found[first, second], found[second, first] = shown & (gaps > 0), shown & (gaps < 0)
    return found


def _ends(sums: Floats, tables: Floats, level: float) -> list[float]:
    classes = (sums.sum(axis=-1) > 0).sum(axis=0).tolist()  # clusters with refusals, and with others
    return measure_interval(kappa, tables, [(sums.sum(axis=0), classes)], len(sums), level)


def _cliques(
    tied: Mapping[int, set[int]], chosen: Sequence[int], left: set[int], seen: set[int]
) -> Iterator[list[int]]:
    """Yield the maximal sets of tied judges (Bron & Kerbosch 1973, Communications of the ACM 16:575)."""
    if not left and not seen:
        yield list(chosen)
    for i in sorted(left):
        yield from _cliques(tied, [*chosen, i], left & tied[i], seen & tied[i])
        left, seen = left - {i}, seen | {i}
