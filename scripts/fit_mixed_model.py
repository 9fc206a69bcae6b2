"""Fit a mixed model to the verdicts of each split: what models, prompts, judges and sampling make different."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from refusal_eval.core.files import write_json
from refusal_eval.core.logs import start_log
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.mixed_model import mixed_estimates

if TYPE_CHECKING:
    snakemake: Any

LOG = logging.getLogger(__name__)


def main(paths: Mapping[tuple[str, str], str], study: Mapping[str, Any], json_path: str) -> None:
    """Write the estimates of each split, and what could not be fitted: {"estimates": [...], "left_out": [sentences]}.

    Args:
        paths: the labels of each (judge, model), as `make_estimates` wrote them.
        study: `judges`, `models`, `readings` (the headline reading of each split) and `level`.
        json_path: where to.
    """
    found: list[Estimate] = []
    left_out: list[str] = []
    cells = [(judge, model) for judge in study["judges"] for model in study["models"]]
    arrays = {cell: np.load(paths[cell]) for cell in cells}
    for split, reading in study["readings"].items():
        labels = {cell: own[f"{split}/labels"] for cell, own in arrays.items()}
        clusters = arrays[cells[0]][f"{split}/clusters"].tolist()
        flags = [own[f"{split}/flags"].tolist() for own in arrays.values()]
        estimates, notes = mixed_estimates(labels, clusters, split, reading, study["level"], flags)
        found += estimates
        left_out += notes
    for note in left_out:
        LOG.warning("%s", note)
    write_json(json_path, {"estimates": [estimate.row() for estimate in found], "left_out": left_out})
    LOG.info("%d estimates of %d splits", len(found), len(study["readings"]))


if "snakemake" in globals():
    start_log(snakemake)
    asked = snakemake.params.study
    pairs = [(judge, model) for judge in asked["judges"] for model in asked["models"]]
    main(
        paths=dict(zip(pairs, map(str, snakemake.input.labels), strict=True)),
        study=asked,
        json_path=str(snakemake.output[0]),
    )
