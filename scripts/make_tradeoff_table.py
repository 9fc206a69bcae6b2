"""Typeset over-refusal against safety: CSV, Markdown and LaTeX."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from refusal_eval.core.files import read_json
from refusal_eval.core.logs import start_log
from refusal_eval.report.paper.table_files import write_tables
from refusal_eval.report.paper.tradeoff_tables import tradeoff_frame, tradeoff_tables

if TYPE_CHECKING:
    snakemake: Any


def main(
    estimates: str, scores: Sequence[str], cards: Sequence[str], study: dict[str, Any], tables: Sequence[str]
) -> None:
    """Write the tables of over-refusal against safety.

    Args:
        estimates: estimates/tradeoff.json.
        scores: the summaries of all cells.
        cards: of all judges.
        study: see `tradeoff_tables.tradeoff_tables`.
        tables: the CSV, the Markdown and the LaTeX.
    """
    result = read_json(estimates)
    made = tradeoff_tables(result, [read_json(path) for path in scores], [read_json(path) for path in cards], study)
    write_tables(tradeoff_frame(result), made, tables, study.get("protocol", "default"))


if "snakemake" in globals():
    start_log(snakemake)
    main(
        str(snakemake.input.estimates),
        [str(path) for path in snakemake.input.scores],
        [str(path) for path in snakemake.input.cards],
        snakemake.params.study,
        [str(snakemake.output[0]), str(snakemake.output.md), str(snakemake.output.tex)],
    )
