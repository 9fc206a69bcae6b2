"""Differences of models, and of judges, on the same prompts, with tests corrected over each family."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.core.files import read_json
from refusal_eval.stats.comparisons.study_comparisons import compared, estimates
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.units import dialogue_splits, read_units
from refusal_eval.study.comparison_families import family_of
from refusal_eval.study.study_families import study_families
from refusal_eval.workflow.analysis import Analysis, Files
from refusal_eval.workflow.whole_study import splits_of


class ComparisonsAnalysis(Analysis):
    """The families of pairs that the study names."""

    name = "comparisons"

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
            "p_values": study.settings.p_values,
            "correction": study.settings.multiple_comparisons,
            "splits": sorted(splits_of(study), key=lambda split: split["name"]),
        }

    @classmethod
    def methods_words(cls, results: Sequence[Estimate]) -> dict[str, Any]:
        tests = [e for e in results if e.estimand == "rate_difference_p" and e.value is not None]
        judges = {str(test.parameter).startswith("minus judge ") for test in tests}
        return {"compared": [noun for noun, of_judges in (("models", False), ("judges", True)) if of_judges in judges]}

    @classmethod
    def measure(cls, files: Files, params: Mapping[str, Any]) -> dict[str, Any]:
        cells = [(judge, model, split) for judge, model, split in params["cells"]]
        units = {cell: read_units(path, keep_samples=False) for cell, path in zip(cells, files["scores"], strict=True)}
        duplicates = [pair for path in files["duplicates"] for pair in read_json(path)["pairs"]]
        rows = compared([family_of(family) for family in params["families"]], units, params, duplicates)
        return {
            "estimates": [estimate.row() for estimate in estimates(rows, params)],
            "comparisons": rows,
            "level": params["level"],
            "dialogues": dialogue_splits(units),
        }
