"""Fit a mixed model to the verdicts of each split: what models, prompts, judges and sampling make different."""

import itertools
from collections.abc import Mapping
from typing import Any

from refusal_eval.core.files import write_json
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.mixed_model import mixed_estimates
from refusal_eval.stats.estimates.units import read_units


def main(paths: Mapping[tuple[str, str, str], str], study: Mapping[str, Any], json_path: str) -> None:
    """Write the estimates of each split, and what could not be fitted: {"estimates": [...], "left_out": [sentences]}.

    Args:
        paths: the scored cell of each (judge, model, split).
        study: `judges`, `models`, `readings` (the headline reading of each split) and `level`.
    """
    found: list[Estimate] = []
    left_out: list[str] = []
    for split, reading in study["readings"].items():
        names = itertools.product(study["judges"], study["models"])
        cells = {cell: read_units(paths[*cell, split], keep_samples=False) for cell in names}
        labels = {cell: units.labels for cell, units in cells.items() if units.labels is not None}
        clusters = next(iter(cells.values()))["cluster"].tolist()
        flags = [units.flags for units in cells.values()]
        LOG.info("split %s: fitting %d cells of %d prompts", split, len(labels), len(clusters))
        estimates, notes = mixed_estimates(labels, clusters, split, reading, study["level"], flags)
        found += estimates
        left_out += notes
    for note in left_out:
        LOG.warning("%s", note)
    write_json(json_path, {"estimates": [estimate.row() for estimate in found], "left_out": left_out})
    LOG.info("%d estimates of %d splits", len(found), len(study["readings"]))


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    asked = snakemake.params.study
    cells = itertools.product(asked["judges"], asked["models"], asked["readings"])
    main(dict(zip(cells, snakemake.input.cells, strict=True)), asked, snakemake.output[0])
