"""Refusal tokens: what models answer at each threshold on the probability of their refusal tokens."""

from typing import Any

from refusal_eval.features.refusal_tokens.measure_tokens import measure
from refusal_eval.features.refusal_tokens.token_files import token_families
from refusal_eval.features.refusal_tokens.token_keys import TokenChoice, TokenChoiceKeys, branch_of
from refusal_eval.workflow.analysis import Analysis
from refusal_eval.workflow.whole_study import sources_of


class RefusalTokensAnalysis(Analysis):
    """The models of a study that have refusal tokens."""

    name = "refusal_tokens"
    measure = staticmethod(measure)
    mem_mb = 4000

    def wanted(self) -> bool:
        return bool(token_families(self.study))

    def inputs(self) -> dict[str, list[str]]:
        params = self.params()
        tokens = [
            self.study.paths.of("token_probabilities", model=name, split=split) for name, split in params["tokens"]
        ]
        return {"scores": self.score_files(params["cells"]), "token_probabilities": tokens}

    def params(self) -> dict[str, Any]:
        study, families = self.study, self._branches()
        of_branches = {model for branches in families.values() for model in branches.values()}
        cells = [[cell.judge, cell.model, cell.split] for cell in study.cells if cell.model in of_branches]
        sources = sources_of(study)
        choice = TokenChoiceKeys.of(study.settings).refusal_tokens or TokenChoice()
        return {
            "families": families,
            "judges": sorted(study.judges),
            "sources": {split: sources[split] for split in sorted(study.splits)},
            "cells": sorted(cells),
            "tokens": sorted([family, split] for family in families for split in study.splits),
            "thresholds": choice.thresholds,
            "temperatures": choice.temperatures,
        }

    def _branches(self) -> dict[str, dict[str, str]]:
        """Return the model of each branch, by family and by the branch's name; `respond` comes last."""
        found = {}
        for family, models in token_families(self.study).items():
            tokens = branch_of(self.study.models[models[0]])
            assert tokens is not None
            found[family] = {name: f"{family}.{name}" for name in tokens.tokens}
        return found
