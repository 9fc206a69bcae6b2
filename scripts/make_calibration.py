"""Fit the threshold and the curve of a judge's probabilities on one gold set."""

from collections.abc import Mapping
from typing import Any

from refusal_eval.core.files import read_jsonl, write_json
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.features.judge_cards.calibrated_card import card_with_calibration
from refusal_eval.stats.calibration.gold_calibration import calibration_of


def main(gold_path: str, verdicts_path: str, names: Mapping[str, Any], output: str) -> None:
    """Write the calibration of one judge on one gold set, with its performance on rows that had no part in it."""
    gold, verdicts = list(read_jsonl(gold_path)), list(read_jsonl(verdicts_path))
    found = calibration_of(gold, verdicts, names["judge"], names["gold"])
    performance = card_with_calibration(gold, verdicts, **names)["calibration"] or {}
    write_json(output, {**performance, **found})
    LOG.info("t = %s, %s", found["t"], found["map"] or found["why"])


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    main(snakemake.input.gold, snakemake.input.verdicts, snakemake.params.calibration, snakemake.output[0])
