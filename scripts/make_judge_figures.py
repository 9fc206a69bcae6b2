"""Draw a judge's card as PDF, SVG, PNG and a page of HTML."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from refusal_eval.core.files import read_json, write_text
from refusal_eval.core.logs import start_log
from refusal_eval.features.judge_cards.judge_card_figure import card_figure
from refusal_eval.plots.style import save_figure
from refusal_eval.report.paper.display import Labels
from refusal_eval.report.paper.html_page import figure_page

CAPTION = (
    "How well the judge agrees with the labels of this gold set: the headline, agreement by answering model, the "
    "confusion table and, for a judge that gives probabilities, their calibration. Lines show the kappa among people "
    "and of published judges, where known."
)


def main(path: str, labels: Mapping[str, Any], threshold: float | None, stem: str) -> None:
    """Write the figure of a judge card.

    Args:
        path: the card.
        labels: of `judges` and `golds`.
        threshold: of the judge's own, if any.
    """
    card, show = read_json(path), Labels(**labels)
    save_figure(card_figure(card, show, threshold), stem)
    title = f"{show.judge(card['judge'])} on {show.gold(card['gold'])}."
    write_text(f"{stem}.html", figure_page(title, CAPTION, "", Path(stem)))


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    main(
        path=str(snakemake.input[0]),
        labels=snakemake.params.labels,
        threshold=snakemake.params.threshold,
        stem=str(Path(snakemake.output[0]).with_suffix("")),
    )
