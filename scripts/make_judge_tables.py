"""Make the table of all judge cards of a study as CSV, Markdown and LaTeX."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refusal_eval.core.files import read_json, written_whole
from refusal_eval.core.logs import start_log
from refusal_eval.report.paper.display import Labels
from refusal_eval.report.paper.judge_card_tables import cards_frame, cards_table
from refusal_eval.report.paper.latex_table import latex
from refusal_eval.report.paper.markup import csv_text, markdown
from refusal_eval.report.paper.protocol_labels import labelled
from refusal_eval.report.paper.repeated_headers import told_once

if TYPE_CHECKING:
    snakemake: Any

LOG = logging.getLogger(__name__)


def main(card_paths: list[str], study: Mapping[str, Any], folder: str) -> None:
    """Write judge_cards.csv, .md and .tex."""
    cards = [read_json(path) for path in card_paths]
    table = told_once(cards_table(cards, study["judges"], Labels(**study["labels"])))
    frame, table = labelled(cards_frame(cards), table, study.get("protocol", "default"))
    for ending, text in (("csv", csv_text(frame)), ("md", markdown(table)), ("tex", latex(table))):
        with written_whole(Path(folder, f"judge_cards.{ending}")) as handle:
            handle.write(text)
    LOG.info("%d judge cards", len(cards))


if "snakemake" in globals():
    start_log(snakemake)
    main(
        card_paths=[str(path) for path in snakemake.input.cards],
        study=snakemake.params.study,
        folder=str(Path(snakemake.output[0]).parent),
    )
