"""What a user should know of a study's entries before a run: licences, gates, open pins, what nobody verified."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from refusal_eval.study.paths import Paths
from refusal_eval.study.row_sources import fetched_path, is_fetched
from refusal_eval.study.study import Study
from refusal_eval.tools.plan.page_lines import filled
from refusal_eval.weights.engine_file import weight_source

NOT_STATED = "none stated"
NON_COMMERCIAL = re.compile(r"\bNC\b|non-?commercial|not for commercial", re.IGNORECASE)
MANY = 6  # names that are still listed one by one
WHAT_IS_OPEN = {"revision": "the commit", "sha256": "the SHA-256"}


@dataclass(frozen=True)
class Terms:
    """On which terms something may be used."""

    section: str  # models, judges, splits or gold
    name: str
    source: str  # its repository on the hub, its address, package or file
    licence: str  # as its publisher states it
    origin: str | None = None  # licence of what it was made from, where that is another one
    gated: bool | None = None  # whether one must ask for access; None where nobody knows
    page: str | None = None  # where to ask, or to read the terms
    here: bool = False  # whether it was fetched already

    @property
    def non_commercial(self) -> bool:
        """Whether a licence says that it is not for commercial use."""
        return any(NON_COMMERCIAL.search(text) for text in (self.licence, self.origin or ""))


class OpenPin(NamedTuple):
    """A hash that nobody has filled in yet: of an entry in a section, its key, and its repository or address."""

    section: str
    name: str
    key: str
    source: str


def terms_of(config: Mapping[str, Any]) -> Iterator[Terms]:
    """Yield the terms of all models, judges with an engine, splits and gold of a study."""
    paths = Paths(config)
    for section in ("model", "judge"):
        for name, entry in config[f"{section}_entries"].items():
            if not entry.get("engine") or entry.get("recorded"):
                continue
            engine = config["engine_entries"][entry["engine"]]
            weights = engine.get("weights") or {"kind": "folder", "path": entry["engine"]}
            here = not weight_source(weights).fetched or os.path.isfile(paths.weights_manifest(weights))
            licence, where = engine["licence"] or NOT_STATED, source_text(weights)
            yield Terms(f"{section}s", name, where, licence, None, engine["gated"], engine["terms"], here)
            if entry.get("lora"):
                yield Terms(f"{section}s", f"{name} (adapter)", source_text(entry["lora"]), NOT_STATED, here=here)
    for section, key in (("splits", "split_entries"), ("gold", "gold_entries")):
        for name, entry in config[key].items():
            source = entry["source"]
            here = not is_fetched(source) or os.path.isfile(fetched_path(source, paths.cache))
            licence, origin = entry["licence"] or NOT_STATED, entry.get("licence_of_origin")
            gated, page = bool(entry.get("gated")), entry.get("terms")
            yield Terms(section, name, source_text(source), licence, origin, gated, page, here)


def open_pins(config: Mapping[str, Any]) -> list[OpenPin]:
    """Return the pins of a study that are open."""
    return [
        OpenPin(section, name, source.open_pin, source_text(source.model_dump()))
        for section, name, _, source in Study(config).sources()
        if source.open_pin is not None
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


def pin_lines(pins: Sequence[OpenPin], study_file: str, lock: str | None) -> list[str]:
    """Return what is not pinned yet, and what to do; if all is pinned, the lock file, if there is one."""
    if not pins:
        return [f"Every model and data set is pinned, with {lock}."] if lock else []
    found: dict[str, dict[str, None]] = {}
    for pin in pins:
        found.setdefault(f"{WHAT_IS_OPEN[pin.key]} of {pin.source}", {})[pin.name] = None
    lines = [f"NOT PINNED YET: run `refusal-eval pin {study_file}`; before that no run starts"]
    return [*lines, *filled(f"{text} ({', '.join(names)})" for text, names in found.items())]


def licence_lines(terms: Sequence[Terms], token: bool) -> list[str]:
    """Return the licences by section, what is not for commercial use, and what is gated."""
    lines = ["LICENCES (as their publishers state them, at the time when the entries were written)"]
    for section in dict.fromkeys(one.section for one in terms):
        for number, text in enumerate(_licences([one for one in terms if one.section == section])):
            first, *further = filled([text], indent=" " * 11)
            lines += [f"  {section if number == 0 else '':<9}{first.strip()}", *further]
    not_free = [one for one in terms if one.non_commercial]
    names = [f"{one.name} ({one.origin or one.licence}{f', {one.page}' if one.page else ''})" for one in not_free]
    told = [f"NOT FOR COMMERCIAL USE: {', '.join(names)}."] if names else []
    return [*lines, *filled(told), *filled(_gates(terms, token))]


def unverified_lines(config: Mapping[str, Any]) -> list[str]:
    """Return the engines that never ran, and what nobody verified; nothing if there is nothing to say."""
    never, together = never_verified(config), dict[str, list[str]]()
    for what, names in unverified(config).items():
        together.setdefault(_names(names), []).append(what)
    texts = [f"{names}: {'; '.join(what)}" for names, what in together.items()]
    if never:
        which = f"all {len(never)}" if len(never) == len(config["engine_entries"]) > 1 else ", ".join(never)
        check = "`refusal-eval check --model ...` tries one"
        texts.insert(0, f"Engines that nobody has seen work with the real vLLM: {which}; {check}.")
    return ["NEVER VERIFIED", *filled(texts)] if texts else []


def _licences(terms: Sequence[Terms]) -> Iterator[str]:
    """Yield each licence with the entries under it, and of those the licences of what they were made from."""
    found: dict[str, dict[str | None, list[str]]] = {}
    for one in terms:
        found.setdefault(one.licence, {}).setdefault(one.origin, []).append(one.name)
    for licence, origins in found.items():
        if own := origins.pop(None, []):
            yield f"{licence}: {', '.join(own)}"
        if origins:
            made = "; ".join(f"{origin}: {', '.join(names)}" for origin, names in origins.items())
            yield f"{licence}. That of what it was made from: {made}"


def _gates(terms: Sequence[Terms], token: bool) -> Iterator[str]:
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
