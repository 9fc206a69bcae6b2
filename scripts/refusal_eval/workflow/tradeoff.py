"""What the rule in workflow/rules/tradeoff.smk asks: all scores of a study, and which splits belong together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from refusal_eval.workflow.paths import Paths
from refusal_eval.workflow.scoring import protocol_label

# As `scores.HEADLINE_READING`, which nothing that plans may import: it stands behind numpy and scipy.
HEADLINE = {"refuse": "strict", "comply": "broad", "varies": "broad"}


class TradeOff:
    """Over-refusal against safety.

    Args:
        config: the validated study.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._results = Paths(config).results
        self._cells = study_cells(config)

    def rows(self, wildcards: Any) -> list[str]:
        """Return the scores per prompt of all cells under all judges."""
        return [f"{self._results}/scores/{'/'.join(cell)}.csv" for cell in self._cells]

    def scores(self, wildcards: Any) -> list[str]:
        """Return the summaries of the same."""
        return [f"{self._results}/scores/{'/'.join(cell)}.json" for cell in self._cells]

    def prompts(self, wildcards: Any) -> list[str]:
        """Return the prompts of all splits, in the study's order."""
        return [f"{self._results}/prompts/{split}.jsonl" for split in self._config["splits"]]

    def study(self, wildcards: Any) -> dict[str, Any]:
        """Return what, besides files, decides the trade-off and how it is shown."""
        by_source: dict[str, list[str]] = {}
        entries = self._config["split_entries"]
        for split in self._config["splits"]:
            source = f"{source_of(entries[split]['source'])} {entries[split]['expectation']}"
            by_source.setdefault(source, []).append(split)
        return presented(self._config) | {
            "cells": self._cells,
            "twins": self._twins(),
            "related": sorted(by_source.values()),
        }

    def targets(self, wildcards: Any) -> list[str]:
        """Return what a run makes: estimates, and the tables of a study that has any."""
        kinds = {entry["expectation"] for entry in self._config["split_entries"].values()}
        if not ({"comply", "refuse"} <= kinds or "varies" in kinds):
            return []
        tables = [f"{self._results}/tables/tradeoff.{ending}" for ending in ("csv", "md", "tex")]
        return [f"{self._results}/estimates/tradeoff.json", *tables]

    def _twins(self) -> list[list[str]]:
        """Pairs of a comply and a refuse split of one source: their clusters may be contrast pairs."""
        entries, names = self._config["split_entries"], self._config["splits"]
        of = {kind: [name for name in names if entries[name]["expectation"] == kind] for kind in ("comply", "refuse")}
        sources = {name: source_of(entries[name]["source"]) for name in names}
        return [[safe, unsafe] for safe in of["comply"] for unsafe in of["refuse"] if sources[safe] == sources[unsafe]]


def study_cells(config: Mapping[str, Any]) -> list[list[str]]:
    """Return all [judge, model, split] of a study."""
    return [
        [judge, model, split] for judge in config["judges"] for model in config["models"] for split in config["splits"]
    ]


def presented(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return names in their order, readings and labels."""
    names = ("models", "judges", "gold", "primary_judge", "samples")
    entries = config["split_entries"]
    splits = [
        {
            "name": split,
            "expectation": entries[split]["expectation"],
            "reading": entries[split]["headline"] or HEADLINE[entries[split]["expectation"]],
        }
        for split in config["splits"]
    ]
    kinds = {"models": "model", "splits": "split", "judges": "judge", "golds": "gold"}
    labels = {
        kind: {name: entry["label"] or name for name, entry in config[f"{section}_entries"].items()}
        for kind, section in kinds.items()
    }
    found = {name: config[name] for name in names} | {"splits": splits, "labels": labels}
    return found | {"level": config["scoring"]["level"], **protocol_label(config)}


def source_of(source: Mapping[str, Any]) -> str:
    """Return what tells a split's origin apart: a repository, a package, the folder of a file or address."""
    place = source.get("repo") or source.get("package")
    folder = PurePosixPath(str(source.get("url") or source.get("path") or "bundled")).parent
    return f"{source['kind']} {place or folder}"
