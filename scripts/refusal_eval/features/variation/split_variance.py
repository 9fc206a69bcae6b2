"""How much of the variation between verdicts is due to prompts, to sampling and to the judges."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.units import read_units
from refusal_eval.stats.estimates.variance import variance_estimates


def measure(files: Mapping[str, Sequence[str]], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of the analysis' file (`workflow.analysis.Analysis.measure`)."""
    paths = dict(zip(read_cells(params), files["scores"], strict=True))
    found: list[Estimate] = []
    for model, split in itertools.product(params["models"], params["splits"]):
        cells = {judge: read_units(paths[judge, model, split], keep_samples=False) for judge in params["judges"]}
        labels = {judge: units.labels for judge, units in cells.items() if units.labels is not None}
        clusters = cells[params["judges"][0]]["cluster"].tolist()
        flags = [units.flags for units in cells.values()]
        found += variance_estimates(labels, clusters, model, split, params["level"], flags)
    return {"estimates": [estimate.row() for estimate in found]}


def read_cells(params: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    return list(itertools.product(params["judges"], params["models"], params["splits"]))
