"""What the stages share that look at a whole study at once: its cells, where its splits come from, and its labels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from refusal_eval.study.paths import Paths
from refusal_eval.workflow.scoring import protocol_label

# As `scores.HEADLINE_READING`, which nothing that plans may import: it stands behind numpy and scipy.
HEADLINE = {"refuse": "strict", "comply": "broad", "varies": "broad"}


class WholeStudy:
    """All scores of a study.

    Args:
        config: the validated study.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._results = Paths(config).results
        names = (config["judges"], config["models"], config["splits"])
        self._cells = [[judge, model, split] for judge in names[0] for model in names[1] for split in names[2]]

    def rows(self, wildcards: Any) -> list[str]:
        """Return the scores per prompt of all cells under all judges."""
        return [f"{self._results}/scores/{'/'.join(cell)}.csv" for cell in self._cells]

    def scores(self, wildcards: Any) -> list[str]:
        """Return the summaries of all scores."""
        return [f"{self._results}/scores/{'/'.join(cell)}.json" for cell in self._cells]

    def presentation(self, wildcards: Any) -> dict[str, Any]:
        """Return what, besides files, decides how a table of the whole study looks."""
        kinds = {"models": "model", "splits": "split", "judges": "judge", "golds": "gold"}
        labels = {
            kind: {name: entry["label"] or name for name, entry in self._config[f"{section}_entries"].items()}
            for kind, section in kinds.items()
        }
        shown = {"primary_judge": self._config["primary_judge"], "labels": labels}
        return self._names() | shown | protocol_label(self._config)

    def _computed(self) -> dict[str, Any]:
        """Return the cells, and what decides their numbers: no labels, which may change without a new computation."""
        return self._names() | {"cells": self._cells, "level": self._config["scoring"]["level"]}

    def _names(self) -> dict[str, Any]:
        """Return names in the study's order, with readings and sources of splits."""
        config, entries = self._config, self._config["split_entries"]
        sources = sources_of(config)
        splits = [
            {
                "name": split,
                "expectation": entries[split]["expectation"],
                "reading": entries[split]["headline"] or HEADLINE[entries[split]["expectation"]],
                "source": sources[split],
            }
            for split in config["splits"]
        ]
        return {name: config[name] for name in ("models", "judges", "gold", "samples")} | {"splits": splits}

    def _made(self, name: str) -> list[str]:
        """Return the files of a stage: its estimates and tables."""
        tables = [f"{self._results}/tables/{name}.{ending}" for ending in ("csv", "md", "tex")]
        return [f"{self._results}/estimates/{name}.json", *tables]


def sources_of(config: Mapping[str, Any]) -> dict[str, str]:
    """Return a word for the source of each split: the first split, by its name, that comes from there.

    So params hold no path of this machine.
    """
    first: dict[str, str] = {}
    entries = config["split_entries"]
    return {split: first.setdefault(source_of(entries[split]["source"]), split) for split in sorted(config["splits"])}


def source_of(source: Mapping[str, Any]) -> str:
    """Return what tells a split's origin apart: a repository, a package, the folder of a file or address."""
    place = source.get("repo") or source.get("package")
    folder = PurePosixPath(str(source.get("url") or source.get("path") or "bundled")).parent
    return f"{source['kind']} {place or folder}"
