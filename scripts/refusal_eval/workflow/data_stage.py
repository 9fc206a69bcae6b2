"""What the rules in workflow/rules/data.smk ask: the rows of splits and gold, and how they are read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from refusal_eval.study.paths import Paths
from refusal_eval.study.row_sources import (
    FETCHED_KINDS,
    fetched_path,
    local_path,
    shown_path,
    source_id,
    source_name,
    source_param,
)
from refusal_eval.workflow.content import content_hash

LATER_COLUMNS = ("turns", "keep")
LATER_GOLD_COLUMNS = ("messages", "weight", "id")
LATER_GOLD_KEYS = ("answers", "left_out", "expectations", "expectation")


class Data:
    """Rows of the splits and of the gold.

    Args:
        config: the validated study.
        root: the repository's folder.
    """

    def __init__(self, config: Mapping[str, Any], root: Path) -> None:
        self._config = config
        self._cache = Paths(config).cache
        self._root = root
        entries = [*config["split_entries"].values(), *config["gold_entries"].values()]
        sources = [entry["source"] for entry in entries if entry["source"]["kind"] in FETCHED_KINDS]
        self._fetched = {source_id(source): source for source in sources}

    def fetched_rows(self) -> list[str]:
        """Return the files of all rows that are fetched."""
        return [fetched_path(source, self._cache) for source in self._fetched.values()]

    def source(self, wildcards: Any) -> dict[str, Any]:
        """Return the source behind a folder of the cache."""
        return source_param(self._fetched[wildcards.source])

    def split_rows(self, wildcards: Any) -> str:
        """Return the file with the rows of a split."""
        return self._rows(self._config["split_entries"][wildcards.split])

    def split_clusters(self, wildcards: Any) -> list[str]:
        """Return the file with the clusters of a split's rows, if it has one."""
        path = self._config["split_entries"][wildcards.split].get("clusters")
        return [path] if path else []

    def gold_rows(self, wildcards: Any) -> str:
        """Return the file with the rows of a gold entry."""
        return self._rows(self._config["gold_entries"][wildcards.gold])

    def gold_clusters(self, wildcards: Any) -> list[str]:
        """Return the file with the clusters of a gold entry's rows, if it has one."""
        path = self._config["gold_entries"][wildcards.gold].get("clusters")
        return [path] if path else []

    def split_reading(self, wildcards: Any) -> dict[str, Any]:
        """Return what of a split decides its prompts; its label, its expectation and which turns count do not."""
        entry = self._config["split_entries"][wildcards.split]
        reading = {**self._reading(entry), "samples": [entry["sample"], self._config["prompts_per_split"]]}
        if entry.get("dialogue"):
            reading["mode"] = entry["dialogue"]["mode"]
        if entry.get("where"):
            reading |= {"where": entry["where"], "expected_kept": entry["expected_kept"]}
        if entry.get("clusters"):
            reading["clusters"] = content_hash(entry["clusters"])
        if self._config["protocol"] == "compat":
            reading["copies"] = True  # the published code asks and scores every row
        return reading

    def gold_reading(self, wildcards: Any) -> dict[str, Any]:
        """Return what of a gold entry decides its rows."""
        entry = self._config["gold_entries"][wildcards.gold]
        reading = {**self._reading(entry), "labels": entry["labels"]}
        columns = {key: named for key, named in entry["columns"].items() if key not in LATER_GOLD_COLUMNS or named}
        reading |= {"columns": columns} | {key: entry[key] for key in LATER_GOLD_KEYS if entry.get(key)}
        return reading | ({"clusters": content_hash(entry["clusters"])} if entry.get("clusters") else {})

    def _rows(self, entry: Mapping[str, Any]) -> str:
        if entry["source"]["kind"] in FETCHED_KINDS:
            return fetched_path(entry["source"], self._cache)
        return local_path(entry["source"], str(shown_path(self._root / "config" / "prompts")))

    def _reading(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return how rows are read: what is common to splits and gold."""
        source = entry["source"]
        fetched = source["kind"] in FETCHED_KINDS
        # The source and a local file's content count: the file of another source, or an older copy put in its place,
        # may be older than the output, which Snakemake would not see.
        reading = {
            "source": source_param(source),
            "sha256": None if fetched else content_hash(self._rows(entry)),
            "name": source_name(source),
            "skip_lines": source.get("skip_lines", 0),
            # A key that came later is left out where it is not used: splits without it need not run again for it.
            "columns": {key: named for key, named in entry["columns"].items() if key not in LATER_COLUMNS or named},
            "expected_rows": entry["expected_rows"],
        }
        return reading | ({"encoding": source["encoding"]} if source.get("encoding") else {})
