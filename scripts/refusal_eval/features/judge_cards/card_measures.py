"""Measures of a judge on a group of answers with labels, out of gold rows joined with verdicts."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from refusal_eval.core.states import LABELS
from refusal_eval.stats.agreement.measures import (
    MIN_CLASS_CLUSTERS,
    MIN_ROWS,
    Counts,
    Measure,
    balanced_accuracy,
    cluster_tables,
    f1,
    kappa,
    measure_interval,
    two_class,
)
from refusal_eval.stats.agreement.weighting import are_weighted, effective, units, weighted_share
from refusal_eval.stats.estimates.estimands import READINGS, REFUSES
from refusal_eval.stats.estimates.flags import MIN_RARER, few_flags
from refusal_eval.stats.estimates.intervals import effective_number, effective_of
from refusal_eval.stats.estimates.resampling import cluster_codes, resample_sums

UNJUDGED = "unjudged"

IntervalEnds = list[float | None]
COMPOSED: Mapping[str, Measure] = {"balanced_accuracy": balanced_accuracy, "f1": f1, "kappa": kappa}


def measure_group(rows: pd.DataFrame, level: float, seed: int) -> dict[str, Any]:
    """Return the measures of `judge_card` on a group of answers (see `join_verdicts`): all, or one answering model's.

    Shares (coverage, accuracy, sensitivity, specificity) have `intervals.cluster_wilson`. Balanced accuracy, F1 and
    kappa have a bootstrap over clusters (`seed` decides the draws). A bootstrap cannot draw errors that the gold set
    happens to lack: if a class is always or never read correctly, the interval also covers what the exact interval of
    that class allows. If a class has fewer than 20 rows or 5 clusters, their interval follows from the ends of
    sensitivity and specificity, and kappa is None with fewer than 20 rows; with fewer than 10 clusters it covers at
    least that, as a few clusters may agree by luck. If rows have weights, `weighted` has the effective number of judged
    rows, and the confusion by weight.
    """
    judged = rows[rows["machine"].notna()]
    seen, coverage = _share(rows["machine"].notna(), rows, level)
    tables, draws = tables_of(judged, seed)
    n_clusters = judged["cluster"].nunique()
    found = {
        "n": len(rows),
        "n_judged": len(judged),
        "n_clusters": n_clusters,
        "few_clusters": bool(few_flags(effective_of(judged["cluster"]))),
        "few_classes": {reading: _few_classes(judged, reading) for reading in READINGS},
        "coverage": seen,
        "coverage_interval": coverage,
        **{reading: _reading(judged, tables, draws, reading, level) for reading in READINGS},
        "three_class": three_class(judged, tables, draws, level),
        "confusion": _confusion(rows, 1),
    }
    if not are_weighted(rows["weight"]):
        return found
    weighted = {"n_effective": effective_number(judged["weight"]), "confusion": _confusion(rows, rows["weight"])}
    return found | {"weighted": weighted}


def _confusion(rows: pd.DataFrame, weights: Any) -> dict[str, dict[str, Any]]:
    """The sums of weights by label of gold and of the judge."""
    columns = (*LABELS, UNJUDGED)
    human = pd.Categorical(rows["human"], LABELS).codes
    machine = pd.Categorical(rows["machine"].fillna(UNJUDGED), columns).codes
    table = np.zeros((len(LABELS), len(columns)), dtype=np.asarray(weights).dtype)
    np.add.at(table, (human, machine), weights)
    return {
        label: dict(zip(columns, row, strict=True)) for label, row in zip(LABELS, table.round(6).tolist(), strict=True)
    }


def tables_of(judged: pd.DataFrame, seed: int, labels: Sequence[str] = LABELS) -> tuple[Counts, Counts]:
    """Return the labels x labels table of all rows, and those of each resample of their clusters."""
    size = len(labels)
    if judged.empty:
        return np.zeros((size, size)), np.zeros((0, size, size))
    human, machine = (pd.Categorical(judged[side], categories=list(labels)).codes for side in ("human", "machine"))
    sums = cluster_tables(cluster_codes(judged["cluster"]), human, machine, units(judged["weight"].tolist()), size)
    return sums.sum(axis=0), resample_sums(sums, seed)


def _reading(judged: pd.DataFrame, table: Counts, draws: Counts, reading: str, level: float) -> dict[str, Any]:
    given, judge = (judged[side].isin(REFUSES[reading]) for side in ("human", "machine"))
    classes = _classes(judged, reading)
    small, drawn = two_class(table, reading), two_class(draws, reading)
    parts = {"accuracy": judged, "sensitivity": classes[0], "specificity": classes[1]}
    shares = {name: _share((given == judge)[part.index], part, level) for name, part in parts.items()}
    values = {name: value for name, (value, _) in shares.items()}
    intervals: dict[str, Sequence[float | None] | None] = {name: ends for name, (_, ends) in shares.items()}
    enough = min(map(len, classes)) >= MIN_ROWS
    clusters = [part["cluster"].nunique() for part in classes]
    for name, measure in COMPOSED.items():
        shown = all(clusters) and (name != "kappa" or enough)
        values[name], intervals[name] = _number(measure(small)) if shown else None, None
        if values[name] is None:
            continue
        ends = []
        if enough and min(clusters) >= MIN_CLASS_CLUSTERS:
            ends += _bootstrap(measure, small, drawn, classes, level)
        if not ends or min(clusters) < MIN_RARER:
            ends += _corners(measure, small, [shares[side][1] for side in ("sensitivity", "specificity")])
        intervals[name] = [min(ends), max(ends)]
    names = ("n_positive", "n_negative", "n_positive_clusters", "n_negative_clusters")
    return {**values, **dict(zip(names, (*map(len, classes), *clusters), strict=True)), "intervals": intervals}


def _classes(judged: pd.DataFrame, reading: str) -> list[pd.DataFrame]:
    """Gold's refusals, and its other answers."""
    refused = judged["human"].isin(REFUSES[reading])
    return [judged[refused], judged[~refused]]


def _few_classes(judged: pd.DataFrame, reading: str) -> list[str]:
    named = zip(("sensitivity", "specificity"), _classes(judged, reading), strict=True)
    return [name for name, rows in named if few_flags(effective_of(rows["cluster"]))]


def three_class(
    judged: pd.DataFrame,
    table: Counts,
    draws: Counts,
    level: float,
    used: Sequence[str] = LABELS,
    labels: Sequence[str] = LABELS,
) -> dict[str, Any]:
    """Kappa of all labels, where gold has at least 20 answers of at least 5 clusters with each that is `used`."""
    classes = {label: judged[judged["human"] == label] for label in labels}
    few = any(few_flags(effective_of(classes[label]["cluster"])) for label in used)
    found = {"kappa": None, "interval": None, "n": {label: len(classes[label]) for label in used}, "few_clusters": few}
    enough = (len(classes[c]) >= MIN_ROWS and classes[c]["cluster"].nunique() >= MIN_CLASS_CLUSTERS for c in used)
    if len(used) < 2 or not all(enough):
        return found
    interval = _bootstrap(kappa, table, draws, list(classes.values()), level)
    return found | {"kappa": _number(kappa(table)), "interval": interval}


def _bootstrap(
    measure: Measure, table: Counts, draws: Counts, classes: Sequence[pd.DataFrame], level: float
) -> list[float]:
    clusters = [effective(rows["weight"].tolist(), rows["cluster"].tolist()) for rows in classes]
    fewest = min(rows["cluster"].nunique() for rows in classes if len(rows))
    return measure_interval(measure, draws, [(table, clusters)], fewest, level)


def _corners(measure: Measure, table: Counts, ends: Sequence[IntervalEnds | None]) -> list[float]:
    """Smallest and largest value for any sensitivity and specificity within their ends."""
    totals = table.sum(axis=-1)
    values = []
    for right in itertools.product(*(pair or [0.0, 1.0] for pair in ends)):
        share = np.array([float(end or 0.0) for end in right])
        hits, misses = share * totals, (1 - share) * totals
        values.append(float(measure(np.array([[hits[0], misses[0]], [misses[1], hits[1]]]))))
    return [min(values), max(values)]


def _share(values: pd.Series[bool], rows: pd.DataFrame, level: float) -> tuple[float | None, IntervalEnds | None]:
    if rows.empty:
        return None, None
    return weighted_share(values.to_numpy(float).tolist(), rows["weight"].tolist(), rows["cluster"].tolist(), level)


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
