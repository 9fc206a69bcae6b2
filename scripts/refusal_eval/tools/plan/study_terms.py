"""What to know about a study's entries before a run: licences, gates, open pins, unverified facts."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from refusal_eval.config.change import changes_of
from refusal_eval.program.page_lines import group_by
from refusal_eval.study.study import Study
from refusal_eval.workflow.weights_stage import engine_weights

NOT_STATED = "none stated"
OF_A_SERVER = "terms of a server"  # of another party, which shows no weights
NON_COMMERCIAL = re.compile(r"\bNC\b|non-?commercial|not for commercial", re.IGNORECASE)
MANY = 6  # names that are still listed one by one


def terms_of(study: Study) -> Iterator[dict[str, Any]]:
    """Yield the terms of use of a study's models, judges with an engine, splits and gold, as plain values.

    `source` is a repository on the hub, an address, a package or a file; `licence` what its publisher states, and
    `origin` the licence of its source, if different. `gated` says whether access must be requested (None: unknown),
    `page` where to request it or read the terms, and `here` whether it was already fetched.
    """
    engines: dict[str, Mapping[str, Any]] = {"models": study.every_model, "judges": study.engine_judges}
    for section, entries in engines.items():
        for name, entry in entries.items():
            if not getattr(entry, "engine", None) or not getattr(entry, "asks_engine", True):
                continue
            engine, weights = study.engines[entry.engine], engine_weights(study, entry.engine)
            here = not weights or not weights.fetched or os.path.isfile(weights.copy_file(study.paths.cache))
            where = weights.shown if weights else entry.engine
            licence = engine.licence or (OF_A_SERVER if engine.elsewhere else None)
            yield _terms(section, name, where, here, licence, gated=engine.gated, page=engine.terms)
            for change in changes_of(entry):
                if change.has_source:
                    source = change.value_in(entry)
                    yield _terms(section, f"{name} ({change.wants})", source.shown, here, None)
    rows: dict[str, Mapping[str, Any]] = {"splits": study.settings.split_entries, "gold": study.gold}
    for section, entries in rows.items():
        for name, entry in entries.items():
            source, asked = entry.source, {"origin": entry.licence_of_origin, "gated": entry.gated, "page": entry.terms}
            here = not source.fetched or os.path.isfile(source.copy_file(study.paths.cache))
            yield _terms(section, name, source.shown, here, entry.licence, **asked)


def _terms(section: str, name: str, source: str, here: bool, licence: str | None, **more: Any) -> dict[str, Any]:
    terms = {"section": section, "name": name, "source": source, "licence": licence or NOT_STATED, "here": here}
    terms |= {"origin": None, "gated": None, "page": None} | more
    return terms | {"non_commercial": bool(NON_COMMERCIAL.search(f"{terms['licence']}\n{terms['origin']}"))}


def open_pins(study: Study) -> list[dict[str, str]]:
    """Return the hashes still to be filled in: the entry, the key, and what is hashed."""
    return [
        {"section": section, "name": name, "key": source.open_pin, "source": source.shown}
        for section, name, _, source in study.sources()
        if source.open_pin is not None
    ]


def never_verified(study: Study) -> list[str]:
    """Return the local engines that were never seen to work; others are somebody else's."""
    return [n for n, engine in study.engines.items() if engine.verified == "never" and engine.device_here() is not None]


def unverified(study: Study) -> dict[str, list[str]]:
    """Return the facts that were not verified when entries were written, each with its entries (`engine x`)."""
    said = [
        (f"{word} {name}", what)
        for word in ("engine", "model", "split", "gold")
        for name, entry in study.config[f"{word}_entries"].items()
        for what in entry["unverified"]
    ]
    return {what: [name for name, _ in own] for what, own in group_by(said, lambda one: one[1]).items()}


def unverified_texts(said: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the same as texts, what the same entries say together; of many entries of a kind only how many."""
    for names, own in group_by(said.items(), lambda item: tuple(item[1])).items():
        kinds = []
        for kind, entries in group_by((name.split(" ", 1) for name in names), lambda part: part[0]).items():
            listed = ", ".join(entry for _, entry in entries)
            several = f"{kind}s {listed}" if len(entries) <= MANY else f"{len(entries)} {kind}s"
            kinds.append(several if len(entries) > 1 else f"{kind} {listed}")
        yield f"{'; '.join(kinds)}: {'; '.join(what for what, _ in own)}"


def licences(terms: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield each licence with the entries under it, by section and by the licence of what they were made from."""
    for (section, licence, origin), own in group_by(terms, itemgetter("section", "licence", "origin")).items():
        made = f"; what it was made from, {origin}" if origin else ""
        yield f"{section:<8} {licence}{made}: {', '.join(one['name'] for one in own)}"


def gates(terms: Sequence[Mapping[str, Any]], token: bool) -> Iterator[str]:
    """Yield what is gated or may be, and what to do; `token`: whether a token of the hub is set."""
    closed = [one for one in terms if one["gated"] or (one["gated"] is None and not one["here"])]
    for (source, page), own in group_by(closed, itemgetter("source", "page")).items():
        names = ", ".join(one["name"] for one in own)
        if own[0]["gated"] is None:
            yield f"Not known whether gated: {source} ({names})."
        elif all(one["here"] for one in own):
            yield f"GATED: {source} ({names}); it is here already. Its terms hold: {page}."
        else:
            state = "a token is set here" if token else "no token is set here"
            yield (
                f"GATED: {source} ({names}). Ask for access at {page}, then set HF_TOKEN to a read token of that "
                f"account ({state})."
            )
