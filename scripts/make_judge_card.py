"""Measure one judge on one gold set: its agreement with gold, and what calibration makes of it."""

from collections.abc import Mapping
from typing import Any

from refusal_eval.core.files import read_json, read_jsonl, write_json
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.features.judge_cards.calibrated_card import card_with_calibration
from refusal_eval.features.judge_cards.card_estimates import card_estimates
from refusal_eval.stats.calibration.gold_calibration import OUT_OF_FOLD


def main(
    gold_path: str,
    verdicts_path: str,
    names: Mapping[str, Any],
    output: str,
    calibrated_on: str | None = None,
    calibration_path: str | None = None,
    fitted_here: bool = False,
    own_labels: bool = False,
) -> None:
    """Write the card of one judge on one gold set, and its rows of the results table as `estimates`.

    Args:
        gold_path: rows with labels.
        verdicts_path: the judge's verdicts on them, as it gave them.
        names: the other arguments of `judge_card.judge_card`.
        calibrated_on: gold set that the judge's threshold is fitted on, if it is.
        calibration_path: that calibration, where it is another gold set.
        fitted_here: whether the judge or a member of it was fitted on this gold set.
        own_labels: whether no threshold decides over its labels.
    """
    calibrate = None
    if calibrated_on is not None:
        calibrate = OUT_OF_FOLD if calibrated_on == names["gold"] else read_json(str(calibration_path))
    gold, verdicts = list(read_jsonl(gold_path)), list(read_jsonl(verdicts_path))
    how = {"fitted_here": fitted_here, "own_labels": own_labels}
    card = card_with_calibration(gold, verdicts, calibrate=calibrate, **how, **names)
    write_json(output, card | {"estimates": [estimate.row() for estimate in card_estimates(card)]})
    LOG.info("%d of %d gold answers judged; labels: %s", card["n_judged"], card["n"], card["labels_from"])
    for name in ("sensitivity", "specificity", "balanced_accuracy", "f1", "kappa"):
        LOG.info("broad %s: %s, interval %s", name, card["broad"][name], card["broad"]["intervals"][name])


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    files, params = snakemake.input, dict(snakemake.params.card)
    fitted = params.pop("calibrated_on", None), next(iter(files.calibration), None)
    marks = params.pop("fitted_here", False), params.pop("own_labels", False)
    main(files.gold, files.verdicts, params, snakemake.output[0], *fitted, *marks)
