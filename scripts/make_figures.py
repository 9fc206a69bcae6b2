"""Make the figures of a study: PDF, SVG and PNG, the numbers in them as CSV, and captions in Markdown and LaTeX."""

import logging
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import written_whole
from refusal_eval.core.logs import start_log
from refusal_eval.plots.captions import PREAMBLE, caption_latex, caption_markdown, captions_preamble
from refusal_eval.plots.figure_kinds import KINDS
from refusal_eval.plots.figure_sources import Sources
from refusal_eval.plots.placeholder import placeholder
from refusal_eval.plots.plot import Drawn, Plot, plot_of
from refusal_eval.plots.style import save_figure
from refusal_eval.report.paper.markup import csv_text

if TYPE_CHECKING:
    snakemake: Any

LOG = logging.getLogger(__name__)


def main(entries: Sequence[Mapping[str, Any]], study: Mapping[str, Any], sources: Sources, folder: str) -> None:
    """Write every figure, and what all captions need in LaTeX.

    One that cannot be drawn becomes a page that says why, so that the others are made.
    """
    for entry in entries:
        plot = plot_of(entry, study["labels"])
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                drawn = KINDS[plot.kind](sources, plot, study["scoring"])
            except UserError as error:
                LOG.warning("not drawn: %s", error)
                drawn = placeholder(str(error), plot)
            write(drawn, plot, folder)
        # Such as a character that the font lacks: other `labels` help.
        for text in sorted({str(warning.message) for warning in told}):
            LOG.warning("figure `%s`: %s", plot.name, text)
    write_text(Path(folder, PREAMBLE), captions_preamble())
    LOG.info("%d figures", len(entries))


def write(drawn: Drawn, plot: Plot, folder: str) -> None:
    """Write the files of one figure."""
    save_figure(drawn.figure, Path(folder, plot.name))
    texts = {
        "csv": csv_text(drawn.frame),
        "caption.md": caption_markdown(drawn.caption),
        "caption.tex": caption_latex(drawn.caption),
    }
    for ending, text in texts.items():
        write_text(Path(folder, f"{plot.name}.{ending}"), text)


def write_text(path: Path, text: str) -> None:
    """Write a file, whole or not at all."""
    with written_whole(path) as handle:
        handle.write(text)


def by_cell(cells: Sequence[Sequence[str]], paths: Sequence[str]) -> dict[tuple[str, str, str], str]:
    """Return the paths by (judge, model, split), of which `cells` has the same order."""
    return {(judge, model, split): path for (judge, model, split), path in zip(cells, paths, strict=True)}


if "snakemake" in globals():
    start_log(snakemake)
    given = {name: [str(path) for path in snakemake.input[name]] for name in snakemake.params.files}
    main(
        entries=snakemake.params.entries,
        study=snakemake.params.study,
        sources=Sources(
            scores=given["scores"],
            rows=by_cell(snakemake.params.cells["rows"], given["rows"]),
            cards=given["cards"],
            verdicts=by_cell(snakemake.params.cells["verdicts"], given["verdicts"]),
            estimates=given["estimates"],
            tradeoff=given["tradeoff"],
            agreement=given["agreement"],
        ),
        folder=str(Path(snakemake.output[0]).parent),
    )
