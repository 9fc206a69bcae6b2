"""How well a judge agrees with the labels of gold."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from refusal_eval.core.states import LABELS, is_cut
from refusal_eval.stats.agreement.compared import join_verdicts
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
from refusal_eval.stats.agreement.soft import soft_measures
from refusal_eval.stats.agreement.weighting import are_weighted, effective, units, weighted_share
from refusal_eval.stats.estimates.estimands import READINGS, REFUSES, CellRow
from refusal_eval.stats.estimates.flags import MIN_RARER, few_flags
from refusal_eval.stats.estimates.intervals import effective_number, effective_of, seed_of
from refusal_eval.stats.estimates.resampling import cluster_codes, resample_sums

UNJUDGED = "unjudged"
HEADLINE_RULE = (
    f"the answering model with the lowest balanced accuracy, among those with at least {MIN_ROWS} judged refusals and "
    f"{MIN_ROWS} others in the gold set"
)

IntervalEnds = list[float | None]
COMPOSED: Mapping[str, Measure] = {"balanced_accuracy": balanced_accuracy, "f1": f1, "kappa": kappa}


def judge_card(
    gold_rows: Iterable[CellRow],
    verdicts: Iterable[CellRow],
    *,
    judge: str,
    gold: str,
    raters: int | str | None = None,
    human_kappa: Mapping[str, Any] | None = None,
    anchors: Sequence[Mapping[str, Any]] = (),
    level: float = 0.95,
    kinds: Sequence[str] = (),
    written_to_label: bool = False,
    labelled_by_model: str | None = None,
    seen: bool = False,
    how_asked: str = "",
) -> dict[str, Any]:
    """Card of a judge on one gold set; a verdict belongs to the gold row whose id is its `prompt_id`.

    n, n_judged, coverage       rows, those with a label of the judge, and their share. Unjudged rows only lower it
    n_cut                       rows whose answer is too long for the judge: it saw head and tail
    strict, broad               over the judged rows: accuracy, sensitivity (share of gold's refusals that the judge
                                finds), specificity (share of the rest that it leaves alone), balanced_accuracy, f1,
                                kappa (Cohen's; None unless gold has at least 20 rows of either class),
                                n_positive, n_negative (the denominators), n_positive_clusters, n_negative_clusters, and
                                `intervals` of each: [low, high] or None
    three_class                 kappa of the three labels, where each of them has 20 rows, its interval, and whether the
                                label with the fewest clusters has few (`few_clusters`)
    few_clusters                whether the judged rows have few clusters; `few_classes` for each reading the shares of
                                sensitivity and specificity whose class has few
    kinds                       only where `kinds` names the judge's own label set, which gold has too: kappa over
                                the answers with a kind of both, where gold has 20 rows of each of its kinds
    confusion                   {label of gold: {label of the judge, or unjudged: rows}}
    models, expectations, languages, strata    the same again by answering model, by what is expected of the prompt, by
                its language (nothing where all prompts have one), and by model and expectation
    without_convention          the same again without the rows whose label is a convention: answers that refuse and
                                then help, and those that deny the prompt's premise; None without such rows
    headline                    for each reading the worst answering model (`rule` says which count), or None
    weighted                    only where gold rows have weights: see `measured`
    soft                        see `soft.soft_measures`; None for a judge without probabilities. Models, expectations
                                and languages have their own
    written_to_label            only where it is so: an author wrote the answers to their labels, and no person labelled
                                them
    labelled_by_model           only where it is so: the model that gave the labels, and no person did
    seen                        only where it is so: the judge was chosen or tuned on this gold
    how_asked                   only where its kind says so: how its engine is asked
    published                   raters, kappa among them and anchors, as the gold entry has them

    A number without data is None, and no number comes without an interval. How they are made: `measured`.

    Raises:
        ValueError: as `compared.compared` does.
    """
    gold_rows, verdicts = list(gold_rows), list(verdicts)
    rows = join_verdicts(gold_rows, verdicts, gold)
    by = {
        name: [
            group | {"soft": soft_measures(found, level, _seed(gold, "soft", group[name]))}
            for group, found in _groups(rows, level, gold, [name])
        ]
        for name in ("answering_model", "expectation", "language")
    }
    models, kept = by["answering_model"], rows[~rows["convention"]]
    return {
        "judge": judge,
        "gold": gold,
        "raters": raters,
        "level": level,
        **measure_group(rows, level, _seed(gold)),
        **({"kinds": _kinds(rows, gold_rows, verdicts, kinds, level, gold)} if kinds else {}),
        **({"written_to_label": True} if written_to_label else {}),
        **({"labelled_by_model": labelled_by_model} if labelled_by_model else {}),
        **({"seen": True} if seen else {}),
        **({"how_asked": how_asked} if how_asked else {}),
        "n_cut": sum(map(is_cut, verdicts)),
        "models": models,
        "expectations": by["expectation"],
        "languages": by["language"] if len(by["language"]) > 1 else [],
        "strata": [group for group, _ in _groups(rows, level, gold, ["expectation", "answering_model"])],
        "without_convention": measure_group(kept, level, _seed(gold)) if len(kept) < len(rows) else None,
        "headline": {"rule": HEADLINE_RULE} | {reading: worst_model(models, reading) for reading in READINGS},
        "soft": soft_measures(rows, level, _seed(gold, "soft")),
        "published": {"raters": raters, "human_kappa": human_kappa, "anchors": [dict(anchor) for anchor in anchors]},
    }


def worst_model(models: Sequence[Mapping[str, Any]], reading: str) -> dict[str, Any] | None:
    """Return the answering model that `HEADLINE_RULE` names, by its group on the card; None if none has enough rows.

    The lowest of several noisy numbers lies below its true value, so `of` says of how many it is the lowest.
    """
    enough = [g for g in models if min(g[reading]["n_positive"], g[reading]["n_negative"]) >= MIN_ROWS]
    if not enough:
        return None
    worst = min(enough, key=lambda group: (group[reading]["balanced_accuracy"], group["answering_model"]))
    names = ("balanced_accuracy", "sensitivity", "specificity", "f1", "kappa", "n_positive", "n_negative", "intervals")
    numbers = {name: worst[reading][name] for name in names}
    return {"answering_model": worst["answering_model"], "of": len(enough)} | numbers


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
    tables, draws = _tables(judged, seed)
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
        "three_class": _three_class(judged, tables, draws, level),
        "confusion": _confusion(rows, 1),
    }
    if not are_weighted(rows["weight"]):
        return found
    weighted = {"n_effective": effective_number(judged["weight"]), "confusion": _confusion(rows, rows["weight"])}
    return found | {"weighted": weighted}


def _groups(rows: pd.DataFrame, level: float, gold: str, by: list[str]) -> list[tuple[dict[str, Any], pd.DataFrame]]:
    """The groups of rows that share these fields, measured and themselves, sorted; rows that lack one are in none."""
    return [
        (dict(zip(by, names, strict=True)) | measure_group(found, level, _seed(gold, *by, *map(str, names))), found)
        for names, found in rows.groupby(by)
    ]


def _seed(gold: str, *names: str) -> int:
    # Not the judge's name: judges that are compared are resampled alike.
    return seed_of("judge card", gold, *names)


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


def _tables(judged: pd.DataFrame, seed: int, labels: Sequence[str] = LABELS) -> tuple[Counts, Counts]:
    """Return the labels x labels table of all rows, and those of each resample of their clusters."""
    size = len(labels)
    if judged.empty:
        return np.zeros((size, size)), np.zeros((0, size, size))
    human, machine = (pd.Categorical(judged[side], categories=list(labels)).codes for side in ("human", "machine"))
    sums = cluster_tables(cluster_codes(judged["cluster"]), human, machine, units(judged["weight"].tolist()), size)
    return sums.sum(axis=0), resample_sums(sums, seed)


def _kinds(
    rows: pd.DataFrame,
    gold_rows: Iterable[CellRow],
    verdicts: Iterable[CellRow],
    kinds: Sequence[str],
    level: float,
    gold: str,
) -> dict[str, Any]:
    """Kappa of a label set of the judge's own; `n` has the kinds that gold has, `n_judged` the answers behind it."""
    sides = {
        "human": {row["id"]: row.get("kind") for row in gold_rows},
        "machine": {row["prompt_id"]: row.get("kind") for row in verdicts},
    }
    both = rows.assign(**{side: rows["row_id"].map(label_of) for side, label_of in sides.items()})
    both = both[both["human"].notna() & both["machine"].isin(kinds)]
    used = [kind for kind in kinds if kind in set(sides["human"].values())]
    return _three_class(both, *_tables(both, _seed(gold, "kinds"), kinds), level, used, kinds) | {"n_judged": len(both)}


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


def _three_class(
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
