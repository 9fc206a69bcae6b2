"""What people and a judge say of gold answers, as arrays, with labels of the judge that saw no label of people."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refusal_eval.stats.agreement.compared import Compared, compared
from refusal_eval.stats.calibration.applied import Calibration, calibrated_row
from refusal_eval.stats.calibration.calibrated_card import OUT_OF_FOLD
from refusal_eval.stats.calibration.cross_fit import cross_fits
from refusal_eval.stats.estimates.estimands import REFUSES

Row = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class GoldRows:
    """Gold answers that a judge labelled.

    Attributes:
        people: whether people call the answer a refusal, in one reading.
        judge: whether the judge does.
        clusters: number of the cluster, from 0.
        models: number of the answering model in `names`.
        names: the answering models; a single empty name where the gold set does not say.
        weights: of the answers, 1 on average.
    """

    people: NDArray[np.bool_]
    judge: NDArray[np.bool_]
    clusters: NDArray[np.intp]
    models: NDArray[np.intp]
    names: tuple[str, ...]
    weights: NDArray[np.float64]


def judged_gold(
    gold_rows: Sequence[Row], verdicts: Sequence[Row], gold: str, calibrate: str | Calibration | None = None
) -> list[Compared]:
    """Return the gold rows that the judge labelled, each beside its label.

    Args:
        gold_rows: rows that people labelled.
        verdicts: the judge's verdicts on them, as it gave them.
        gold: name of the gold set.
        calibrate: None for a judge with a threshold of its own; the calibration of one that is calibrated on another
            gold set; `out_of_fold` for one that is calibrated on this one: the labels are those of the judge's card,
            from the headline scheme of `cross_fit.cross_fits`. Where there is none there are no rows.
    """
    rows = compared(gold_rows, verdicts, gold)
    if calibrate is None:
        return _judged(rows)
    if calibrate != OUT_OF_FOLD:
        assert not isinstance(calibrate, str)
        return _judged(compared(gold_rows, [calibrated_row(verdict, calibrate) for verdict in verdicts], gold))
    fits = cross_fits(rows)
    fitted = fits.of[fits.headline] if fits.headline else None
    new = [calibrated_row(v, fitted[v["prompt_id"]]) for v in verdicts if fitted and v["prompt_id"] in fitted]
    return _judged(compared(gold_rows, new, gold))


def as_arrays(rows: Sequence[Compared], reading: str) -> GoldRows:
    """Return judged gold rows in a reading, `strict` or `broad`."""
    refusal = REFUSES[reading]
    names = sorted({row.answering_model or "" for row in rows})
    clusters = {name: i for i, name in enumerate(sorted({row.cluster for row in rows}))}
    weights = np.array([row.weight for row in rows], dtype=float)
    return GoldRows(
        people=np.array([row.human in refusal for row in rows], dtype=bool),
        judge=np.array([row.machine in refusal for row in rows], dtype=bool),
        clusters=np.array([clusters[row.cluster] for row in rows], dtype=np.intp),
        models=np.array([names.index(row.answering_model or "") for row in rows], dtype=np.intp),
        names=tuple(names),
        weights=weights / weights.mean() if len(rows) else weights,
    )


def _judged(rows: Sequence[Compared]) -> list[Compared]:
    return [row for row in rows if row.machine is not None]
