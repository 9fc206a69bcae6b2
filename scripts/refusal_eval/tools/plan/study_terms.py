"""What a user should know of a study's entries before a run: licences, gates, open pins, what nobody verified."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refusal_eval.config.source_entries import open_pin
from refusal_eval.study.paths import Paths
from refusal_eval.study.row_sources import fetched_path
from refusal_eval.tools.plan.page_lines import filled

NOT_STATED = "none stated"
NON_COMMERCIAL = re.compile(r"\bNC\b|non-?commercial|not for commercial", re.IGNORECASE)
MANY = 6  # names that are still listed one by one
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
    engines = config["engine_entries"].items()
    sources += [("engines", name, entry["weights"]) for name, entry in engines if entry.get("weights")]
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
            weights = engine.get("weights") or {"kind": engine["kind"], "path": entry["engine"]}
            here = "weights" not in engine or weights["kind"] == "folder"
            here = here or os.path.isfile(paths.weights_manifest(weights))
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


def pin_lines(pins: Sequence[OpenPin], study_file: str, lock: str | None) -> list[str]:
    """Return what is not pinned yet, and what to do; if all is pinned, the lock file, if there is one.

    Args:
        pins: what is open.
        study_file: the study's file, as a user names it.
        lock: path of the study's lock file.
    """
    if not pins:
        return [f"Every model and data set is pinned, with {lock}."] if lock else []
    lines = [f"NOT PINNED YET: run `refusal-eval pin {study_file}`; before that no run starts"]
    what = {"revision": "the commit", "sha256": "the SHA-256"}
    found: dict[str, list[str]] = {}
    for pin in pins:
        found.setdefault(f"{what[pin.key]} of {pin.source}", []).append(pin.name)
    return [*lines, *filled(f"{text} ({', '.join(dict.fromkeys(names))})" for text, names in found.items())]


def licence_lines(terms: Sequence[Terms], token: bool) -> list[str]:
    """Return the licences by section, what is not for commercial use, and what is gated.

    Args:
        terms: of all that the study uses.
        token: whether a token of the hub is set.
    """
    lines = ["LICENCES (as their publishers state them, at the time when the entries were written)"]
    for section in SECTIONS:
        for number, text in enumerate(_licences([one for one in terms if one.section == section])):
            first, *further = filled([text], indent=" " * 11)
            lines += [f"  {section if number == 0 else '':<9}{first.strip()}", *further]
    lines += filled(_not_commercial(terms))
    return [*lines, *filled(_gates(terms, token))]


def unverified_lines(config: Mapping[str, Any]) -> list[str]:
    """Return the engines that never ran, and what nobody verified; nothing if there is nothing to say."""
    never, found = never_verified(config), unverified(config)
    if not (never or found):
        return []
    lines = ["NEVER VERIFIED"]
    if never:
        all_of_them = len(never) == len(config["engine_entries"]) > 1
        which = f"all {len(never)}" if all_of_them else ", ".join(never)
        check = "`refusal-eval check --model ...` tries one"
        lines += filled([f"Engines that nobody has seen work with the real vLLM: {which}; {check}."])
    together: dict[str, list[str]] = {}
    for what, names in found.items():
        together.setdefault(_names(names), []).append(what)
    return [*lines, *filled(f"{names}: {'; '.join(what)}" for names, what in together.items())]


def _licences(terms: Sequence[Terms]) -> list[str]:
    """Return each licence with the entries under it, and of those the licences of what they were made from."""
    found: dict[str, dict[str | None, list[str]]] = {}
    for one in terms:
        found.setdefault(one.licence, {}).setdefault(one.origin, []).append(one.name)
    texts = []
    for licence, origins in found.items():
        own = ", ".join(origins.pop(None, []))
        made = "; ".join(f"{origin}: {', '.join(names)}" for origin, names in origins.items())
        texts.append(f"{licence}: {own}" if own else "")
        texts.append(f"{licence}. That of what it was made from: {made}" if made else "")
    return [text for text in texts if text]


def _not_commercial(terms: Sequence[Terms]) -> Iterable[str]:
    names = [f"{one.name} ({one.origin or one.licence}{_at(one.page)})" for one in terms if one.non_commercial]
    if names:
        yield f"NOT FOR COMMERCIAL USE: {', '.join(names)}."


def _gates(terms: Sequence[Terms], token: bool) -> Iterable[str]:
    gated: dict[tuple[str, str | None], list[Terms]] = {}
    for one in terms:
        if one.gated is not False and not (one.gated is None and one.here):
            gated.setdefault((one.source, one.page), []).append(one)
    for (source, page), of_source in gated.items():
        names = ", ".join(one.name for one in of_source)
        if of_source[0].gated is None:
            yield f"Not known whether gated: {source} ({names})."
        elif all(one.here for one in of_source):
            yield f"GATED: {source} ({names}); it is here already. Its terms hold: {page}."
        else:
            state = "a token is set here" if token else "no token is set here"
            yield (
                f"GATED: {source} ({names}). Ask for access at {page}, then set HF_TOKEN to a read token of that "
                f"account ({state})."
            )


def _at(page: str | None) -> str:
    return f", {page}" if page else ""


def _names(names: Sequence[str]) -> str:
    """Return entries (`engine x`), each kind of entry named once; of many only how many."""
    kinds: dict[str, list[str]] = {}
    for name in names:
        kind, own = name.split(" ", 1)
        kinds.setdefault(kind, []).append(own)
    texts = []
    for kind, together in kinds.items():
        word = f"{kind}s" if len(together) > 1 else kind
        texts.append(f"{len(together)} {word}" if len(together) > MANY else f"{word} {', '.join(together)}")
    return "; ".join(texts)
