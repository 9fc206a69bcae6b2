"""Typeset one table of a study: its numbers as CSV, the table as Markdown and LaTeX."""

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from refusal_eval.core.logs import start_log
from refusal_eval.report.paper.table_data import TableData
from refusal_eval.report.paper.table_files import write_tables

if TYPE_CHECKING:
    snakemake: Any


def main(asked: Mapping[str, Any], files: Mapping[str, Sequence[str]], outputs: Sequence[str]) -> None:
    """Write the files of a table.

    Args:
        asked: which function makes it (`made_by`), and what it shows (`workflow.tables_stage.params`).
        files: what it is made of, by noun.
        outputs: the CSV, the Markdown and the LaTeX.
    """
    data = TableData(asked, files)
    module, function = asked["made_by"].split(":")
    frame, tables = getattr(importlib.import_module(f"refusal_eval.{module}"), function)(data)
    write_tables(frame, tables, outputs, asked["protocol"])


if "snakemake" in globals():
    start_log(snakemake)
    main(
        asked=snakemake.params.asked,
        files={noun: [str(path) for path in paths] for noun, paths in snakemake.input.items()},
        outputs=[str(path) for path in snakemake.output],
    )
