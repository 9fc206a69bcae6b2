"""The files of a table: its frame as CSV, the tables that show it as Markdown and LaTeX."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from refusal_eval.core.files import written_whole
from refusal_eval.report.paper.latex_table import latex
from refusal_eval.report.paper.markup import Table, csv_text, markdown
from refusal_eval.report.paper.table_notes import PROTOCOL_NOTE


def write_tables(
    frame: pd.DataFrame, tables: Sequence[Table], paths: Sequence[str | Path], protocol: str = "default"
) -> None:
    """Write tables that show one frame; under another protocol than the default one each says so.

    Args:
        frame: what they show.
        tables: the tables; none leaves the Markdown and the LaTeX empty.
        paths: of the CSV, the Markdown and the LaTeX.
        protocol: of the study.
    """
    if protocol != "default":
        frame = frame.copy()
        frame.insert(0, "protocol", protocol)
        tables = [
            dataclasses.replace(
                table, caption=f"{table.caption} Protocol: {protocol}.", notes=[PROTOCOL_NOTE, *table.notes]
            )
            for table in tables
        ]
    texts = (csv_text(frame), "\n".join(map(markdown, tables)), "\n".join(map(latex, tables)))
    for path, text in zip(paths, texts, strict=True):
        with written_whole(path) as handle:
            handle.write(text)
