"""Tell how much of the variation between verdicts is due to prompts, to sampling and to the judges."""

import itertools
from collections.abc import Mapping
from typing import Any

from refusal_eval.core.files import write_json
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.units import read_units
from refusal_eval.stats.estimates.variance import variance_estimates


def main(paths: Mapping[tuple[str, str, str], str], study: Mapping[str, Any], json_path: str) -> None:
    """Write the parts of the variance of each model on each split, over all judges: {"estimates": [...]}.

    Args:
        paths: the scored cell of each (judge, model, split).
        study: `judges`, `models`, `splits` and `level`.
    """
    found: list[Estimate] = []
    for model, split in itertools.product(study["models"], study["splits"]):
        cells = {judge: read_units(paths[judge, model, split], keep_samples=False) for judge in study["judges"]}
        labels = {judge: units.labels for judge, units in cells.items() if units.labels is not None}
        clusters = cells[study["judges"][0]]["cluster"].tolist()
        flags = [units.flags for units in cells.values()]
        found += variance_estimates(labels, clusters, model, split, study["level"], flags)
    write_json(json_path, {"estimates": [estimate.row() for estimate in found]})
    LOG.info("%d estimates, %d judges", len(found), len(study["judges"]))


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    asked = snakemake.params.study
    cells = itertools.product(asked["judges"], asked["models"], asked["splits"])
    main(dict(zip(cells, snakemake.input.cells, strict=True)), asked, snakemake.output[0])
