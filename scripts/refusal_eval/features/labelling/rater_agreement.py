"""How far people agree with each other, on the rows that two of them labelled."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from refusal_eval.core.states import LABELS
from refusal_eval.features.labelling.label_merging import THREE, MergedLabel
from refusal_eval.stats.agreement.measures import UNSEEN, accuracy, cluster_tables, kappa, measure_interval, two_class
from refusal_eval.stats.agreement.weighting import effective, whole_weights
from refusal_eval.stats.estimates.estimands import READINGS
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.flags import few_flags
from refusal_eval.stats.estimates.intervals import effective_of, seed_of
from refusal_eval.stats.estimates.resampling import cluster_codes, resample_sums

FEW_CLUSTERS, FEW_ROWS = 5, 10  # below, an interval would pretend to know
_EDGES = {"strict": 1, "broad": 2, THREE: 0}  # as a class of LABELS: from here on; 0 keeps all three


def agreement(rows: Sequence[MergedLabel], raters: int, level: float = 0.95) -> dict[str, Any]:
    """Return how far people agree, `raters` in all.

    n, n_clusters       rows that two people labelled; unsure and skipped ones are in none
    few_clusters        whether these clusters are few, by their effective number
    strict, broad, three_class    `kappa` and `agreed` (share of equal labels), each with its interval. Rows count by
                        weight (answers over probability), so that this is agreement on the study's answers,
                        comparable with a judge's; `kappa_of_sample` counts the rows alike
    confusion           rows, by label of the first and second rater
    kind                `cohen` with two raters; with more, pairs differ from row to row, and `two raters at random`:
                        chance from both raters' labels together (Scott's pi, Fleiss' kappa for two ratings)

    If an interval cannot be given (fewer than 10 rows or 5 clusters, or a single class), kappa is None.
    """
    rows = [one for one in rows if len(one.given) == 2]
    pairs = [[LABELS.index(one.given[rater]) for rater in one.row["raters"] if rater in one.given] for one in rows]
    codes = np.array(pairs, dtype=int).reshape(-1, 2)
    weights = np.array([one.weight for one in rows])
    clusters = np.array([str(one.row["cluster"]) for one in rows], dtype=object)
    cohen = raters <= 2
    counts = np.zeros((3, 3), dtype=int)
    np.add.at(counts, tuple(codes.T), 1)
    result: dict[str, Any] = {
        "n": len(rows),
        "n_clusters": len(set(clusters.tolist())),
        "few_clusters": bool(few_flags(effective_of(clusters))),
        "level": level,
        "kind": "cohen" if cohen else "two raters at random",
        "confusion": {a: dict(zip(LABELS, own, strict=True)) for a, own in zip(LABELS, counts.tolist(), strict=True)},
    }
    parts = dict.fromkeys(("kappa", "interval", "agreed", "agreed_interval", "kappa_of_sample"))
    result |= {name: dict(parts) for name in (*READINGS, THREE)}
    if len(rows) < FEW_ROWS or result["n_clusters"] < FEW_CLUSTERS:
        return result
    weighings = (whole_weights(weights.tolist()), None)
    sums, plain = (cluster_tables(cluster_codes(clusters), codes[:, 0], codes[:, 1], own) for own in weighings)
    if not cohen:  # both raters are on both sides
        sums, plain = (own + own.transpose(0, 2, 1) for own in (sums, plain))
    tables = sums.sum(axis=0), resample_sums(sums, seed_of("agreement of people")), plain.sum(axis=0)
    for name, edge in _EDGES.items():
        classes = (codes >= edge).astype(int) if edge else codes
        sides = [classes[:, [0]], classes[:, [1]]] if cohen else [classes, classes]
        table, draws, alike = (two_class(one, name) if edge else one for one in tables)
        members = [[(side == k).any(axis=1) for k in range(len(table))] for side in sides]
        found = [[effective(weights[own].tolist(), clusters[own].tolist()) for own in side] for side in members]
        arguments = (draws, [(table, found[0]), (table.T, found[1])], result["n_clusters"], level)
        agreed = measure_interval(accuracy, *arguments)
        result[name] |= {"agreed": float(accuracy(table)), "agreed_interval": agreed}
        value = float(kappa(table))
        ends = measure_interval(kappa, *arguments) if np.isfinite(value) else [value, value]
        if np.isfinite(ends).all():
            result[name] |= {"kappa": value, "interval": ends, "kappa_of_sample": float(kappa(alike))}
    return result


def estimates(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the kappas as rows of the results table."""
    sizes = {"n_prompts": found["n"], "n_clusters": found["n_clusters"]}
    flags = ("few_clusters",) if found["few_clusters"] else ()
    rows = []
    for name in (*READINGS, THREE):
        value, (low, high) = found[name]["kappa"], found[name]["interval"] or (None, None)
        level, method = (None, None) if value is None else (found["level"], UNSEEN)
        reading, parameter = (None, THREE) if name == THREE else (name, None)
        one = Estimate(
            "human_kappa", value, low, high, level, method, reading=reading, parameter=parameter, flags=flags
        )
        rows.append(one.row() | sizes)
    return rows
