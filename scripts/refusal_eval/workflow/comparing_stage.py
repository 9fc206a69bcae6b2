"""What the rule in workflow/rules/compare.smk asks: which comparisons a study makes, and of what."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.study.comparison_families import JUDGES, MODELS, Family, Scope
from refusal_eval.study.paths import Paths
from refusal_eval.workflow.scoring import protocol_label
from refusal_eval.workflow.whole_study import sources_of

MOST_MODELS = 10  # a study of more models than this compares nothing until it says what
FORMATS = ("csv", "md", "tex")
EXPECTATIONS = ("refuse", "comply", "varies")


class Comparisons:
    """From scores to differences.

    Args:
        config: the validated study.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._results = Paths(config).results
        self._families = study_families(config)
        self._cells = sorted({cell for family in self._families for cell in family.cells()})

    def scores(self, wildcards: Any) -> list[str]:
        """Return the scores per prompt of the cells that are compared."""
        return [f"{self._results}/scores/{'/'.join(cell)}.csv" for cell in self._cells]

    def summaries(self, wildcards: Any) -> list[str]:
        """Return the summaries of the same cells."""
        return [f"{self._results}/scores/{'/'.join(cell)}.json" for cell in self._cells]

    def duplicates(self, wildcards: Any) -> list[str]:
        """Return the list of near-duplicate prompts, as a list for `input`, where splits are pooled."""
        pooled = any(scope.pool for family in self._families for scope in family.scopes)
        return [f"{self._results}/estimates/duplicates.json"] if pooled else []

    def presentation(self, wildcards: Any) -> dict[str, Any]:
        """Return the families, what decides their numbers besides scores, and labels."""
        entries = self._config["split_entries"]
        sections = {name: f"{name[:-1]}_entries" for name in ("models", "splits", "judges", "golds")}
        return {
            "cells": [list(cell) for cell in self._cells],
            "families": [family.as_dict() for family in self._families],
            "samples": self._config["samples"],
            "level": self._config["scoring"]["level"],
            "headlines": {split: entries[split]["headline"] for split in sorted(self._config["splits"])},
            "expectations": {split: entries[split]["expectation"] for split in sorted(self._config["splits"])},
            "sources": sources_of(self._config),
            "labels": {
                name: {key: entry["label"] or key for key, entry in self._config[section].items()}
                for name, section in sections.items()
            },
            **protocol_label(self._config),
        }

    def targets(self, wildcards: Any) -> list[str]:
        """Return what a run makes: the table and the estimates, nothing where nothing is compared."""
        if not self._families:
            return []
        tables = [f"{self._results}/tables/comparisons.{ending}" for ending in FORMATS]
        return [*tables, f"{self._results}/estimates/comparisons.json"]


def study_families(config: Mapping[str, Any]) -> list[Family]:
    """Return the families of a study; by default all pairs of up to ten models under the primary judge.

    Families of one label are numbered, so that the table can tell them apart.
    """
    written = config["comparisons"]
    if written is None:
        written = [{"pairs": "all"}] if 2 <= len(config["models"]) <= MOST_MODELS else []
    families = [_family(entry, config) for entry in written]
    labels = [family.label for family in families]
    return [
        dataclasses.replace(family, label=f"{family.label} ({i + 1})") if labels.count(family.label) > 1 else family
        for i, family in enumerate(families)
    ]


def _family(entry: Mapping[str, Any], config: Mapping[str, Any]) -> Family:
    of_judges = entry.get("judges") is not None
    names = sorted(config["judges"] if of_judges else entry.get("models") or config["models"])
    wanted, against = entry["judges"] if of_judges else entry.get("pairs"), entry.get("against")
    if against is not None:
        pairs = [(name, against) for name in names if name != against]
        words = f"models against {_label(config, 'model', against)}"
    elif wanted == "all":
        pairs, words = list(itertools.combinations(names, 2)), f"all pairs of {JUDGES if of_judges else MODELS}"
    else:
        pairs = [(first, second) for first, second in wanted or ()]
        words = f"chosen pairs of {JUDGES if of_judges else MODELS}"
    judge = entry.get("judge") or config["primary_judge"]
    return Family(
        label=entry.get("label") or words,
        kind=JUDGES if of_judges else MODELS,
        held=tuple(sorted(entry.get("models") or config["models"])) if of_judges else (judge,),
        pairs=tuple(pairs),
        scopes=tuple(_scopes(entry.get("splits") or config["splits"], entry.get("scope") or "both", config)),
    )


def _scopes(splits: Sequence[str], scope: str, config: Mapping[str, Any]) -> list[Scope]:
    """Splits in the study's order, then the pools of two and more splits of one expectation."""
    single = [Scope((split,), None) for split in splits] if scope != "pooled" else []
    of = {e: sorted(s for s in splits if config["split_entries"][s]["expectation"] == e) for e in EXPECTATIONS}
    least = 1 if scope == "pooled" else 2
    pools = [Scope(tuple(found), e) for e, found in of.items() if len(found) >= least] if scope != "splits" else []
    return single + pools


def _label(config: Mapping[str, Any], kind: str, name: str) -> str:
    return str(config[f"{kind}_entries"][name]["label"] or name)
