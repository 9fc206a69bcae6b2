"""What the rules in workflow/rules/judge_cards.smk ask: calibrations, cards and floors of judges, and all together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refusal_eval.study.paths import Paths
from refusal_eval.workflow.scoring import protocol_label
from refusal_eval.workflow.whole_study import sources_of

FORMATS = {"tables": ("csv", "md", "tex"), "figures": ("pdf", "svg", "png")}


class JudgeCards:
    """How far each judge of a study can be trusted.

    Args:
        config: the validated study.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._results = Paths(config).results
        self._judges, self._gold = sorted(config["judges"]), sorted(config["gold"])
        self._cells = [
            [judge, model, split]
            for judge in self._judges
            for model in sorted(config["models"])
            for split in config["splits"]
        ]

    def calibration(self, wildcards: Any) -> dict[str, Any]:
        """Return what, besides gold and verdicts, decides a judge's calibration."""
        return {"judge": wildcards.judge, "gold": wildcards.gold, "level": self._config["scoring"]["level"]}

    def cards(self, wildcards: Any) -> list[str]:
        """Return the cards of all judges on all gold."""
        return [f"{self._results}/judge_cards/{judge}/{gold}.json" for judge in self._judges for gold in self._gold]

    def presentation(self, wildcards: Any) -> dict[str, Any]:
        """Return judges and gold, their order and their labels, for tables and figures."""
        return {
            "judges": list(self._config["judges"]),
            "gold": list(self._config["gold"]),
            **protocol_label(self._config),
            "labels": {"judges": self._labels("judge_entries"), "golds": self._labels("gold_entries")},
        }

    def drawn(self, wildcards: Any) -> dict[str, Any]:
        """Return the same for the figure of a judge's card, with the threshold of the judge's own, if any."""
        entry = self._config["judge_entries"][wildcards.judge]
        own, used = entry.get("threshold"), entry["kind"] != "panel" or entry["rule"] == "mean"
        return {**self.presentation(wildcards), "threshold": own if used and isinstance(own, float | int) else None}

    def prompts(self, wildcards: Any) -> list[str]:
        """Return the prompts of all splits, in the study's order."""
        return [f"{self._results}/prompts/{split}.jsonl" for split in self._config["splits"]]

    def verdicts(self, wildcards: Any) -> list[str]:
        """Return the verdicts of all judges on all cells."""
        return [f"{self._results}/verdicts/{'/'.join(cell)}.jsonl" for cell in self._cells]

    def scores(self, wildcards: Any) -> list[str]:
        """Return the scores per prompt of all cells under all judges."""
        return [f"{self._results}/scores/{'/'.join(cell)}.csv" for cell in self._cells]

    def summaries(self, wildcards: Any) -> list[str]:
        """Return the summaries of the same cells."""
        return [f"{self._results}/scores/{'/'.join(cell)}.json" for cell in self._cells]

    def comparison(self, wildcards: Any) -> dict[str, Any]:
        """Return what, besides verdicts and scores, decides how judges agree."""
        entries = self._config["split_entries"]
        shown = self.presentation(wildcards)
        labels = {"models": self._labels("model_entries"), "splits": self._labels("split_entries")}
        study = shown | {
            "labels": shown["labels"] | labels,
            "splits": list(self._config["splits"]),
            "headlines": {split: entries[split]["headline"] for split in self._config["splits"]},
            "expectations": {split: entries[split]["expectation"] for split in self._config["splits"]},
            "sources": sources_of(self._config),
            "level": self._config["scoring"]["level"],
            "members": self._members(),
        }
        return {"cells": self._cells, "study": study}

    def floors(self, wildcards: Any) -> dict[str, Any]:
        """Return the floors that judges must reach, by judge."""
        entries = self._config["judge_entries"]
        floors = {judge: dict(entries[judge]["floor"]) for judge in self._judges if entries[judge].get("floor")}
        return {"floors": floors}

    def results(self, wildcards: Any) -> list[str]:
        """Return the tables and figures of judges that a study has: cards with gold, agreement with two judges."""
        stems = [("tables", "judge_cards")] if self._gold else []
        stems += [("figures", f"judge_cards/{judge}/{gold}") for judge in self._judges for gold in self._gold]
        if len(self._judges) > 1:
            stems.append(("tables", "judges_agree"))
        files = [f"{self._results}/{kind}/{stem}.{end}" for kind, stem in stems for end in FORMATS[kind]]
        disputed = [f"{self._results}/tables/judges_disagree.csv"] if len(self._judges) > 1 else []
        return files + disputed

    def targets(self, wildcards: Any) -> list[str]:
        """Return what a run makes, the check of floors last."""
        floor = [f"{self._results}/judge_cards/floors.json"] if self.floors(wildcards)["floors"] else []
        return self.results(wildcards) + floor

    def _members(self) -> dict[str, list[str]]:
        """Return whose opinions each panel of the study is made of."""
        entries = self._config["judge_entries"]
        return {judge: list(entries[judge]["members"]) for judge in self._judges if entries[judge]["kind"] == "panel"}

    def _labels(self, section: str) -> dict[str, str]:
        return {name: entry["label"] or name for name, entry in self._config[section].items()}
