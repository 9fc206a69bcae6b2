"""A mixed model of the verdicts on each split: what models, prompts, judges and sampling make different."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.core.logs import LOG
from refusal_eval.features.variation.mixed_model import mixed_estimates
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.units import read_units


def measure(files: Mapping[str, Sequence[str]], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of the analysis' file (`workflow.analysis.Analysis.measure`)."""
    paths = dict(zip(read_cells(params), files["scores"], strict=True))
    found: list[Estimate] = []
    left_out: list[str] = []
    for split, reading in params["readings"].items():
        names = itertools.product(params["judges"], params["models"])
        cells = {cell: read_units(paths[*cell, split], keep_samples=False) for cell in names}
        labels = {cell: units.labels for cell, units in cells.items() if units.labels is not None}
        clusters = next(iter(cells.values()))["cluster"].tolist()
        flags = [units.flags for units in cells.values()]
        LOG.info("split %s: fitting %d cells of %d prompts", split, len(labels), len(clusters))
        estimates, notes = mixed_estimates(labels, clusters, split, reading, params["level"], flags)
        found += estimates
        left_out += notes
    for note in left_out:
        LOG.warning("%s", note)
    return {"estimates": [estimate.row() for estimate in found], "left_out": left_out}


def read_cells(params: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    return list(itertools.product(params["judges"], params["models"], params["readings"]))
