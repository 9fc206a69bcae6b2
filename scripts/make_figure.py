"""Draw one figure of a study: PDF, SVG, PNG, its numbers as CSV, captions, a figure for LaTeX, and a page of HTML."""

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
from refusal_eval.plots.captions import caption_latex, caption_markdown, figure_latex
from refusal_eval.plots.figure_data import FigureData, not_drawn
from refusal_eval.plots.style import figure_style, save_figure
from refusal_eval.report.paper.html_page import figure_page
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
        "tex": figure_latex(figure.name, drawn.caption, spans=data.spans(drawn.figure)),
        "caption.md": caption_markdown(drawn.caption.brief),
        "caption.tex": caption_latex(drawn.caption.brief),
        "caption_long.md": caption_markdown(drawn.caption),
        "caption_long.tex": caption_latex(drawn.caption),
    }
    for ending, text in texts.items():
        write_text(folder / f"{figure.name}.{ending}", text)
    long = " ".join(drawn.caption.sentences) if drawn.caption.short else ""
    page = figure_page(drawn.caption.title, " ".join(drawn.caption.brief.sentences), long, folder / figure.name)
    write_text(folder / f"{figure.name}.html", page)


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    main(
        asked=snakemake.params.asked,
        files={noun: [str(path) for path in paths] for noun, paths in snakemake.input.items()},
        folder=Path(snakemake.output[0]).parent,
    )
