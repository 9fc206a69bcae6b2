"""Draw one figure of a study: PDF, SVG and PNG, the numbers in it as CSV, and captions in Markdown and LaTeX."""

import logging
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import written_whole
from refusal_eval.core.logs import start_log
from refusal_eval.plots.captions import caption_latex, caption_markdown
from refusal_eval.plots.figure_kinds import KINDS
from refusal_eval.plots.figure_sources import Sources
from refusal_eval.plots.placeholder import placeholder
from refusal_eval.plots.plot import plot_of
from refusal_eval.plots.style import save_figure
from refusal_eval.report.paper.markup import csv_text

if TYPE_CHECKING:
    snakemake: Any

LOG = logging.getLogger(__name__)


def main(entry: Mapping[str, Any], study: Mapping[str, Any], sources: Sources, folder: Path) -> None:
    """Write the files of a figure. One that cannot be drawn becomes a page that says why.

    Args:
        entry: the figure, with every default filled in (`workflow.figures_stage.figures_of`).
        study: what all figures share (`workflow.figures_stage.presentation`).
        sources: what it is drawn from.
        folder: where its files go.
    """
    plot = plot_of(entry, study["labels"])
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        try:
            drawn = KINDS[plot.kind](sources, plot, study["scoring"])
        except UserError as error:
            LOG.warning("not drawn: %s", error)
            drawn = placeholder(str(error), plot)
        save_figure(drawn.figure, folder / plot.name)
    # Such as a character that the font lacks: other `labels` help.
    for text in sorted({str(warning.message) for warning in noted}):
        LOG.warning("figure `%s`: %s", plot.name, text)
    texts = {
        "csv": csv_text(drawn.frame),
        "caption.md": caption_markdown(drawn.caption),
        "caption.tex": caption_latex(drawn.caption),
    }
    for ending, text in texts.items():
        with written_whole(folder / f"{plot.name}.{ending}") as handle:
            handle.write(text)


def by_cell(paths: Sequence[str]) -> dict[tuple[str, str, str], str]:
    """Return files of cells by (judge, model, split), which their paths end with."""
    parts = [(path, Path(path).with_suffix("").parts[-3:]) for path in paths]
    return {(judge, model, split): path for path, (judge, model, split) in parts}


if "snakemake" in globals():
    start_log(snakemake)
    files = {name: [str(path) for path in snakemake.input[name]] for name in ("scores", "cards", "estimates")}
    main(
        entry=snakemake.params.figure,
        study=snakemake.params.study,
        sources=Sources(
            **files,
            rows=by_cell(snakemake.input.rows),
            verdicts=by_cell(snakemake.input.verdicts),
            tradeoff=list(snakemake.input.tradeoff),
            agreement=list(snakemake.input.agreement),
        ),
        folder=Path(snakemake.output[0]).parent,
    )
