"""Choices of a configuration among models."""

from typing import Any

from refusal_eval.features.choices.choices_keys import ChoicesKeys
from refusal_eval.features.choices.make_choices import cells_read, measure
from refusal_eval.workflow.analysis import Analysis
from refusal_eval.workflow.whole_study import sources_of


class ChoicesAnalysis(Analysis):
    """The choices that a study names."""

    name = "choices"
    measure = staticmethod(measure)

    def wanted(self) -> bool:
        return bool(ChoicesKeys.of(self.study.settings).choices)

    def inputs(self) -> dict[str, list[str]]:
        return {"scores": self.score_files(cells_read(self.params()))}

    def params(self) -> dict[str, Any]:
        study = self.study
        choices = [choice.model_dump(mode="json") for choice in ChoicesKeys.of(study.settings).choices]
        primary = study.settings.primary_judge
        sources = sources_of(study)
        splits = {split for choice in choices for split in (*choice["refusals"], *choice["others"])}
        return {
            "choices": [choice | {"judge": choice["judge"] or primary} for choice in choices],
            "sources": {name: sources[name] for name in sorted(splits)},
            "samples": study.settings.samples,
            "level": study.settings.scoring.level,
        }

    def table_params(self) -> dict[str, Any]:
        params = self.params()
        return {"choices": params["choices"], "level": params["level"]}
