"""How much of the variation between verdicts is due to prompts, to sampling and to the judges."""

from typing import Any

from refusal_eval.features.variation.split_variance import measure, read_cells
from refusal_eval.workflow.analyses_stage import opinions
from refusal_eval.workflow.analysis import Analysis


class VarianceAnalysis(Analysis):
    """The parts of the variance of each model on each split, over all judges."""

    name = "variance"
    measure = staticmethod(measure)

    def wanted(self) -> bool:
        return len(opinions(self.study)) > 1 and self.study.settings.samples > 1

    def inputs(self) -> dict[str, list[str]]:
        return {"scores": self.score_files(read_cells(self.params()))}

    def params(self) -> dict[str, Any]:
        study = self.study
        names = {"judges": opinions(study), "models": sorted(study.models), "splits": sorted(study.splits)}
        return names | {"level": study.settings.scoring.level}
