"""The store of texts that were searched for once, by all that decides them, shared by studies.

Layout: `<store>/controlled/<engine id of the target>/<stamp>-<writer>.jsonl`, one file per job, a line for each text
as soon as it is complete. A line that a killed job left torn is ignored. Where a key is in several files, the first
file in the order of their names counts.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.study.batches import shard_of, shards_of

LOG = logging.getLogger(__name__)
FOLDER = "controlled"
FIELDS = {"key", "text", "state", "tokens", "ce", "seed_ce", "logp"}


class SearchStore:
    """The stored texts for one target, as they were when this was made or last refreshed."""

    def __init__(self, store_dir: str | Path, engine_id: str) -> None:
        self.folder = Path(store_dir, FOLDER, engine_id)
        self.refresh()

    def refresh(self) -> None:
        """Read the files as they are now."""
        self.lines: dict[str, dict[str, Any]] = {}
        for path in sorted(self.folder.glob("*.jsonl")):
            for line in _whole_lines(path):
                self.lines.setdefault(line["key"], line)

    def missing(self, keys: Iterable[str]) -> list[str]:
        """Return the keys that are not stored, each once, in the order given."""
        return [key for key in dict.fromkeys(keys) if key not in self.lines]


def _whole_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file that are whole; what is lost is searched for again."""
    found, lost = [], 0
    for text in path.read_bytes().split(b"\n"):
        try:
            line = json.loads(text) if text else None
        except ValueError:
            lost, line = lost + 1, None
        if isinstance(line, dict) and line.keys() >= FIELDS:
            found.append(line)
    if lost:
        LOG.warning("%s: %d lines are damaged; their texts are searched for again", path, lost)
    return found


def items_of_load(items: Sequence[Mapping[str, Any]], load: str) -> list[Mapping[str, Any]]:
    """Return the items of one job among several: every n-th one, so that all take about as long."""
    return list(items[shard_of(load) :: shards_of(load)])
