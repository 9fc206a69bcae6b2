"""What a user should know of a study's entries before a run: licences, gates, open pins, what nobody verified."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from refusal_eval.config.source_entries import open_pin
from refusal_eval.study.paths import Paths
from refusal_eval.study.row_sources import fetched_path

NOT_STATED = "none stated"
NON_COMMERCIAL = re.compile(r"\bNC\b|non-?commercial|not for commercial", re.IGNORECASE)
SECTIONS = ("models", "judges", "splits", "gold")


@dataclass(frozen=True)
class Terms:
    """On which terms something may be used.

    Attributes:
        section: models, judges, splits or gold.
        name: the entry's name.
        source: its repository on the hub, its address, package or file.
        licence: as its publisher states it.
        origin: licence of what it was made from, where that is another one.
        gated: whether one must ask for access; None where nobody knows.
        page: where to ask, or to read the terms.
        here: whether it was fetched already.
    """

    section: str
    name: str
    source: str
    licence: str
    origin: str | None
    gated: bool | None
    page: str | None
    here: bool

    @property
    def non_commercial(self) -> bool:
        """Whether a licence says that it is not for commercial use."""
        return any(NON_COMMERCIAL.search(text) for text in (self.licence, self.origin or ""))


@dataclass(frozen=True)
class OpenPin:
    """A hash that nobody has filled in yet.

    Attributes:
        section: engines, models, splits or gold.
        name: the entry's name.
        key: revision or sha256.
        source: repository on the hub, or address.
    """

    section: str
    name: str
    key: str
    source: str


def terms_of(config: Mapping[str, Any]) -> list[Terms]:
    """Return the terms of all models, judges with an engine, splits and gold of a study."""
    return [*_of_engines(config), *_of_rows(config)]


def open_pins(config: Mapping[str, Any]) -> list[OpenPin]:
    """Return the pins of a study that are open."""
    sources: list[tuple[str, str, Mapping[str, Any]]] = []
    sources += [("engines", name, entry["weights"]) for name, entry in config["engine_entries"].items()]
    sources += [("models", name, entry["lora"]) for name, entry in config["model_entries"].items() if entry["lora"]]
    for section in ("splits", "gold"):
        entries = config["split_entries" if section == "splits" else "gold_entries"]
        sources += [(section, name, entry["source"]) for name, entry in entries.items()]
    return [
        OpenPin(section, name, key, source_text(source))
        for section, name, source in sources
        if (key := open_pin(source)) is not None
    ]


def never_verified(config: Mapping[str, Any]) -> list[str]:
    """Return the engines that were never seen to work."""
    return [name for name, entry in config["engine_entries"].items() if entry["verified"] == "never"]


def unverified(config: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return what nobody verified when entries were written, each with the entries (`engine x`) that say so."""
    found: dict[str, list[str]] = {}
    for word in ("engine", "model", "split", "gold"):
        for name, entry in config[f"{word}_entries"].items():
            for what in entry["unverified"]:
                found.setdefault(what, []).append(f"{word} {name}")
    return found


def source_text(source: Mapping[str, Any]) -> str:
    """Return where weights or rows come from, as people say it."""
    for key in ("repo", "url", "path"):
        if source.get(key):
            return str(source[key])
    return f"{source['package']} {source['version']}" if source.get("package") else str(source["file"])


def _of_engines(config: Mapping[str, Any]) -> Iterator[Terms]:
    paths = Paths(config)
    for section, entries in (("models", "model_entries"), ("judges", "judge_entries")):
        for name, entry in config[entries].items():
            if not entry.get("engine") or entry.get("recorded"):
                continue
            engine = config["engine_entries"][entry["engine"]]
            weights = engine["weights"]
            here = weights["kind"] == "folder" or os.path.isfile(paths.weights_manifest(weights))
            licence = engine["licence"] or NOT_STATED
            yield Terms(section, name, source_text(weights), licence, None, engine["gated"], engine["terms"], here)
            if entry.get("lora"):
                yield Terms(
                    section, f"{name} (adapter)", source_text(entry["lora"]), NOT_STATED, None, None, None, here
                )


def _of_rows(config: Mapping[str, Any]) -> Iterator[Terms]:
    cache = str(config["cache_dir"])
    for section, entries in (("splits", "split_entries"), ("gold", "gold_entries")):
        for name, entry in config[entries].items():
            source = entry["source"]
            here = source["kind"] in ("bundled", "file") or os.path.isfile(fetched_path(source, cache))
            licence, origin = entry["licence"] or NOT_STATED, entry.get("licence_of_origin")
            gated, page = bool(entry.get("gated")), entry.get("terms")
            yield Terms(section, name, source_text(source), licence, origin, gated, page, here)
