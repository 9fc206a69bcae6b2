"""What a user should know of a study's entries before a run: licences, gates, open pins, what nobody verified."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from refusal_eval.config.datasets import Split
from refusal_eval.config.entries import Gold
from refusal_eval.study.study import Study
from refusal_eval.tools.plan.page_lines import filled
from refusal_eval.workflow.weights_stage import engine_weights

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
    study = Study(config)
    yield from _terms_of_engines("models", study.models, study)
    yield from _terms_of_engines("judges", study.judges, study)
    yield from _terms_of_rows("splits", study.splits, study)
    yield from _terms_of_rows("gold", study.gold, study)


def _terms_of_engines(section: str, entries: Mapping[str, Any], study: Study) -> Iterator[Terms]:
    for name, entry in entries.items():
        if not getattr(entry, "engine", None) or getattr(entry, "recorded", None):
            continue
        engine, weights = study.engines[entry.engine], engine_weights(study, entry.engine)
        manifest = study.paths.weights_manifest(weights) if weights and weights.fetched else None
        where, here = weights.shown if weights else entry.engine, manifest is None or os.path.isfile(manifest)
        yield Terms(section, name, where, engine.licence or NOT_STATED, None, engine.gated, engine.terms, here)
        if adapter := getattr(entry, "lora", None):
            yield Terms(section, f"{name} (adapter)", adapter.shown, NOT_STATED, here=here)


def _terms_of_rows(section: str, entries: Mapping[str, Split | Gold], study: Study) -> Iterator[Terms]:
    for name, entry in entries.items():
        source, licence = entry.source, entry.licence or NOT_STATED
        here = not source.fetched or os.path.isfile(source.cached_path(study.paths.cache))
        yield Terms(section, name, source.shown, licence, entry.licence_of_origin, entry.gated, entry.terms, here)


def open_pins(config: Mapping[str, Any]) -> list[OpenPin]:
    """Return the pins of a study that are open."""
    return [
        OpenPin(section, name, source.open_pin, source.shown)
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
