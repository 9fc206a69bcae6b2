"""What rules ask that look at a whole study at once: its cells, labels, and where its splits come from."""

import itertools
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from refusal_eval.core.states import HEADLINE_READING

Config = Mapping[str, Any]  # of a validated study
NOUNS = ("model", "split", "judge", "gold")


def cells_of(config: Config) -> list[list[str]]:
    """Return judge, model and split of all that is scored, in the study's order."""
    return [list(cell) for cell in itertools.product(config["judges"], config["models"], config["splits"])]


def labels_of(config: Config, nouns: Iterable[str] = NOUNS) -> dict[str, dict[str, str]]:
    """Return what readers see instead of names, for each of these nouns: `{"models": {name: label}}`."""
    return {
        f"{noun}s": {name: entry["label"] or name for name, entry in config[f"{noun}_entries"].items()}
        for noun in nouns
    }


def splits_of(config: Config) -> list[dict[str, str]]:
    """Return expectation, headline reading and source of each split, in the study's order."""
    entries, sources = config["split_entries"], sources_of(config)
    return [
        {
            "name": split,
            "expectation": entries[split]["expectation"],
            "reading": entries[split]["headline"] or HEADLINE_READING[entries[split]["expectation"]],
            "source": sources[split],
        }
        for split in config["splits"]
    ]


def sources_of(config: Config) -> dict[str, str]:
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
