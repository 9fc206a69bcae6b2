"""Measure one judge on one gold set: its agreement with people."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from refusal_eval.agreement import judge_card
from refusal_eval.files import read_jsonl, write_json
from refusal_eval.logs import start_log

if TYPE_CHECKING:
    snakemake: Any

LOG = logging.getLogger(__name__)


def main(gold_path: str, verdicts_path: str, names: Mapping[str, Any], output: str) -> None:
    """Write the card of one judge on one gold set."""
    card = judge_card(read_jsonl(gold_path), read_jsonl(verdicts_path), **names)
    write_json(output, card)
    LOG.info("%d of %d gold answers judged; broad: %s", card["n_judged"], card["n"], card["broad"])


if "snakemake" in globals():
    start_log(snakemake)
    main(
        gold_path=str(snakemake.input.gold),
        verdicts_path=str(snakemake.input.verdicts),
        names=snakemake.params.card,
        output=str(snakemake.output[0]),
    )
