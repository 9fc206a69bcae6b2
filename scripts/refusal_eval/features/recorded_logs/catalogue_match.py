"""Which prompts are known to the catalogue: compared by content, with splits whose rows are on this machine."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from refusal_eval.config.catalogue import Catalogue
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import shown_path
from refusal_eval.core.texts import nfkc, without_invisible
from refusal_eval.data.prompts import content_id, make_prompts
from refusal_eval.data.rows import read_rows
from refusal_eval.data.selection import read_clusters

MOST_BYTES = 50_000_000  # of a file of rows: larger ones are collections of conversations
Chat = list[dict[str, str]]


class Known(NamedTuple):
    """What the catalogue says of a prompt."""

    split: str
    expectation: str
    category: str | None
    cluster: str | None


def known_prompts(prompts: Mapping[str, Chat], catalogue: Catalogue, cache: str, root: Path) -> dict[str, Known]:
    """Return what the catalogue says of prompts, by their id. Nothing is fetched.

    A prompt of several splits is taken for one of that split which has most of these prompts.

    Args:
        prompts: messages, by their id; those with earlier replies are in no split.
        cache: folder with what was fetched.
        root: the repository's folder.
    """
    wanted = {text: name for name, messages in prompts.items() if (text := _normal(messages))}
    found: dict[str, list[Known]] = {}
    for split, entry in catalogue.valid["splits"].items():
        for prompt in _rows_here(split, entry, cache, root):
            if (text := _normal(prompt["messages"])) and (name := wanted.get(text)):
                # The default cluster is the prompt itself.
                cluster = prompt["cluster"] if prompt["cluster"] != prompt["id"] else None
                found.setdefault(name, []).append(Known(split, entry.expectation, prompt["category"], cluster))
    counts = Counter(split for every in found.values() for split in {one.split for one in every})
    return {name: max(every, key=lambda one: counts[one.split]) for name, every in found.items()}


def of_rows(rows: Iterator[Chat]) -> dict[str, Chat]:
    """Return the prompts of rows by the id of their messages."""
    return {content_id(messages): messages for messages in rows}


def _normal(messages: Chat) -> str:
    """The text of the only message of the user, however it is written; empty for a chat."""
    if [message["role"] for message in messages if message["role"] != "system"] != ["user"]:
        return ""
    return re.sub(r"\s+", " ", without_invisible(nfkc(messages[-1]["content"]))).strip().casefold()


def _rows_here(split: str, entry: Any, cache: str, root: Path) -> list[dict[str, Any]]:
    """The prompts of a split whose rows are here; none of another, or of one that cannot be read."""
    source = entry.source
    try:
        path = Path(
            source.copy_file(cache) if source.fetched else source.local_path(shown_path(root / "config/prompts"))
        )
        if entry.dialogue or not path.is_file() or path.stat().st_size > MOST_BYTES:
            return []
        rows = read_rows(path, getattr(source, "skip_lines", 0), split, getattr(source, "encoding", None))
        clusters = read_clusters(read_rows(entry.clusters), entry.clusters) if entry.clusters else None
        return make_prompts(rows, entry.columns.model_dump(), split, where=entry.where, clusters=clusters)[0]
    except (UserError, OSError):
        return []
