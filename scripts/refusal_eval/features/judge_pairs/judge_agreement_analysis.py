"""What the judges of a study say of the same answers."""

from collections.abc import Mapping
from typing import Any

from refusal_eval.features.judge_pairs.compare_judges import measure, methods_words
from refusal_eval.workflow.analyses_stage import asking_the_same
from refusal_eval.workflow.analysis import Analysis
from refusal_eval.workflow.whole_study import cells_of, splits_of


class JudgeAgreementAnalysis(Analysis):
    """Agreement of every two judges and of all, the order of the models under each, and the answers in dispute."""

    name = "judge_agreement"
    measure = staticmethod(measure)
    methods_words = staticmethod(methods_words)
    mem_mb = 4000

    def wanted(self) -> bool:
        return len(self.study.view.whole_judges) > 1

    def inputs(self) -> dict[str, list[str]]:
        return {"scores": self.score_files(self.params()["cells"]), "duplicates": self.duplicate_files()}

    def params(self) -> dict[str, Any]:
        twins = asking_the_same(self.study)
        found = {
            "splits": splits_of(self.study),
            "level": self.study.settings.scoring.level,
            "cells": sorted(cells_of(self.study)),
            "members": {
                name: members
                for name in sorted(self.study.view.whole_judges)
                if (members := self._members(name, twins))
            },
        }
        return found | ({"twins": twins} if twins else {})

    def _members(self, name: str, twins: Mapping[str, str]) -> list[str]:
        """Return the judges whose opinions a judge's own is made of, with those that these are made of.

        That is the other one, of two that ask the same.
        """
        judge = self.study.judges.get(name)
        own = [*judge.reads(), *filter(None, [judge.second(), twins.get(name)])] if judge is not None else []
        return list(dict.fromkeys([*own, *(other for member in own for other in self._members(member, twins))]))
