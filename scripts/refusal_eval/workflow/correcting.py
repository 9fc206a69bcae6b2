"""What the rule in workflow/rules/corrected.smk asks: scores, gold with verdicts on it, and labels of people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refusal_eval.study.study import Study
from refusal_eval.workflow.content import content_hash
from refusal_eval.workflow.scoring import calibrated_on, calibration_file
from refusal_eval.workflow.whole_study import WholeStudy

OUT_OF_FOLD = "out_of_fold"
FOREIGN = "foreign"  # calibrated on another gold set than the one it is measured on


class Correcting(WholeStudy):
    """Rates corrected for the judge's errors.

    Args:
        config: the validated study.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self._measured = [
            {"judge": judge, "gold": gold, "calibrate": self._calibrate(judge, gold)}
            for judge in config["judges"]
            for gold in config["gold"]
        ]

    def gold(self, wildcards: Any) -> list[str]:
        """Return the gold of each judge and gold set."""
        return [f"{self._results}/gold/{entry['gold']}.jsonl" for entry in self._measured]

    def gold_verdicts(self, wildcards: Any) -> list[str]:
        """Return the verdicts of each judge on each gold set."""
        return [f"{self._results}/verdicts/{entry['judge']}/gold/{entry['gold']}.jsonl" for entry in self._measured]

    def calibrations(self, wildcards: Any) -> list[str]:
        """Return the calibration of each judge that is calibrated on another gold set, one for each gold set."""
        judges = [entry["judge"] for entry in self._measured if entry["calibrate"] == FOREIGN]
        study = Study(self._config)
        return [calibration_file(study, judge, str(calibrated_on(study, judge))) for judge in judges]

    def labels(self, wildcards: Any) -> list[str]:
        """Return the labels of people on this study's answers, as a list for `input`."""
        path = (self._config["corrected"] or {}).get("labels")
        return [path] if path else []

    def verdicts(self, wildcards: Any) -> list[str]:
        """Return the verdicts on all cells where there are labels of people to compare them with."""
        if not self.labels(wildcards):
            return []
        return [f"{self._results}/verdicts/{'/'.join(cell)}.jsonl" for cell in self._cells]

    def answers(self, wildcards: Any) -> list[str]:
        """Return the answers to all splits of each model where people labelled some of them."""
        if not self.labels(wildcards):
            return []
        models, splits = self._config["models"], self._config["splits"]
        return [f"{self._results}/answers/{model}/{split}.jsonl" for model in models for split in splits]

    def study(self, wildcards: Any) -> dict[str, Any]:
        """Return what, besides files, decides the corrected rates."""
        labels = [content_hash(path) for path in self.labels(wildcards)]
        return self._computed() | {"measured": self._measured, "labels_sha256": labels}

    def targets(self, wildcards: Any) -> list[str]:
        """Return what a run makes; nothing for a study with neither gold nor labels."""
        return self._made("corrected") if self._measured or self.labels(wildcards) else []

    def _calibrate(self, judge: str, gold: str) -> str | None:
        fitted_on = calibrated_on(Study(self._config), judge)
        return None if fitted_on is None else OUT_OF_FOLD if fitted_on == gold else FOREIGN
