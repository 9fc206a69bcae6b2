"""The prompts that models with attention steering were asked as they are."""

from typing import Any

from refusal_eval.features.attention.attention_entry import attention_of
from refusal_eval.features.attention.measure_unsteered import measure, methods_words
from refusal_eval.workflow.analysis import Analysis


class AttentionAnalysis(Analysis):
    """All cells of a study with models whose attention is steered."""

    name = "attention"
    measure = staticmethod(measure)
    methods_words = staticmethod(methods_words)

    def _cells(self) -> list[list[str]]:
        models = self.study.models
        return [
            [name, split, asked.span]
            for name in sorted(self.study.asked_models)
            if (asked := attention_of(models[name])) is not None
            for split in sorted(self.study.splits)
        ]

    def wanted(self) -> bool:
        return bool(self._cells())

    def inputs(self) -> dict[str, list[str]]:
        paths, cells = self.study.paths, self._cells()
        return {
            "requests": [paths.of("requests", model=model, split=split) for model, split, _ in cells],
            "prompts": [paths.of("prompts", split=split) for _, split, _ in cells],
        }

    def params(self) -> dict[str, Any]:
        return {"cells": self._cells()}
