"""The prompts that transformed models were asked with their own text."""

from typing import Any

from refusal_eval.features.transforms.measure_untransformed import measure, methods_words
from refusal_eval.features.transforms.transform_files import transforms_of
from refusal_eval.workflow.analysis import Analysis


class TransformsAnalysis(Analysis):
    """All cells of a study with models whose prompts are changed."""

    name = "transforms"
    measure = staticmethod(measure)
    methods_words = staticmethod(methods_words)

    def _cells(self) -> list[list[str]]:
        models = [name for name in sorted(transforms_of(self.study)) if name in self.study.models]
        models = [name for name in models if not self.study.models[name].recorded]
        return [[model, split] for model in models for split in sorted(self.study.splits)]

    def wanted(self) -> bool:
        return bool(self._cells())

    def inputs(self) -> dict[str, list[str]]:
        return {"transformed": [self.study.paths.of("transformed", model=m, split=s) for m, s in self._cells()]}

    def params(self) -> dict[str, Any]:
        return {"cells": self._cells()}
