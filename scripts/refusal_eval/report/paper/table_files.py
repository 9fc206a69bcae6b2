"""The files of a table: its frame as CSV, the table itself as Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from refusal_eval.core.files import written_whole
from refusal_eval.report.paper.latex_table import latex
from refusal_eval.report.paper.markup import Table, csv_text, markdown
from refusal_eval.report.paper.protocol_labels import labelled


def write_tables(frame: pd.DataFrame, tables: Sequence[Table], paths: Sequence[str | Path], protocol: str) -> None:
    """Write tables that show one frame, each saying which protocol it is under.

    Args:
        frame: what they show.
        tables: the tables; none leaves the Markdown and the LaTeX empty.
        paths: of the CSV, the Markdown and the LaTeX.
        protocol: of the study.
    """
    made = [labelled(frame, table, protocol)[1] for table in tables]
    if protocol != "default":
        frame = frame.copy()
        frame.insert(0, "protocol", protocol)
    texts = (csv_text(frame), "\n".join(map(markdown, made)), "\n".join(map(latex, made)))
    for path, text in zip(paths, texts, strict=True):
        with written_whole(path) as handle:
            handle.write(text)
