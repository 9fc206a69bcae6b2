"""What refusals cost in battles: win rates by class, penalties, and moderation bias."""

from collections.abc import Mapping
from typing import Any

from refusal_eval.core.files import read_jsonl
from refusal_eval.core.recorded_files import BATTLES
from refusal_eval.features.battles.penalties import battle_estimates
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.units import read_units
from refusal_eval.workflow.analysis import Analysis, Files


class BattlesAnalysis(Analysis):
    """The battles of all models with `recorded: battles`, whose prompts hold the preferences."""

    name = "battles"
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
        return [name for name, model in self.study.models.items() if model.recorded == BATTLES]

    @classmethod
    def measure(cls, files: Files, params: Mapping[str, Any]) -> dict[str, Any]:
        splits = zip(params["splits"], files["prompts"], strict=True)
        prompts = {split: list(read_jsonl(path)) for split, path in splits}
        found: list[Estimate] = []
        for path, (_, _, split) in zip(files["scores"], params["cells"], strict=True):
            found += battle_estimates(read_units(path), prompts[split])
        return {"estimates": [estimate.row() for estimate in found]}
