"""What the rules in workflow/rules/report.smk ask: all scores and cards of a study, and what it makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from refusal_eval.study.batches import Cell
from refusal_eval.study.paths import Paths
from refusal_eval.workflow.scoring import protocol_label

TABLES = ("refusal", "categories", "scores", "states", "votes", "judges")


class Reporting:
    """From scores to tables and the manifest; the files of the whole study, whatever the wildcards.

    Args:
        config: the validated study.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._results = Paths(config).results
        self._engine_file, self._adapter_file = Paths(config).engine, Paths(config).adapter
        self._cells = [Cell(model, split) for model in config["models"] for split in config["splits"]]

    def scores(self, wildcards: Any) -> list[str]:
        """Return the summaries of all cells under all judges."""
        return self._scores("json", sorted(self._config["judges"]))

    def cards(self, wildcards: Any) -> list[str]:
        """Return the cards of all judges on all gold."""
        judges, gold = sorted(self._config["judges"]), sorted(self._config["gold"])
        return [f"{self._results}/judge_cards/{judge}/{name}.json" for judge in judges for name in gold]

    def presentation(self, wildcards: Any) -> dict[str, Any]:
        """Return names, their order and their labels; the lists are params, so that a model taken away is noticed."""
        names = ("models", "splits", "judges", "gold", "primary_judge")
        return {name: self._config[name] for name in names} | {
            "band": self._config["scoring"]["band"],
            "tau": self._config["scoring"]["tau"],
            **protocol_label(self._config),
            "labels": {
                "models": self._labels("model_entries"),
                "splits": self._labels("split_entries"),
                "judges": self._labels("judge_entries"),
                "golds": self._labels("gold_entries"),
            },
        }

    def engines(self, wildcards: Any) -> list[str]:
        """Return the identity files of all engines."""
        return [self._engine_file(name) for name in sorted(self._config["engine_entries"])]

    def adapters(self, wildcards: Any) -> list[str]:
        """Return the identity files of all LoRA adapters."""
        entries = self._config["model_entries"]
        return [self._adapter_file(name) for name in sorted(entries) if entries[name].get("lora")]

    def data(self, wildcards: Any) -> list[str]:
        """Return the files that answers, verdicts and cards were made from."""
        cells = [f"{cell.model}/{cell.split}" for cell in self._cells]
        names = [
            *(f"prompts/{split}" for split in self._config["splits"]),
            *(f"gold/{gold}" for gold in self._config["gold"]),
            *(f"answers/{cell}" for cell in cells),
            *(f"verdicts/{judge}/{cell}" for judge in self._config["judges"] for cell in cells),
        ]
        return [f"{self._results}/{name}.jsonl" for name in names]

    def in_between(self, wildcards: Any) -> list[str]:
        """Return what tables and figures are made from; asked for as well, so that what is deleted is made again."""
        gold, judges = sorted(self._config["gold"]), sorted(self._config["judges"])
        of_gold = [f"answers/gold/{name}" for name in gold]
        of_gold += [f"verdicts/{judge}/gold/{name}" for judge in judges for name in gold]
        return [
            *self.data(wildcards),
            *(f"{self._results}/{name}.jsonl" for name in of_gold),
            *(file for ending in ("csv", "json", "npz") for file in self._scores(ending, judges)),
        ]

    def targets(self, wildcards: Any) -> list[str]:
        """Return what a run makes: tables and the manifest."""
        return [
            *self.tables("csv", "md", "tex"),
            f"{self._results}/manifest.json",
            *self.protocol_effects("csv", "md", "tex"),
        ]

    def protocol_effects(self, *endings: str) -> list[str]:
        """Return the table of what the published choices do in these formats, where the study has it."""
        wanted = "protocol_effects" in self._config["tables"] or self._config["protocol"] == "compat"
        return [f"{self._results}/tables/protocol_effects.{ending}" for ending in endings] if wanted else []

    def published_scores(self, wildcards: Any) -> list[str]:
        """Return the published scores of all cells under all judges."""
        cells = [f"{cell.model}/{cell.split}" for cell in sorted(self._cells)]
        judges = sorted(self._config["judges"])
        return [f"{self._results}/published/scores/{judge}/{cell}.json" for judge in judges for cell in cells]

    def tables(self, *endings: str) -> list[str]:
        """Return the tables in these formats."""
        return [f"{self._results}/tables/{name}.{ending}" for name in TABLES for ending in endings]

    def _scores(self, ending: str, judges: Iterable[str]) -> list[str]:
        cells = [f"{cell.model}/{cell.split}" for cell in sorted(self._cells)]
        return [f"{self._results}/scores/{judge}/{cell}.{ending}" for judge in judges for cell in cells]

    def _labels(self, section: str) -> dict[str, str]:
        return {name: entry["label"] or name for name, entry in self._config[section].items()}
