"""Differences of models, and of judges, on the same prompts, with tests corrected over each family."""

import dataclasses
from typing import Any

from refusal_eval.features.comparisons.compare_cells import measure, methods_words
from refusal_eval.features.comparisons.comparisons_keys import ComparisonsKeys
from refusal_eval.features.comparisons.study_families import study_families
from refusal_eval.workflow.analysis import Analysis
from refusal_eval.workflow.whole_study import may_block, splits_of


class ComparisonsAnalysis(Analysis):
    """The families of pairs that the study names."""

    name = "comparisons"
    measure = staticmethod(measure)
    methods_words = staticmethod(methods_words)

    def wanted(self) -> bool:
        return bool(study_families(self.study))

    def inputs(self) -> dict[str, list[str]]:
        pools = any(scope.pool for family in study_families(self.study) for scope in family.scopes)
        return {
            "scores": self.score_files(self.params()["cells"]),
            "duplicates": self.duplicate_files() if pools else [],
        }

    def params(self) -> dict[str, Any]:
        study, families = self.study, study_families(self.study)
        return {
            "cells": sorted([*cell] for cell in {cell for family in families for cell in family.cells()}),
            "families": [dataclasses.replace(family, label="").as_dict() for family in families],
            "samples": study.settings.samples,
            "level": study.settings.scoring.level,
            "margin": study.settings.equivalence_margin,
            "p_values": ComparisonsKeys.of(study.settings).p_values,
            "correction": ComparisonsKeys.of(study.settings).multiple_comparisons,
            "splits": sorted(splits_of(study), key=lambda split: split["name"]),
            **may_block(study),
        }

    def table_params(self) -> dict[str, Any]:
        families = [family.as_dict() for family in study_families(self.study)]
        settings = self.study.settings
        correction = ComparisonsKeys.of(settings).multiple_comparisons
        return {"correction": correction, "families": families, "level": settings.scoring.level}
