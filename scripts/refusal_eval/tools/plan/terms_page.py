"""The second half of a plan's page: open pins, licences, what is gated, what nobody verified."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from refusal_eval.tools.plan.plan_page import filled
from refusal_eval.tools.plan.study_terms import SECTIONS, OpenPin, Terms, never_verified, unverified

MANY = 6  # names that are still listed one by one


def pin_lines(pins: Sequence[OpenPin], study_file: str, lock: str | None) -> list[str]:
    """Return what is not pinned yet, and what to do; if all is pinned, the lock file, if there is one.

    Args:
        pins: what is open.
        study_file: the study's file, as a user names it.
        lock: path of the study's lock file.
    """
    if not pins:
        return [f"Every model and data set is pinned, with {lock}."] if lock else []
    lines = [f"NOT PINNED YET: run `make pin CONFIG={study_file}`; before that no run starts"]
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
        check = "`make gpu-check MODEL=...` tries one"
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
