"""A mixed model of the verdicts on each split: what models, prompts, judges and sampling make different."""

from typing import Any

from refusal_eval.features.variation.fit_mixed_models import measure, read_cells
from refusal_eval.features.variation.variation_keys import VariationKeys
from refusal_eval.workflow.analyses_stage import opinions
from refusal_eval.workflow.analysis import Analysis
from refusal_eval.workflow.whole_study import splits_of


class MixedModelAnalysis(Analysis):
    """One fit for each split; splits that could not be fitted are in `left_out`."""

    name = "mixed_model"
    measure = staticmethod(measure)

    def wanted(self) -> bool:
        return VariationKeys.of(self.study.settings).mixed_model

    def inputs(self) -> dict[str, list[str]]:
        return {"scores": self.score_files(read_cells(self.params()))}

    def params(self) -> dict[str, Any]:
        study = self.study
        readings = {split["name"]: split["reading"] for split in splits_of(study)}
        names = {"judges": opinions(study), "models": sorted(study.models), "readings": dict(sorted(readings.items()))}
        return names | {"level": study.settings.scoring.level}
