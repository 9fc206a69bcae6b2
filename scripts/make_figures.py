"""Make the figures of a study as PDF, SVG and PNG."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refusal_eval.display import Labels
from refusal_eval.figures import c_histograms, rate_heatmap
from refusal_eval.files import read_json
from refusal_eval.logs import start_log
from refusal_eval.scores import read_score_csv
from refusal_eval.style import save_figure

if TYPE_CHECKING:
    snakemake: Any

LOG = logging.getLogger(__name__)


def main(
    json_paths: list[str], csv_paths: list[str], card_paths: list[str], study: Mapping[str, Any], folder: str
) -> None:
    """Write the figures of the primary judge."""
    scores = [read_json(path) for path in json_paths]
    rows = {
        (score["model"], score["split"]): read_score_csv(Path(path).read_text(encoding="utf-8"))
        for score, path in zip(scores, csv_paths, strict=True)
    }
    cards = [read_json(path) for path in card_paths]
    labels = Labels(**study["labels"])
    order = {"models": study["models"], "splits": study["splits"]}
    save_figure(rate_heatmap(scores, cards, labels, **order), Path(folder, "refusal_heatmap"))
    save_figure(c_histograms(scores, rows, labels, band=study["band"], **order), Path(folder, "c_histograms"))
    LOG.info("figures of %d cells", len(scores))


if "snakemake" in globals():
    start_log(snakemake)
    main(
        json_paths=[str(path) for path in snakemake.input.scores],
        csv_paths=[str(path) for path in snakemake.input.rows],
        card_paths=[str(path) for path in snakemake.input.cards],
        study=snakemake.params.study,
        folder=str(Path(snakemake.output[0]).parent),
    )
