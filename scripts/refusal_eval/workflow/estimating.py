"""What the rules in workflow/rules/estimates.smk ask: which estimates a study has, and what decides them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refusal_eval.study.batches import panel_judges
from refusal_eval.study.paths import Paths
from refusal_eval.workflow.whole_study import sources_of


class Estimating:
    """From scores to estimates with intervals.

    Args:
        config: the validated study.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._results = Paths(config).results
        self._splits, self._models = sorted(config["splits"]), sorted(config["models"])
        panels = set(panel_judges(config))
        # A panel says what its members say: as one more judge it would make judges look alike.
        self._independent = [judge for judge in sorted(config["judges"]) if judge not in panels]

    def prompts(self, wildcards: Any) -> list[str]:
        """Return the prompts of all splits, in alphabetical order."""
        return [f"{self._results}/prompts/{split}.jsonl" for split in self._splits]

    def duplicates(self, wildcards: Any) -> dict[str, Any]:
        """Return what, besides prompts, decides which of them are near-duplicates."""
        entries = self._config["split_entries"]
        expectations = {split: entries[split]["expectation"] for split in self._splits}
        return {"expectations": expectations, "sources": sources_of(self._config)}

    def rows(self, wildcards: Any) -> list[str]:
        """Return the scores per prompt of all splits of one (judge, model), in alphabetical order."""
        return self._of_splits(f"scores/{wildcards.judge}/{wildcards.model}", "csv")

    def scores(self, wildcards: Any) -> list[str]:
        """Return the summaries of the same cells."""
        return self._of_splits(f"scores/{wildcards.judge}/{wildcards.model}", "json")

    def samples(self, wildcards: Any) -> list[str]:
        """Return what became of each sample of the same cells."""
        return self._of_splits(f"scores/{wildcards.judge}/{wildcards.model}", "npz")

    def study(self, wildcards: Any) -> dict[str, Any]:
        """Return what, besides its files, decides the estimates of one (judge, model)."""
        return {
            "judge": wildcards.judge,
            "model": wildcards.model,
            "splits": self._splits,
            "sources": sources_of(self._config),
            "samples": self._config["samples"],
            **self._config["scoring"],
            # The published c(x) is another function, so that a sweep of ours would not go through it.
            "tau_sweep": self._config["protocol"] == "default",
        }

    def labels(self, wildcards: Any) -> list[str]:
        """Return the labels of every (judge, model) without panels, judges first."""
        pairs = [f"{judge}/{model}" for judge in self._independent for model in self._models]
        return [f"{self._results}/estimates/labels/{pair}.npz" for pair in pairs]

    def judges(self, wildcards: Any) -> dict[str, Any]:
        """Return what, besides labels, decides the split of the variance over judges."""
        return {
            "judges": self._independent,
            "models": self._models,
            "splits": self._splits,
            "level": self._config["scoring"]["level"],
        }

    def estimates(self, wildcards: Any) -> list[str]:
        """Return all files of estimates: one for each (judge, model), and the variance where there are two judges."""
        judges = sorted(self._config["judges"])
        cells = [f"{self._results}/estimates/cells/{judge}/{model}.json" for judge in judges for model in self._models]
        several = len(self._independent) > 1 and self._config["samples"] > 1
        return [*cells, f"{self._results}/estimates/variance.json"] if several else cells

    def targets(self, wildcards: Any) -> list[str]:
        """Return what a run makes."""
        return [*self.estimates(wildcards), f"{self._results}/estimates/duplicates.csv"]

    def _of_splits(self, folder: str, ending: str) -> list[str]:
        return [f"{self._results}/{folder}/{split}.{ending}" for split in self._splits]
