"""What refusals cost in battles: win rates by class, penalties and what moderates them, and moderation bias."""

from typing import Any

from refusal_eval.core.recorded_files import IN_ROWS
from refusal_eval.features.battles.battles_keys import BattlesKeys
from refusal_eval.features.battles.classing_judges import classing_judges
from refusal_eval.features.battles.measure_battles import measure
from refusal_eval.judges.wildguard_judge import PROMPT_HARM
from refusal_eval.study.study import Study
from refusal_eval.workflow.analysis import Analysis


class BattlesAnalysis(Analysis):
    """The battles of all models with `recorded: battles`, whose prompts hold the preferences."""

    name = "battles"
    measure = staticmethod(measure)
    mem_mb = 4000

    def wanted(self) -> bool:
        return bool(self._models())

    def inputs(self) -> dict[str, list[str]]:
        params = self.params()
        found = {"scores": self.score_files(params["cells"]), "prompts": self.prompt_files(params["splits"])}
        if flagged := params.get("flagged"):
            judge, of = params["flagging"], self.study.paths.of
            found["verdicts"] = [of("verdicts", judge=judge, model=model, split=split) for model, split in flagged]
        return found

    def params(self) -> dict[str, Any]:
        study = self.study
        models = self._models()
        pairs = [(judge, model) for judge, model in study.read_pairs if model in models]
        cells = [[judge, model, split] for judge, model in pairs for split in study.splits]
        asked: dict[str, Any] = {"cells": sorted(cells), "splits": sorted(study.splits)}
        # Where no column says which questions are sensitive, the first judge that flags harmful ones does.
        flagging = [name for name, judge in study.judges.items() if PROMPT_HARM in judge.flags(study.view)]
        unsaid = [name for name in sorted(study.splits) if _without_column(study, name)]
        if flagging and unsaid:
            flagged = [[model, split] for model in self._models() for split in unsaid]
            asked |= {"flag": PROMPT_HARM, "flagging": flagging[0], "flagged": flagged}
        return asked

    def table_params(self) -> dict[str, Any]:
        study = self.study
        return {"primary_judge": study.primary_judge, "classed_by": classing_judges(study.view)}

    def _models(self) -> list[str]:
        return [name for name, model in self.study.models.items() if model.recorded == IN_ROWS]


def _without_column(study: Study, split: str) -> bool:
    battles = BattlesKeys.of(study.splits[split]).battles
    return battles is not None and battles.sensitive is None
