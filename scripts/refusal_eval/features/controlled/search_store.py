"""The store of texts that were searched for once, by all that decides it, shared by studies.

Layout: `<store>/controlled/<engine id of the target>/`, see `engines/line_store.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.engines.line_store import LineStore
from refusal_eval.study.batches import shard_of, shards_of

FOLDER = "controlled"
FIELDS = ("key", "text", "state", "tokens", "ce", "seed_ce", "logp")


class SearchStore(LineStore):
    """The stored texts for one target, as they were when this was made or last refreshed."""

    def __init__(self, store_dir: str | Path, engine_id: str) -> None:
        super().__init__(store_dir, FOLDER, engine_id, FIELDS, "texts")


def items_of_load(items: Sequence[Mapping[str, Any]], load: str) -> list[Mapping[str, Any]]:
    """Return the items of one job among several: every n-th one, so that all take about as long."""
    return list(items[shard_of(load) :: shards_of(load)])
