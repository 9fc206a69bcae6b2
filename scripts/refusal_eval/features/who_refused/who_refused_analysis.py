"""Who refused: the model in its text, or another party that blocked prompt or answer."""

from typing import Any

from refusal_eval.features.who_refused.measure_refusers import measure, methods_words
from refusal_eval.workflow.analysis import Analysis


class WhoRefusedAnalysis(Analysis):
    """All cells of a study with a model that another party serves, who may block."""

    name = "who_refused"
    measure = staticmethod(measure)
    methods_words = staticmethod(methods_words)

    def wanted(self) -> bool:
        return self.study.may_block

    def inputs(self) -> dict[str, list[str]]:
        return {"scores": self.score_files(self.params()["cells"])}

    def params(self) -> dict[str, Any]:
        return {"cells": sorted(self.all_cells()["cells"])}
