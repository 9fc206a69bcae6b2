"""The card of a judge with what calibration makes of it, and the calibration that a study's verdicts use."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from refusal_eval.core.files import sha256_of
from refusal_eval.core.states import COMPLIANCE, SAW_MODEL
from refusal_eval.stats.agreement.compared import compared
from refusal_eval.stats.agreement.judge_card import judge_card
from refusal_eval.stats.calibration.applied import OWN_LABELS, OWN_THRESHOLD, Calibration, calibrated_row
from refusal_eval.stats.calibration.calibration_fit import (
    BY_CLUSTER,
    BY_MODEL,
    NO_MODEL,
    RULE,
    cross_fits,
    fit_rows,
    kind_of_map,
    out_of_fold,
)
from refusal_eval.stats.estimates.estimands import Row
from refusal_eval.stats.estimates.intervals import effective_number

OUT_OF_FOLD = "out_of_fold"
SCHEMES = {
    BY_MODEL: "out of fold: each answering model by a calibration that saw other models and other prompts only",
    BY_CLUSTER: "out of fold: each prompt by a calibration that saw other prompts only",
}
UNSEEN = (
    "judges fitted on this gold set judged it out of fold: each answer by a fit to other prompts, and to other "
    "answering models where these show both classes"
)
_PARTS = (
    *("n", "n_judged", "coverage", "coverage_interval", "strict", "broad", "three_class", "confusion", "models"),
    *(
        "expectations",
        "languages",
        "strata",
        "without_denied_premises",
        "headline",
        "soft",
        "n_clusters",
        "few_clusters",
        "few_classes",
    ),
)


def calibration_of(gold_rows: Sequence[Row], verdicts: Iterable[Row], judge: str, gold: str) -> dict[str, Any]:
    """Return the calibration of a judge on one gold set, fitted on all its rows, by their weights where they have some.

    `t` and `map` (see `applied.calibrated_row`), `rule`, n, and n_refusals (broad) among them. For other gold sets with
    the same prompts `folds`, calibrations that did not see some of the prompts, and `prompts`, the place in it of the
    one that did not see a prompt, by the hash of its messages (None: all saw it). Where nothing can be fitted t and map
    are None and `why` says what is missing.

    Raises:
        ValueError: as `compared.compared` does.
    """
    rows = compared(gold_rows, verdicts, gold)
    found = _calibration(rows, judge, gold)
    return found if found["t"] is None else found | _by_prompt(gold_rows, rows)


def calibrated_elsewhere(gold_rows: Sequence[Row], verdicts: Iterable[Row], calibration: Calibration) -> list[Row]:
    """Return verdicts on gold rows as a calibration on another gold set reads them (`calibration_of`).

    Answers to prompts of that gold set are read out of fold, and left out where every fold saw the prompt.
    """
    folds, hashes = calibration.get("folds", ()), _hashes(gold_rows)
    unseen = {prompt: None if n is None else folds[n] for prompt, n in calibration.get("prompts", {}).items()}
    fits = ((verdict, unseen.get(hashes.get(verdict["prompt_id"], ""), calibration)) for verdict in verdicts)
    return [calibrated_row(verdict, fit) for verdict, fit in fits if fit is not None]


def card_with_calibration(
    gold_rows: Sequence[Row],
    verdicts: Sequence[Row],
    *,
    calibrate: str | Calibration | None = None,
    fitted_here: bool = False,
    own_labels: bool = False,
    **names: Any,
) -> dict[str, Any]:
    """Return a judge's card, with `labels_from` and `calibration` added.

    calibration     None for a judge without probabilities; else t and map fitted on all rows, and how the judge does
                    with such a calibration on rows that had no part in it, under `by_cluster` and `by_model` (None
                    where the gold set does not allow it), each with the range of t over the folds; `headline` names
                    the one to be believed: by_model where it covers every row that by_cluster covers, else by_cluster;
                    `models_not_left_out`: answering models with rows that by_model lacks, as the others' rows show one
                    class only, or as they name no model
    labels_from     what the labels behind the card's own numbers are

    Args:
        verdicts: the judge's verdicts on the gold rows, as it gave them.
        calibrate: None for a judge with a threshold of its own. `out_of_fold` for one that is calibrated on this gold
            set: the card's numbers are those of the headline scheme, never those of a calibration on its own rows. A
            calibration for one that is calibrated on another gold set (`calibrated_elsewhere`).
        fitted_here: whether the judge, or a member of it, was fitted on this gold set, so that its verdicts are those
            of fits that had not seen the like (kind `trained`): `labels_from` then says so.
        own_labels: whether no threshold on its probabilities decides over its labels, such as those of a panel's
            majority.
        names: see `judge_card.judge_card`.

    Raises:
        UserError: if `calibrate` is a calibration that found no threshold.
        ValueError: as `judge_card.judge_card` does.
    """
    saw_model = {verdict["prompt_id"] for verdict in verdicts if (verdict.get("raw") or {}).get(SAW_MODEL)}
    seen = {row.get("answering_model") or NO_MODEL for row in gold_rows if row["id"] in saw_model}
    unseen = f"; {UNSEEN}{_kept_text(sorted(seen))}" if fitted_here else ""

    def card_from(card: dict[str, Any], source: str, calibration: dict[str, Any] | None) -> dict[str, Any]:
        return card | {"labels_from": source + unseen, "calibration": calibration}

    rows = compared(gold_rows, verdicts, names["gold"])
    given = judge_card(gold_rows, verdicts, **names)
    if given["soft"] is None:
        return card_from(given, OWN_LABELS, None)
    found: dict[str, Any] = _calibration(rows, names["judge"], names["gold"])
    fits = cross_fits(rows)
    best, cards = fits.headline, dict[str, dict[str, Any]]()
    for scheme, calibrations in fits.of.items():
        found[scheme] = None
        if calibrations is None:
            continue
        cards[scheme] = judge_card(gold_rows, _recalibrated(verdicts, calibrations), **names)
        fitted = [calibration["t"] for calibration in calibrations.values()]
        found[scheme] = _parts(cards[scheme]) | {"t": [min(fitted), max(fitted)]}
    found |= {"headline": best, "models_not_left_out": list(fits.kept)}
    if calibrate is None:
        return card_from(given, OWN_LABELS if own_labels else OWN_THRESHOLD, found)
    found["as_given"] = _parts(given)
    if not isinstance(calibrate, str):
        new = judge_card(gold_rows, calibrated_elsewhere(gold_rows, verdicts, calibrate), **names)
        source = f"a calibration on gold {calibrate['gold']}{_shared_text(gold_rows, calibrate)}"
        return card_from(new | {"n_cut": given["n_cut"]}, source, found)
    if best is None:
        # Without a calibration on other rows there is no honest label.
        unknown = judge_card(gold_rows, [], **names) | {"n_cut": given["n_cut"]}
        why = found.get("why") or "this gold set has too few clusters to calibrate on one part and measure on another"
        return card_from(unknown, f"nothing: {why}", found)
    kept = _kept_text(fits.kept if best == BY_CLUSTER else ())
    return card_from(cards[best] | {"n_cut": given["n_cut"]}, SCHEMES[best] + kept, found)


def labels_behind(
    gold_rows: Sequence[Row], verdicts: Sequence[Row], gold: str, calibrate: str | Calibration | None
) -> list[Row]:
    """Return the verdicts that a card's own numbers are of: see `card_with_calibration` for `calibrate`."""
    rows = compared(gold_rows, verdicts, gold)
    if calibrate is None or rows["p_refusal"].isna().all():
        return list(verdicts)
    if not isinstance(calibrate, str):
        return calibrated_elsewhere(gold_rows, verdicts, calibrate)
    fits = cross_fits(rows)
    return _recalibrated(verdicts, (fits.of[fits.headline] if fits.headline else None) or {})


def _recalibrated(verdicts: Sequence[Row], calibrations: Mapping[str, Calibration]) -> list[Row]:
    return [calibrated_row(v, calibrations[v["prompt_id"]]) for v in verdicts if v["prompt_id"] in calibrations]


def _kept_text(models: Sequence[str]) -> str:
    return f"; answering models that could not be left out: {', '.join(models)}" if models else ""


def _shared_text(gold_rows: Sequence[Row], calibration: Calibration) -> str:
    prompts, hashes = calibration.get("prompts", {}), _hashes(gold_rows).values()
    shared = [prompts[prompt] for prompt in hashes if prompt in prompts]
    unread, how = shared.count(None), SCHEMES[BY_CLUSTER].replace("each prompt", "each")
    left_out = f"; {unread} are not read, as every fold saw their prompts" if unread else ""
    return f"; {len(shared)} of {len(hashes)} answers are to its prompts, and {how}{left_out}" if shared else ""


def _hashes(gold_rows: Iterable[Row]) -> dict[str, str]:
    """The hash of each row's messages, by its id."""
    return {row["id"]: sha256_of(row["messages"]) for row in gold_rows}


def _by_prompt(gold_rows: Iterable[Row], rows: pd.DataFrame) -> dict[str, Any]:
    fits, hashes = out_of_fold(rows, BY_CLUSTER) or {}, _hashes(gold_rows)
    folds, prompts = list[Calibration](), dict[str, int | None]()
    for row_id in rows["row_id"][rows["p_refusal"].notna()]:
        fit, prompt = fits.get(row_id), hashes[row_id]
        if fit is not None and fit not in folds:
            folds.append(fit)
        place = None if fit is None else folds.index(fit)
        prompts[prompt] = place if prompts.get(prompt, place) == place else None
    return {"folds": folds, "prompts": prompts}


def _calibration(rows: pd.DataFrame, judge: str, gold: str) -> dict[str, Any]:
    known = rows[rows["p_refusal"].notna()]
    fit = fit_rows(known, kind_of_map(effective_number(known["weight"])))
    refusals = int((known["human"] != COMPLIANCE).sum())
    about = {"judge": judge, "gold": gold, "rule": RULE, "n": len(known), "n_refusals": refusals}
    if fit is not None:
        return about | fit
    one_class = f"no answer of gold {gold} is labelled as {'compliance' if refusals else 'a refusal'}"
    why = f"judge {judge} gave no probability on any answer of gold {gold}" if known.empty else one_class
    return about | {"t": None, "map": None, "why": why}


def _parts(card: Mapping[str, Any]) -> dict[str, Any]:
    return {name: card[name] for name in _PARTS}
