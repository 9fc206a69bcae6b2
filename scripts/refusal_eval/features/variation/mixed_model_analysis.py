"""A mixed model of the verdicts on each split: what models, prompts, judges and sampling make different."""

import itertools
from collections.abc import Mapping
from typing import Any

from refusal_eval.core.logs import LOG
from refusal_eval.features.variation.mixed_model import mixed_estimates
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.units import read_units
from refusal_eval.workflow.analyses_stage import opinions
from refusal_eval.workflow.analysis import Analysis, Files
from refusal_eval.workflow.whole_study import splits_of


class MixedModelAnalysis(Analysis):
    """One fit for each split; what could not be fitted stands in `left_out`."""

    name = "mixed_model"

    def wanted(self) -> bool:
        return self.study.settings.mixed_model

    def inputs(self) -> dict[str, list[str]]:
        return {"scores": self.score_files(_cells(self.params()))}

    def params(self) -> dict[str, Any]:
        study = self.study
        readings = {split["name"]: split["reading"] for split in splits_of(study)}
        names = {"judges": opinions(study), "models": sorted(study.models), "readings": dict(sorted(readings.items()))}
        return names | {"level": study.settings.scoring.level}

    @classmethod
    def measure(cls, files: Files, params: Mapping[str, Any]) -> dict[str, Any]:
        paths = dict(zip(_cells(params), files["scores"], strict=True))
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


def _cells(params: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return judge, model and split of all that it reads."""
    return list(itertools.product(params["judges"], params["models"], params["readings"]))
