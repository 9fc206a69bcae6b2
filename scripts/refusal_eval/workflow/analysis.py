"""Analyses: what is computed from all cells of a study in one job, and what that job is made of.

An analysis is one class in the folder of its feature. `ANALYSES` (config/kinds.py) finds it and the rule `analysis`
runs it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from refusal_eval.config.kinds import ANALYSES
from refusal_eval.study.files import needed_files
from refusal_eval.study.study import Study
from refusal_eval.workflow.whole_study import cells_of, splits_of

if TYPE_CHECKING:
    from refusal_eval.stats.estimates.estimate import Estimate

Files = Mapping[str, Sequence[str]]  # paths by noun


class Analysis:
    """One analysis of a study, which writes estimates/{name}.json.

    Attributes:
        name: name of its file, and of the analysis wherever it is named.
        mem_mb: the memory that its job asks for.
    """

    name: ClassVar[str]
    mem_mb: ClassVar[int] = 2000

    def __init__(self, study: Study) -> None:
        self.study = study

    def wanted(self) -> bool:
        """Return whether the study has it."""
        return True

    def megabytes(self) -> int:
        """Return the memory that its job asks for, in MB."""
        return self.mem_mb

    def own_files(self) -> list[str]:
        """Return the user's files, of no rule, that decide its numbers."""
        return []

    def own_estimates(self) -> list[str]:
        """Return the user's files of estimates that go into the results table with its own."""
        return []

    def inputs(self) -> dict[str, list[str]]:
        """Return the files that it reads, by noun."""
        raise NotImplementedError

    def params(self) -> dict[str, Any]:
        """Return what decides its numbers besides the content of its files; no labels, which may change freely."""
        raise NotImplementedError

    @staticmethod
    def measure(files: Files, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the content of its file: rows of the results table as `estimates`, and what else it found.

        It is best a function of another module than the class, as the job reruns when the code behind it changes.

        Args:
            files: what `inputs` named.
            params: what `params` returned.
        """
        raise NotImplementedError

    @staticmethod
    def methods_words(results: Sequence[Estimate]) -> dict[str, Any]:
        """Return what `methods.j2` beside its class says of its numbers, other than which estimands there are.

        Args:
            results: all numbers of the study.
        """
        return {}

    def table_params(self) -> dict[str, Any]:
        """Return what tables of it show of the study besides names and labels."""
        return {}

    def score_files(self, cells: Iterable[Sequence[str]]) -> list[str]:
        """Return the scores of cells (judge, model, split)."""
        return [self.study.paths.of("scores", judge=judge, model=model, split=split) for judge, model, split in cells]

    def prompt_files(self, splits: Iterable[str]) -> list[str]:
        """Return the prompts of splits."""
        return [self.study.paths.of("prompts", split=split) for split in splits]

    def duplicate_files(self) -> list[str]:
        """Return the file of near-duplicates among the study's prompts, as a list."""
        return [self.study.paths.of("duplicates")]

    def all_cells(self) -> dict[str, Any]:
        """Return what decides the numbers of an analysis of all cells, besides their scores."""
        study = self.study
        return {
            "models": list(study.models),
            "judges": study.view.whole_judges,
            "gold": list(study.gold),
            "samples": study.settings.samples,
            "splits": splits_of(study),
            "cells": cells_of(study),
            "level": study.settings.scoring.level,
        }


def measuring_module(name: str) -> Path:
    """Return the file with the numbers of an analysis, for `code_version`."""
    return Path(str(sys.modules[ANALYSES.get(name).measure.__module__].__file__))


def estimate_files(study: Study) -> list[str]:
    """Return the files of estimates of a study, each `{"estimates": [...], ...}`."""
    found = needed_files(study, ["estimates", *study.analyses], judge=study.judges, model=study.models)
    return [path for files in found.values() for path in files]
