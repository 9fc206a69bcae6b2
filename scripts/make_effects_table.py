"""Make the table of what each choice of the published code does, as CSV, Markdown and LaTeX."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refusal_eval.compat.effects_table import effects_frame, effects_table
from refusal_eval.core.files import read_json, written_whole
from refusal_eval.core.logs import start_log
from refusal_eval.report.paper.display import Labels
from refusal_eval.report.paper.latex_table import latex
from refusal_eval.report.paper.markup import csv_text, markdown
from refusal_eval.report.paper.protocol_labels import labelled

if TYPE_CHECKING:
    snakemake: Any

LOG = logging.getLogger(__name__)


def main(score_paths: list[str], study: Mapping[str, Any], folder: str) -> None:
    """Write the table in three formats."""
    cells = [read_json(path) for path in score_paths]
    order = {name: study[name] for name in ("models", "splits", "judges")}
    table = effects_table(cells, Labels(**study["labels"]), **order)
    frame, table = labelled(effects_frame(cells), table, study.get("protocol", "default"))
    for ending, text in (("csv", csv_text(frame)), ("md", markdown(table)), ("tex", latex(table))):
        with written_whole(Path(folder, f"protocol_effects.{ending}")) as handle:
            handle.write(text)
    LOG.info("protocol effects of %d cells", len(cells))


if "snakemake" in globals():
    start_log(snakemake)
    main(
        score_paths=[str(path) for path in snakemake.input.scores],
        study=snakemake.params.study,
        folder=str(Path(snakemake.output[0]).parent),
    )
