"""Typeset one table of a study: its numbers as CSV, the table as Markdown, LaTeX and a page of HTML."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.config.kinds import ANSWER_PAGES, PROTOCOLS, TABLES
from refusal_eval.core.files import write_text
from refusal_eval.core.logs import start_log
from refusal_eval.report.paper.answer_page import cell_link
from refusal_eval.report.paper.finished_table import finished
from refusal_eval.report.paper.html_page import tables_page
from refusal_eval.report.paper.latex_table import latex, page_of
from refusal_eval.report.paper.markup import csv_text, markdown
from refusal_eval.report.paper.table_data import TableData
from refusal_eval.report.paper.table_kind import StudyTable


def main(
    table: type[StudyTable], asked: Mapping[str, Any], files: Mapping[str, Sequence[str]], outputs: Sequence[str]
) -> None:
    """Write the files of a table; under another protocol than the default one it says so.

    Args:
        asked: what it shows (`workflow.tables_stage.params`).
        files: what it is made of, by noun.
        outputs: the CSV and, of a table that is typeset, the Markdown, the LaTeX and the HTML.
    """
    frame, tables = table.make(TableData(asked, files))
    if table.typeset and (protocol := asked["protocol"]) != "default":
        frame = frame.copy()
        frame.insert(0, "protocol", protocol)
        tables = [
            dataclasses.replace(
                t, caption=f"{t.caption} Protocol: {protocol}.", notes=[PROTOCOLS.get(protocol).note, *t.notes]
            )
            for t in tables
        ]
    texts = [csv_text(frame)]
    if table.typeset:
        printed = [finished(one) for one in tables]
        page = page_of(asked.get("paper"))
        texts += ["\n".join(map(markdown, printed)), "\n".join(latex(one, page) for one in printed)]
        forms = {Path(path).name: text.encode() for path, text in zip(outputs, texts, strict=False)}
        pages = {ANSWER_PAGES.get(name): path for name, path in asked.get("answer_pages", {}).items()}
        texts.append(tables_page(printed, forms, cell_link(pages) if pages else None))
    for path, text in zip(outputs, texts, strict=True):
        write_text(path, text)


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    main(
        TABLES.get(snakemake.wildcards.table),
        asked=snakemake.params.asked,
        files={noun: [str(path) for path in paths] for noun, paths in snakemake.input.items()},
        outputs=[str(path) for path in snakemake.output],
    )
