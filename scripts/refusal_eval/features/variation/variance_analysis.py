"""How much of the variation between verdicts is due to prompts, to sampling and to the judges."""

import itertools
from collections.abc import Mapping
from typing import Any

from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.units import read_units
from refusal_eval.stats.estimates.variance import variance_estimates
from refusal_eval.workflow.analyses_stage import opinions
from refusal_eval.workflow.analysis import Analysis, Files


class VarianceAnalysis(Analysis):
    """The parts of the variance of each model on each split, over all judges."""

    name = "variance"

    def wanted(self) -> bool:
        return len(opinions(self.study)) > 1 and self.study.settings.samples > 1

    def inputs(self) -> dict[str, list[str]]:
        return {"scores": self.score_files(_cells(self.params()))}

    def params(self) -> dict[str, Any]:
        study = self.study
        names = {"judges": opinions(study), "models": sorted(study.models), "splits": sorted(study.splits)}
        return names | {"level": study.settings.scoring.level}

    @classmethod
    def measure(cls, files: Files, params: Mapping[str, Any]) -> dict[str, Any]:
        paths = dict(zip(_cells(params), files["scores"], strict=True))
        found: list[Estimate] = []
        for model, split in itertools.product(params["models"], params["splits"]):
            cells = {judge: read_units(paths[judge, model, split], keep_samples=False) for judge in params["judges"]}
            labels = {judge: units.labels for judge, units in cells.items() if units.labels is not None}
            clusters = cells[params["judges"][0]]["cluster"].tolist()
            flags = [units.flags for units in cells.values()]
            found += variance_estimates(labels, clusters, model, split, params["level"], flags)
        return {"estimates": [estimate.row() for estimate in found]}


def _cells(params: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return judge, model and split of all that it reads."""
    return list(itertools.product(params["judges"], params["models"], params["splits"]))
