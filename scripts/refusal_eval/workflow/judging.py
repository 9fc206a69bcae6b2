"""What the rules in workflow/rules/judge.smk ask: what judges read, their batches, and how a verdict is decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refusal_eval.plan import GOLD, Cell, batch_names, judging_batches
from refusal_eval.workflow.content import content_hash
from refusal_eval.workflow.paths import Paths
from refusal_eval.workflow.rendering import rendering_params, template_file


class Judging:
    """From answers to verdicts.

    Args:
        config: the validated study.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._paths = Paths(config)
        self.batches = judging_batches(config)
        self._batch_names = batch_names(self.batches)

    def prompts(self, wildcards: Any) -> str:
        """Return the prompts behind the answers of a cell; of gold they are in the gold file itself."""
        folder = "gold" if wildcards.model == GOLD else "prompts"
        return f"{self._paths.results}/{folder}/{wildcards.split}.jsonl"

    def engine(self, wildcards: Any) -> str:
        """Return the identity file of a judge's engine."""
        return self._paths.engine(self._entry(wildcards)["engine"])

    def rubric(self, wildcards: Any) -> str:
        """Return a judge's rubric."""
        return str(self._entry(wildcards)["rubric"])

    def template(self, wildcards: Any) -> list[str]:
        """Return the template file that a judge brings along, if any."""
        return template_file(self._entry(wildcards))

    def reading(self, wildcards: Any) -> dict[str, Any]:
        """Return what decides what a judge is asked."""
        entry = self._entry(wildcards)
        return rendering_params(self._config, entry) | {
            "labels": entry["labels"],
            "rubric_sha256": content_hash(entry["rubric"]),
        }

    def requests(self, wildcards: Any) -> list[str]:
        """Return the request files of a batch."""
        cells = self.batches[wildcards.batch]
        return [f"{self._paths.results}/judge_requests/{cell.judge}/{cell.model}/{cell.split}.jsonl" for cell in cells]

    def receipts(self, wildcards: Any) -> list[str]:
        """Return the receipts of the batch that holds a cell."""
        batch = self._batch_names[Cell(wildcards.model, wildcards.split, wildcards.judge)]
        return self._paths.receipts("judge", batch)

    def decision(self, wildcards: Any) -> dict[str, Any]:
        """Return what turns label probabilities into a verdict."""
        entry = self._entry(wildcards)
        return {"threshold": entry["threshold"], "mass_floor": entry["mass_floor"]}

    def cpu_judge(self, wildcards: Any) -> dict[str, Any]:
        """Return all of a CPU judge's entry but its label, and the content of its files."""
        entry = {key: value for key, value in self._entry(wildcards).items() if key != "label"}
        return entry | {"sha256": [content_hash(path) for path in self.cpu_judge_files(wildcards)]}

    def cpu_judge_files(self, wildcards: Any) -> list[str]:
        """Return the keyword lists of a judge, or the file with the user's function."""
        entry = self._entry(wildcards)
        return list(entry["lists"]) if entry["kind"] == "keyword" else [entry["file"]]

    def _entry(self, wildcards: Any) -> dict[str, Any]:
        entry: dict[str, Any] = self._config["judge_entries"][wildcards.judge]
        return entry
