"""What the rules in workflow/rules/results.smk ask: every number of a study, and what its methods section tells."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from refusal_eval.study.paths import Paths
from refusal_eval.workflow.comparing_stage import Comparisons
from refusal_eval.workflow.content import content_hash
from refusal_eval.workflow.correcting import Correcting
from refusal_eval.workflow.estimating import Estimating
from refusal_eval.workflow.reporting import Reporting
from refusal_eval.workflow.tradeoff_stage import TradeOff

TABLE = ("results.csv", "results.parquet", "dictionary.md")
METHODS = ("methods.md", "methods.tex", "references.bib")
REFERENCES = ("references.bib", "tools.bib")  # of config/catalogue/


class Results:
    """The results table and the methods section of a study.

    Args:
        config: the validated study.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._results = Paths(config).results
        self._reporting = Reporting(config)

    def scores(self, wildcards: Any) -> list[str]:
        """Return the summaries of all cells under all judges."""
        return self._reporting.scores(wildcards)

    def cards(self, wildcards: Any) -> list[str]:
        """Return the cards of all judges on all gold."""
        return self._reporting.cards(wildcards)

    def estimates(self, wildcards: Any) -> list[str]:
        """Return the files of estimates that the study's analyses write, each `{"estimates": [...], ...}`."""
        made = [
            path
            for part in (
                Estimating,
                Comparisons,
                TradeOff,
                Correcting,
            )
            for path in part(self._config).targets(wildcards)
        ]
        folder = f"{self._results}/estimates/"
        return [path for path in made if path.startswith(folder) and path.endswith(".json")]

    def agreement(self, wildcards: Any) -> list[str]:
        """Return the agreement of the study's judges where there are several, as a list."""
        return [f"{self._results}/judge_agreement.json"] if len(self._config["judges"]) > 1 else []

    def people(self, wildcards: Any) -> list[str]:
        """Return the agreement of people that was written beside the labels the study names, as a list.

        None for labels of another origin.
        """
        labels = (self._config["corrected"] or {}).get("labels")
        beside = Path(labels).with_name("agreement.json") if labels else None
        return [str(beside)] if beside is not None and beside.is_file() else []

    def study(self, wildcards: Any) -> dict[str, Any]:
        """Return what, besides the content of its files, decides the results table.

        The files' names are part of it, so that one which is not asked for any more is noticed; those of people can
        be replaced by older ones.
        """
        inputs = (self.scores, self.cards, self.estimates, self.agreement)
        return {
            "study": self._config["study"],
            "results": self._results,
            "tau": self._config["scoring"]["tau"],
            "files": [path.removeprefix(f"{self._results}/") for paths in inputs for path in paths(wildcards)],
            "people_sha256": [content_hash(path) for path in self.people(wildcards)],
        }

    def table(self) -> str:
        """Return the results table as CSV."""
        return f"{self._results}/results_table/{TABLE[0]}"

    def manifest(self) -> str:
        """Return the manifest."""
        return f"{self._results}/manifest.json"

    def targets(self, wildcards: Any) -> list[str]:
        """Return what a run makes: the results table with its dictionary, the methods section with its references."""
        names = [*(f"results_table/{name}" for name in TABLE), *METHODS]
        return [f"{self._results}/{name}" for name in names]
