"""How much the prompts of the splits repeat each other that a study names."""

from typing import Any

from refusal_eval.features.diversity.diversity_keys import DiversityKeys
from refusal_eval.features.diversity.measure_diversity import measure
from refusal_eval.workflow.analysis import Analysis


class DiversityAnalysis(Analysis):
    """All splits under `diversity`."""

    name = "diversity"
    measure = staticmethod(measure)

    def wanted(self) -> bool:
        return bool(self._splits())

    def inputs(self) -> dict[str, list[str]]:
        return {"prompts": self.prompt_files(self._splits())}

    def params(self) -> dict[str, Any]:
        return {"splits": self._splits(), "level": self.study.settings.scoring.level}

    def table_params(self) -> dict[str, Any]:
        return {"diverse": self._splits(), "level": self.study.settings.scoring.level}

    def _splits(self) -> list[str]:
        return DiversityKeys.of(self.study.settings).diversity
