"""Draw one figure of a study: PDF, SVG and PNG, the numbers in it as CSV, and captions in Markdown and LaTeX."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.config.figure_entry import Shown
from refusal_eval.config.kinds import FIGURES
from refusal_eval.config.paper_format import PaperFormat
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import write_text
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.plots.captions import caption_latex, caption_markdown
from refusal_eval.plots.figure_data import FigureData, not_drawn
from refusal_eval.plots.style import figure_style, save_figure
from refusal_eval.report.paper.markup import csv_text


def main(asked: Mapping[str, Any], files: Mapping[str, Sequence[str]], folder: Path) -> None:
    """Write the files of a figure. One that cannot be drawn becomes a page that says why.

    Args:
        asked: the figure, what it shows, and what it shows of the study (`workflow.figures_stage.params`).
        files: what it is drawn from, by noun.
    """
    figure: Any = FIGURES.entry(asked["figure"])
    shown, protocol = Shown(**asked["shown"]), asked.get("protocol", "default")
    paper = PaperFormat(**asked["paper"])
    data = FigureData(figure, shown, asked["labels"], asked["scoring"], asked["splits"], protocol, paper, files)
    with figure_style(), warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        try:
            drawn = figure.draw(data)
        except UserError as error:
            LOG.warning("not drawn: %s", error)
            drawn = not_drawn(str(error))
        save_figure(drawn.figure, folder / figure.name)
    # Such as a character that the font lacks: other `labels` help.
    for text in sorted({str(warning.message) for warning in noted}):
        LOG.warning("figure `%s`: %s", figure.name, text)
    texts = {
        "csv": csv_text(drawn.frame),
        "caption.md": caption_markdown(drawn.caption),
        "caption.tex": caption_latex(drawn.caption),
    }
    for ending, text in texts.items():
        write_text(folder / f"{figure.name}.{ending}", text)


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    main(
        asked=snakemake.params.asked,
        files={noun: [str(path) for path in paths] for noun, paths in snakemake.input.items()},
        folder=Path(snakemake.output[0]).parent,
    )
