"""The card of a judge with what calibration makes of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.core.states import LEFT_OUT, SAW_MODEL, SOURCE_LEFT_OUT, UNSEEN
from refusal_eval.features.judge_cards.judge_card import judge_card
from refusal_eval.stats.agreement.compared import join_verdicts
from refusal_eval.stats.calibration.applied import (
    OWN_KIND_WORDS,
    OWN_LABELS,
    OWN_THRESHOLD,
    SOURCE_OUT_WORDS,
    Calibration,
)
from refusal_eval.stats.calibration.calibration_fit import BY_CLUSTER, NO_MODEL, cross_fits
from refusal_eval.stats.calibration.gold_calibration import (
    SCHEMES,
    apply_other_calibration,
    fit_all_rows,
    message_hashes,
    recalibrate,
)
from refusal_eval.stats.estimates.estimands import CellRow

SOURCE_OUT_TEXT = f"judges fitted on this gold set judged it with its {SOURCE_OUT_WORDS}: by a fit to other gold alone"
OUT_OF_FOLD_TEXT = (
    "judges fitted on this gold set judged it out of fold: each answer by a fit to other prompts, and to other "
    f"answering models where these show both classes; {OWN_KIND_WORDS}"
)
_PARTS = (
    *("n", "n_judged", "coverage", "coverage_interval", "strict", "broad", "three_class", "confusion", "models"),
    *(
        "expectations",
        "languages",
        "strata",
        "without_convention",
        "headline",
        "soft",
        "n_clusters",
        "few_clusters",
        "few_classes",
    ),
)


def card_with_calibration(
    gold_rows: Sequence[CellRow],
    verdicts: Sequence[CellRow],
    *,
    calibrate: str | Calibration | None = None,
    fitted_here: bool = False,
    own_labels: bool = False,
    **names: Any,
) -> dict[str, Any]:
    """Return a judge's card, with `labels_from` and `calibration` added, and `unseen` where the judge was fitted here.

    calibration     None for a judge without probabilities; else t and map fitted on all rows, and the judge's
                    performance on held-out rows with such a calibration, under `by_cluster` and `by_model` (None if
                    the gold set does not allow it), each with the range of t over the folds; `headline` names the one
                    to believe: by_model if it covers every row that by_cluster covers, else by_cluster;
                    `models_not_left_out`: answering models with rows that by_model lacks, since the others' rows show
                    only one class, or name no model
    labels_from     the origin of the labels behind the card's own numbers
    unseen          for a judge that the run fitted on this gold: the card's parts by each of the fits that had not seen
                    the like of an answer (`states.LEFT_OUT`), at the judge's own threshold; where a fit was not
                    possible for some answers, over the others. The last of them is the one of the card's own numbers

    Args:
        verdicts: the judge's verdicts on the gold rows, as it gave them.
        calibrate: None for a judge with a threshold of its own. `out_of_fold` for one that is calibrated on this gold
            set: the card's numbers are those of the headline scheme, never those of a calibration on its own rows. A
            calibration for one that is calibrated on another gold set (`calibrated_elsewhere`).
        fitted_here: whether the judge, or a member of it, was fitted on this gold set, so that its verdicts come from
            fits that had not seen similar rows (kind `trained`): `labels_from` then says so.
        own_labels: whether its labels do not come from a threshold on its probabilities, as with a panel's majority.
        names: see `judge_card.judge_card`.

    Raises:
        UserError: if `calibrate` is a calibration that found no threshold.
        ValueError: as `judge_card.judge_card` does.
    """
    saw_model = {verdict["prompt_id"] for verdict in verdicts if (verdict.get("raw") or {}).get(SAW_MODEL)}
    seen = {row.get("answering_model") or NO_MODEL for row in gold_rows if row["id"] in saw_model}
    source_out = any((verdict.get("raw") or {}).get(SOURCE_LEFT_OUT) for verdict in verdicts)
    how = SOURCE_OUT_TEXT if source_out else f"{OUT_OF_FOLD_TEXT}{_kept_text(sorted(seen))}"
    by_fits = _unseen(gold_rows, verdicts, names)

    def card_from(card: dict[str, Any], source: str, calibration: dict[str, Any] | None) -> dict[str, Any]:
        labels_from = f"{source}; {how}" if fitted_here else source
        return (
            card | {"labels_from": labels_from, "calibration": calibration} | ({"unseen": by_fits} if by_fits else {})
        )

    rows = join_verdicts(gold_rows, verdicts, names["gold"])
    given = judge_card(gold_rows, verdicts, **names)
    if given["soft"] is None:
        return card_from(given, OWN_LABELS, None)
    found: dict[str, Any] = fit_all_rows(rows, names["judge"], names["gold"])
    fits = cross_fits(rows)
    best, cards = fits.headline, dict[str, dict[str, Any]]()
    for scheme, calibrations in fits.of.items():
        found[scheme] = None
        if calibrations is None:
            continue
        cards[scheme] = judge_card(gold_rows, recalibrate(verdicts, calibrations), **names)
        fitted = [calibration["t"] for calibration in calibrations.values()]
        found[scheme] = _parts(cards[scheme]) | {"t": [min(fitted), max(fitted)]}
    found |= {"headline": best, "models_not_left_out": list(fits.kept)}
    if calibrate is None:
        return card_from(given, OWN_LABELS if own_labels else OWN_THRESHOLD, found)
    found["as_given"] = _parts(given)
    if not isinstance(calibrate, str):
        new = judge_card(gold_rows, apply_other_calibration(gold_rows, verdicts, calibrate), **names)
        source = f"a calibration on gold {calibrate['gold']}{_shared_text(gold_rows, calibrate)}"
        return card_from(new | {"n_cut": given["n_cut"]}, source, found)
    if best is None:
        # Without a calibration on other rows there is no honest label.
        unknown = judge_card(gold_rows, [], **names) | {"n_cut": given["n_cut"]}
        why = found.get("why") or "this gold set has too few clusters to calibrate on one part and measure on another"
        return card_from(unknown, f"nothing: {why}", found)
    kept = _kept_text(fits.kept if best == BY_CLUSTER else ())
    return card_from(cards[best] | {"n_cut": given["n_cut"]}, SCHEMES[best] + kept, found)


def _unseen(gold_rows: Sequence[CellRow], verdicts: Sequence[CellRow], names: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of the card by each of the fits that had not seen the like of an answer; empty without such fits."""
    found = {}
    for left_out in LEFT_OUT:
        said = [(verdict, (verdict.get("raw") or {}).get(UNSEEN, {}).get(left_out)) for verdict in verdicts]
        if any(one for _, one in said):
            found[left_out] = _parts(
                judge_card(gold_rows, [{**verdict, **one} for verdict, one in said if one], **names)
            )
    return found


def _kept_text(models: Sequence[str]) -> str:
    return f"; answering models that could not be left out: {', '.join(models)}" if models else ""


def _shared_text(gold_rows: Sequence[CellRow], calibration: Calibration) -> str:
    prompts, hashes = calibration.get("prompts", {}), message_hashes(gold_rows).values()
    shared = [prompts[prompt] for prompt in hashes if prompt in prompts]
    unread, how = shared.count(None), SCHEMES[BY_CLUSTER].replace("each prompt", "each")
    left_out = f"; {unread} are not read, as every fold saw their prompts" if unread else ""
    return f"; {len(shared)} of {len(hashes)} answers are to its prompts, and {how}{left_out}" if shared else ""


def _parts(card: Mapping[str, Any]) -> dict[str, Any]:
    return {name: card[name] for name in _PARTS}
