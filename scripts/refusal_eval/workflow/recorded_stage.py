"""What the rules in workflow/rules/recorded.smk ask: folders with answers, and verdicts, that came from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refusal_eval.core.recorded_files import ANSWERS, JUDGE_SCORES, split_folder
from refusal_eval.study.batches import recorded_judges, recorded_models
from refusal_eval.workflow.content import content_hash


class Recordings:
    """Models whose answers are read from a folder.

    Args:
        config: the validated study.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self.models = recorded_models(config)
        self.judges = recorded_judges(config)

    def answers(self, wildcards: Any) -> str:
        """Return the file with a cell's answers."""
        return self._file(wildcards, ANSWERS)

    def verdicts(self, wildcards: Any) -> str:
        """Return the file with the scores of the judge that came with a cell's answers."""
        return self._file(wildcards, JUDGE_SCORES)

    def reading(self, wildcards: Any) -> dict[str, Any]:
        """Return what decides how a cell's answers are read."""
        reasoning = self._config["model_entries"][wildcards.model]["reasoning"]
        how = {"model": wildcards.model, "reasoning": reasoning, "samples": self._config["samples"]}
        return how | {"sha256": content_hash(self.answers(wildcards))}

    def judged(self, wildcards: Any) -> str:
        """Return the content of the file with the judge's scores: a file that is older may be put in its place."""
        return content_hash(self.verdicts(wildcards))

    def votes(self, wildcards: Any) -> list[str]:
        """Return the files behind a cell's votes if its judge came with its answers, as a list for `input`."""
        came_along = wildcards.judge in self.judges
        return [self.answers(wildcards), self.verdicts(wildcards)] if came_along else []

    def voted(self, wildcards: Any) -> list[str]:
        """Return the content of these files: verdicts do not tell all of it."""
        return [content_hash(path) for path in self.votes(wildcards)]

    def _file(self, wildcards: Any, name: str) -> str:
        folder = self._config["model_entries"][wildcards.model]["recorded"]
        return str(split_folder(folder, wildcards.split) / name)
