"""Calibrations of gold rows by other gold rows, so that what a card says of a calibrated judge is not flattered."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refusal_eval.stats.agreement.compared import Compared
from refusal_eval.stats.agreement.weighting import effective_rows
from refusal_eval.stats.calibration.calibration_fit import fitted, kind_of_map
from refusal_eval.stats.estimates.estimands import REFUSES

FOLDS = 10
BY_CLUSTER, BY_MODEL = "by_cluster", "by_model"
NO_MODEL = "(answers that name no model)"


@dataclass(frozen=True)
class CrossFits:
    """What each scheme fits for each row (`out_of_fold`), and which scheme is to be believed.

    Attributes:
        of: by scheme, the calibration of each row id; None where the scheme fits nothing.
        headline: the scheme for the judge's numbers; None where neither fits anything.
        kept: answering models that `by_model` could not leave out, sorted: rows of theirs have a calibration in
            `by_cluster` only. Empty where the gold set does not tell two answering models apart.
    """

    of: Mapping[str, Mapping[str, dict[str, Any]] | None]
    headline: str | None
    kept: tuple[str, ...]


def cross_fits(rows: Sequence[Compared]) -> CrossFits:
    """Return both schemes and the headline: `by_model` where it covers every row that `by_cluster` does.

    Else it is `by_cluster`: numbers over the answers of some models only would be those of another gold set.
    """
    by_model, by_cluster = out_of_fold(rows, BY_MODEL), out_of_fold(rows, BY_CLUSTER) or {}
    missing = set(by_cluster) - set(by_model or {})
    kept = {row.answering_model or NO_MODEL for row in rows if by_model is not None and row.row_id in missing}
    headline = (BY_MODEL if by_model and not missing else BY_CLUSTER) if by_cluster else None
    return CrossFits({BY_MODEL: by_model or None, BY_CLUSTER: by_cluster or None}, headline, tuple(sorted(kept)))


def out_of_fold(rows: Sequence[Compared], scheme: str) -> dict[str, dict[str, Any]] | None:
    """Return, by row id, the calibration that each row with a probability gets from rows that are not like it.

    by_cluster  from all rows but those of its fold: 10 folds of whole clusters, so that neither the prompt nor its
                contrast twin took part
    by_model    from the rows of the other answering models, again without its fold of clusters: what to expect of
                answers of a model that no gold set has

    Rows whose other rows show one class only are missing: nothing can be fitted there, as for rows of `by_model` that
    name no model. None where the scheme needs more clusters or models than there are.

    Raises:
        ValueError: for an unknown scheme.
    """
    known = [row for row in rows if row.p_refusal is not None]
    folds = cluster_folds(row.cluster for row in known)
    kind = kind_of_map(effective_rows([row.weight for row in known]))
    if len(set(folds.values())) < 2:
        return None
    if scheme == BY_CLUSTER:
        held = {row.row_id: ("", folds[row.cluster]) for row in known}
    elif scheme == BY_MODEL:
        known = [row for row in known if row.answering_model is not None]
        held = {row.row_id: (str(row.answering_model), folds[row.cluster]) for row in known}
        if len({model for model, _ in held.values()}) < 2:
            return None
    else:
        raise ValueError(f"unknown scheme {scheme!r}")
    found: dict[str, dict[str, Any]] = {}
    for left_out in sorted(set(held.values())):
        model, fold = left_out
        others = [row for row in known if held[row.row_id][1] != fold and (not model or held[row.row_id][0] != model)]
        calibration = fit_rows(others, kind)
        if calibration is not None:
            found |= {row.row_id: calibration for row in known if held[row.row_id] == left_out}
    return found


def fit_rows(rows: Sequence[Compared], kind: str) -> dict[str, Any] | None:
    """Return the calibration that these rows, by their weights, give; None with one class or no rows.

    All have a probability.
    """
    if not rows:
        return None
    p = np.array([row.p_refusal for row in rows], dtype=float)
    refused = np.array([row.human in REFUSES["broad"] for row in rows])
    return fitted(p, refused, kind, [row.weight for row in rows])


def cluster_folds(clusters: Iterable[str]) -> dict[str, int]:
    """Return the fold of each cluster: equally many clusters in each, dealt in the order of their names' hashes."""
    order = sorted(set(clusters), key=lambda name: (hashlib.sha256(str(name).encode()).digest(), str(name)))
    return {name: place % FOLDS for place, name in enumerate(order)}


def thresholds(calibrations: Mapping[str, Mapping[str, Any]]) -> list[float]:
    """Return the smallest and the largest threshold among calibrations."""
    found = [calibration["t"] for calibration in calibrations.values()]
    return [min(found), max(found)]
