"""Draw a judge's card as PDF, SVG and PNG."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from refusal_eval.core.files import read_json
from refusal_eval.core.logs import start_log
from refusal_eval.features.judge_cards.judge_card_figure import card_figure
from refusal_eval.plots.style import save_figure
from refusal_eval.report.paper.display import Labels


def main(path: str, labels: Mapping[str, Any], threshold: float | None, stem: str) -> None:
    """Write the figure of a judge card.

    Args:
        path: the card.
        labels: of `judges` and `golds`.
        threshold: of the judge's own, if any.
    """
    save_figure(card_figure(read_json(path), Labels(**labels), threshold), stem)


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    main(
        path=str(snakemake.input[0]),
        labels=snakemake.params.labels,
        threshold=snakemake.params.threshold,
        stem=str(Path(snakemake.output[0]).with_suffix("")),
    )
