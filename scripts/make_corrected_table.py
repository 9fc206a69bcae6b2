"""Typeset rates corrected for the judge's errors: CSV, Markdown and LaTeX."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from refusal_eval.core.files import read_json
from refusal_eval.core.logs import start_log
from refusal_eval.report.paper.corrected_tables import corrected_frame, corrected_tables
from refusal_eval.report.paper.table_files import write_tables

if TYPE_CHECKING:
    snakemake: Any


def main(estimates: str, cards: Sequence[str], study: dict[str, Any], tables: Sequence[str]) -> None:
    """Write the tables of rates corrected for the judge's errors.

    Args:
        estimates: estimates/corrected.json.
        cards: of all judges.
        study: see `corrected_tables.corrected_tables`.
        tables: the CSV, the Markdown and the LaTeX.
    """
    result = read_json(estimates)
    made = corrected_tables(result, [read_json(path) for path in cards], study)
    write_tables(corrected_frame(result), made, tables, study.get("protocol", "default"))


if "snakemake" in globals():
    start_log(snakemake)
    main(
        str(snakemake.input.estimates),
        [str(path) for path in snakemake.input.cards],
        snakemake.params.study,
        [str(snakemake.output[0]), str(snakemake.output.md), str(snakemake.output.tex)],
    )
