"""Refusal rates corrected for the judge's errors: by gold of other models, and by labels on the study's own answers."""

from pathlib import Path
from typing import Any

from refusal_eval.features.corrected.correct_rates import measure, methods_words
from refusal_eval.features.corrected.corrected_keys import CorrectedKeys
from refusal_eval.study.batches import GOLD
from refusal_eval.workflow.analyses_stage import foreign_calibrations, measured
from refusal_eval.workflow.analysis import Analysis
from refusal_eval.workflow.rule_files import content_hash


class CorrectedAnalysis(Analysis):
    """The corrected rates of a study with gold, or with labels of people."""

    name = "corrected"
    measure = staticmethod(measure)
    methods_words = staticmethod(methods_words)

    def wanted(self) -> bool:
        return bool(self.study.gold or self.own_files())

    def own_files(self) -> list[str]:
        corrected = CorrectedKeys.of(self.study.settings).corrected
        return [corrected.labels] if corrected is not None else []

    def own_estimates(self) -> list[str]:
        # The agreement of people, written with the labels; labels of another origin have none.
        written_with = [Path(path).with_name("agreement.json") for path in self.own_files()]
        return [str(path) for path in written_with if path.is_file()]

    def inputs(self) -> dict[str, list[str]]:
        study, of, labels = self.study, self.study.paths.of, self.own_files()
        pairs = [(on["judge"], on["gold"]) for on in measured(study)]
        cells = [(model, split) for model in study.models for split in study.splits] if labels else []
        return {
            "scores": self.score_files(self.params()["cells"]),
            "gold": [of("gold", gold=gold) for _, gold in pairs],
            "gold_verdicts": [of("verdicts", judge=judge, model=GOLD, split=gold) for judge, gold in pairs],
            # One for each pair of a judge and a gold set on which its calibration is another gold set's.
            "calibrations": [of("calibration", judge=judge, gold=gold) for judge, gold in foreign_calibrations(study)],
            "labels": labels,
            "answers": [of("answers", model=model, split=split) for model, split in cells],
            "duplicates": self.duplicate_files(),
        }

    def table_params(self) -> dict[str, Any]:
        return {"level": self.study.settings.scoring.level}

    def params(self) -> dict[str, Any]:
        # Labels can be replaced by an older file.
        labels = [content_hash(path) for path in self.own_files()]
        return self.all_cells() | {"measured": measured(self.study), "labels_sha256": labels}
