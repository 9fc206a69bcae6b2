"""Tell how much of the variation between verdicts is due to prompts, to sampling and to the judges."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from refusal_eval.core.files import write_json
from refusal_eval.core.logs import start_log
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.variance import variance_estimates

if TYPE_CHECKING:
    snakemake: Any

LOG = logging.getLogger(__name__)


def main(paths: Mapping[tuple[str, str], str], study: Mapping[str, Any], json_path: str) -> None:
    """Write the parts of the variance of each model on each split, over all judges: {"estimates": [...]}.

    Args:
        paths: the labels of each (judge, model), as `make_estimates` wrote them.
        study: `judges`, `models`, `splits` and `level`.
        json_path: where to.
    """
    found: list[Estimate] = []
    for model in study["models"]:
        arrays = {judge: np.load(paths[judge, model]) for judge in study["judges"]}
        for split in study["splits"]:
            labels = {judge: own[f"{split}/labels"] for judge, own in arrays.items()}
            clusters = arrays[study["judges"][0]][f"{split}/clusters"].tolist()
            flags = [own[f"{split}/flags"].tolist() for own in arrays.values()]
            found += variance_estimates(labels, clusters, model, split, study["level"], flags)
    write_json(json_path, {"estimates": [estimate.row() for estimate in found]})
    LOG.info("%d estimates, %d judges", len(found), len(study["judges"]))


if "snakemake" in globals():
    start_log(snakemake)
    asked = snakemake.params.study
    pairs = [(judge, model) for judge in asked["judges"] for model in asked["models"]]
    main(
        paths=dict(zip(pairs, map(str, snakemake.input.labels), strict=True)),
        study=asked,
        json_path=str(snakemake.output[0]),
    )
