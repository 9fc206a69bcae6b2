"""What refusals cost in battles: win rates by class, penalties, and moderation bias."""

from typing import Any

from refusal_eval.core.recorded_files import IN_ROWS
from refusal_eval.features.battles.measure_battles import measure
from refusal_eval.workflow.analysis import Analysis


class BattlesAnalysis(Analysis):
    """The battles of all models with `recorded: battles`, whose prompts hold the preferences."""

    name = "battles"
    measure = staticmethod(measure)
    mem_mb = 4000

    def wanted(self) -> bool:
        return bool(self._models())

    def inputs(self) -> dict[str, list[str]]:
        params = self.params()
        return {"scores": self.score_files(params["cells"]), "prompts": self.prompt_files(params["splits"])}

    def params(self) -> dict[str, Any]:
        study = self.study
        cells = [[judge, model, split] for judge in study.judges for model in self._models() for split in study.splits]
        return {"cells": sorted(cells), "splits": sorted(study.splits)}

    def _models(self) -> list[str]:
        return [name for name, model in self.study.models.items() if model.recorded == IN_ROWS]
