"""What the rules in workflow/rules/score.smk ask: what decides a cell's numbers, and a judge's card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SCORED_BY_DEFAULT = {"cumulative": "all", "independent": "last"}


class Scoring:
    """From answers and verdicts to numbers.

    Args:
        config: the validated study.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config

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
        }

    def card(self, wildcards: Any) -> dict[str, Any]:
        """Return what, besides gold and verdicts, decides a judge's card."""
        return {
            "judge": wildcards.judge,
            "gold": wildcards.gold,
            "raters": self._config["gold_entries"][wildcards.gold]["raters"],
            "level": self._config["scoring"]["level"],
        }
