"""The files of controlled prompts: what is searched for, receipts of the searches, and what was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refusal_eval.features.controlled.controlled_rows import ControlledRows
from refusal_eval.study.batches import load_names
from refusal_eval.study.files import File, Names

if TYPE_CHECKING:
    from refusal_eval.study.study import Study


def controlled_splits(study: Study) -> dict[str, ControlledRows]:
    """Return the sources of kind `controlled` of a study's splits, by split."""
    sources = {name: entry.source for name, entry in study.settings.split_entries.items()}
    return {name: source for name, source in sources.items() if isinstance(source, ControlledRows)}


def _splits(study: Study) -> list[Names]:
    return [(split,) for split in controlled_splits(study)]


def _searches(study: Study) -> list[Names]:
    return [(split, load) for split, source in controlled_splits(study).items() for load in load_names(source.shards)]


SEARCH_ITEMS = File(("controlled/{split}/items.json",), ("search_items",), _splits, after="engines")
# Not asked for: what it found is in the store, and the weights may be gone from the cache.
SEARCHES = File(
    ("controlled/{split}/receipts/{load}.json",),
    ("search_prompts",),
    _searches,
    asked=False,
    submitted=True,
    after="search_items",
)
FOUND_PROMPTS = File(("controlled/{split}/rows.jsonl",), ("found_prompts",), _splits, after="searches")
