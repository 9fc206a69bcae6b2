"""The calibration that a study's verdicts use, fitted on gold, and verdicts on gold as it reads them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from refusal_eval.core.files import sha256_of
from refusal_eval.core.states import COMPLIANCE
from refusal_eval.stats.agreement.compared import join_verdicts
from refusal_eval.stats.calibration.applied import Calibration, calibrated_row
from refusal_eval.stats.calibration.calibration_fit import (
    BY_CLUSTER,
    BY_MODEL,
    RULE,
    cross_fits,
    fit_rows,
    kind_of_map,
    out_of_fold,
)
from refusal_eval.stats.estimates.estimands import CellRow
from refusal_eval.stats.estimates.intervals import effective_number

OUT_OF_FOLD = "out_of_fold"
SCHEMES = {
    BY_MODEL: "out of fold: each answering model by a calibration that saw other models and other prompts only",
    BY_CLUSTER: "out of fold: each prompt by a calibration that saw other prompts only",
}


def calibration_of(gold_rows: Sequence[CellRow], verdicts: Iterable[CellRow], judge: str, gold: str) -> dict[str, Any]:
    """Return the calibration of a judge on one gold set, fitted on all its rows, by their weights where they have some.

    `t` and `map` (see `applied.calibrated_row`), `rule`, n, and n_refusals (broad) among them. For other gold sets with
    the same prompts `folds`, calibrations that did not see some of the prompts, and `prompts`, the place in it of the
    one that did not see a prompt, by the hash of its messages (None: all saw it). Where nothing can be fitted t and map
    are None and `why` says what is missing.

    Raises:
        ValueError: as `compared.compared` does.
    """
    rows = join_verdicts(gold_rows, verdicts, gold)
    found = fit_all_rows(rows, judge, gold)
    return found if found["t"] is None else found | _by_prompt(gold_rows, rows)


def apply_other_calibration(
    gold_rows: Sequence[CellRow], verdicts: Iterable[CellRow], calibration: Calibration
) -> list[CellRow]:
    """Return verdicts on gold rows as a calibration on another gold set reads them (`calibration_of`).

    Answers to prompts of that gold set are read out of fold, and left out where every fold saw the prompt.
    """
    folds, hashes = calibration.get("folds", ()), message_hashes(gold_rows)
    unseen = {prompt: None if n is None else folds[n] for prompt, n in calibration.get("prompts", {}).items()}
    fits = ((verdict, unseen.get(hashes.get(verdict["prompt_id"], ""), calibration)) for verdict in verdicts)
    return [calibrated_row(verdict, fit) for verdict, fit in fits if fit is not None]


def labels_behind(
    gold_rows: Sequence[CellRow], verdicts: Sequence[CellRow], gold: str, calibrate: str | Calibration | None
) -> list[CellRow]:
    """Return the verdicts that a card's own numbers are of (`calibrated_card.card_with_calibration`)."""
    rows = join_verdicts(gold_rows, verdicts, gold)
    if calibrate is None or rows["p_refusal"].isna().all():
        return list(verdicts)
    if not isinstance(calibrate, str):
        return apply_other_calibration(gold_rows, verdicts, calibrate)
    fits = cross_fits(rows)
    return recalibrate(verdicts, (fits.of[fits.headline] if fits.headline else None) or {})


def recalibrate(verdicts: Sequence[CellRow], calibrations: Mapping[str, Calibration]) -> list[CellRow]:
    return [calibrated_row(v, calibrations[v["prompt_id"]]) for v in verdicts if v["prompt_id"] in calibrations]


def message_hashes(gold_rows: Iterable[CellRow]) -> dict[str, str]:
    """Return the hash of each row's messages by row id."""
    return {row["id"]: sha256_of(row["messages"]) for row in gold_rows}


def _by_prompt(gold_rows: Iterable[CellRow], rows: pd.DataFrame) -> dict[str, Any]:
    fits, hashes = out_of_fold(rows, BY_CLUSTER) or {}, message_hashes(gold_rows)
    folds, prompts = list[Calibration](), dict[str, int | None]()
    for row_id in rows["row_id"][rows["p_refusal"].notna()]:
        fit, prompt = fits.get(row_id), hashes[row_id]
        if fit is not None and fit not in folds:
            folds.append(fit)
        place = None if fit is None else folds.index(fit)
        prompts[prompt] = place if prompts.get(prompt, place) == place else None
    return {"folds": folds, "prompts": prompts}


def fit_all_rows(rows: pd.DataFrame, judge: str, gold: str) -> dict[str, Any]:
    known = rows[rows["p_refusal"].notna()]
    fit = fit_rows(known, kind_of_map(effective_number(known["weight"])))
    refusals = int((known["human"] != COMPLIANCE).sum())
    about = {"judge": judge, "gold": gold, "rule": RULE, "n": len(known), "n_refusals": refusals}
    if fit is not None:
        return about | fit
    one_class = f"no answer of gold {gold} is labelled as {'compliance' if refusals else 'a refusal'}"
    why = f"judge {judge} gave no probability on any answer of gold {gold}" if known.empty else one_class
    return about | {"t": None, "map": None, "why": why}
