"""Over-refusals of the splits that say in which of their categories a refusal is one."""

from typing import Any

from refusal_eval.features.over_refusals.measure_over_refusals import measure
from refusal_eval.features.over_refusals.over_refusals_keys import OverRefusalsKeys
from refusal_eval.workflow.analysis import Analysis


class OverRefusalsAnalysis(Analysis):
    """All cells of these splits."""

    name = "over_refusals"
    measure = staticmethod(measure)

    def wanted(self) -> bool:
        return bool(self._categories())

    def inputs(self) -> dict[str, list[str]]:
        return {"scores": self.score_files(self.params()["cells"])}

    def params(self) -> dict[str, Any]:
        categories = self._categories()
        return {
            "categories": categories,
            "cells": sorted(cell for cell in self.all_cells()["cells"] if cell[2] in categories),
        }

    def _categories(self) -> dict[str, list[str]]:
        found = {name: OverRefusalsKeys.of(split).over_refusals_in for name, split in self.study.splits.items()}
        return {name: sorted(categories) for name, categories in found.items() if categories}
