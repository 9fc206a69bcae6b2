"""What the rules in workflow/rules/score.smk ask: what decides a cell's numbers, and a judge's card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refusal_eval.config.datasets import SCORED_BY_DEFAULT
from refusal_eval.study.paths import Paths
from refusal_eval.study.study import Study


def protocol_label(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the protocol for what shows it; nothing for the default one."""
    return {} if config["protocol"] == "default" else {"protocol": config["protocol"]}


class Scoring:
    """From answers and verdicts to numbers.

    Args:
        config: the validated study.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._study = Study(config)

    def cell(self, wildcards: Any) -> dict[str, Any]:
        """Return what, besides answers and verdicts, decides a cell's numbers."""
        split = self._config["split_entries"][wildcards.split]
        dialogue = split.get("dialogue")
        turns = {"scored": dialogue["scored"] or SCORED_BY_DEFAULT[dialogue["mode"]]} if dialogue else {}
        return {
            "judge": wildcards.judge,
            "model": wildcards.model,
            "split": wildcards.split,
            "expectation": split["expectation"],
            "headline": split["headline"],
            "samples": self._config["samples"],
            "max_tokens": self._config["model_entries"][wildcards.model]["sampling"]["max_tokens"],
            **self._config["scoring"],
            **turns,
            **protocol_label(self._config),
            **self._noticed(wildcards.judge),
        }

    def _noticed(self, judge: str) -> dict[str, Any]:
        """Return what is counted of a judge's verdicts beside its labels; nothing for most."""
        entry = self._study.judges[judge]
        flags = entry.flags(self._study.of_judges)
        again = entry.way == "engine" and entry.votes_asked().retries > 0
        return ({"judge_flags": flags} if flags else {}) | ({"votes_asked_again": True} if again else {})

    def published_reading(self, wildcards: Any) -> dict[str, Any]:
        """Return what decides how the published code reads a model's responses."""
        entry = self._config["model_entries"][wildcards.model]
        engine = self._config["engine_entries"][entry["engine"]]
        return {
            "end_mark": (entry["reasoning"] or {}).get("end"),
            "trust_remote_code": engine["trust_remote_code"],
        }

    def published_cell(self, wildcards: Any) -> dict[str, Any]:
        """Return what, besides its files, decides a cell's published scores."""
        cell = self.cell(wildcards)
        names = ("judge", "model", "split", "samples", "tau", "band")
        return {name: cell[name] for name in names} | {"scored": cell.get("scored")}

    def published(self, wildcards: Any) -> list[str]:
        """Return the published scores of a cell where its c(x) is to be those, as a list for `input`."""
        if self._config["protocol"] == "default":
            return []
        cell = f"{wildcards.judge}/{wildcards.model}/{wildcards.split}"
        return [f"{Paths(self._config).results}/published/scores/{cell}.json"]

    def card(self, wildcards: Any) -> dict[str, Any]:
        """Return what, besides gold and verdicts, decides a judge's card."""
        gold = self._config["gold_entries"][wildcards.gold]
        judge = self._study.judges[wildcards.judge]
        calibrated = judge.threshold_on_gold(self._study.of_judges)
        more: dict[str, Any] = {"calibrated_on": calibrated} if calibrated else {}
        if wildcards.gold in judge.learned_from(self._study.of_judges):
            more["fitted_here"] = True
        return {
            "judge": wildcards.judge,
            "gold": wildcards.gold,
            "raters": gold["raters"],
            "human_kappa": gold.get("human_kappa"),
            "anchors": list(gold.get("anchors") or []),
            "level": self._config["scoring"]["level"],
        } | more

    def foreign_calibration(self, wildcards: Any) -> list[str]:
        """Return the calibration behind a judge's card, as a list for `input`, where another gold set gives it."""
        gold = self._study.judges[wildcards.judge].threshold_on_gold(self._study.of_judges)
        return [] if gold in (None, wildcards.gold) else [calibration_file(self._config, wildcards.judge, str(gold))]


def calibrated_on(config: Mapping[str, Any], judge: str) -> str | None:
    """Return the gold set that a judge's threshold is fitted on, None for a threshold of its own."""
    study = Study(config)
    gold: str | None = study.judges[judge].threshold_on_gold(study.of_judges)
    return gold


def calibration_file(config: Mapping[str, Any], judge: str, gold: str) -> str:
    """Return the file with the calibration of a judge on a gold set."""
    return f"{Paths(config).results}/calibration/{judge}/{gold}.json"
