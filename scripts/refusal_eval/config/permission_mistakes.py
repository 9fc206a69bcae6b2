"""May a study use what it names: is it on, is it pinned, and is there a reference for what splits and gold cite."""

from collections.abc import Iterator
from typing import Any

from refusal_eval.config.draft import LISTS, Draft
from refusal_eval.config.lock_file import Lock
from refusal_eval.config.problems import Mistake
from refusal_eval.config.references import FILE, read_references
from refusal_eval.config.source_entries import PINNED
from refusal_eval.config.source_entries import Source as Pinned
from refusal_eval.core.hints import nearest


def permission_mistakes(draft: Draft) -> Iterator[Mistake]:
    """Yield each split, gold entry, model and judge that is off and not allowed.

    A model or a judge is off where its engine is: the terms are those of the weights.
    """
    allowed, known = draft.names("allow"), [name for section in LISTS for name in draft.names(section)]
    for place, name in draft.named("allow"):
        if name not in known:
            message = f"`{name}` is not one of `models`, `splits`, `judges` or `gold`{nearest(name, known)}"
            yield ("allow", place), message
    for section in LISTS:
        for place, name in draft.named(section):
            entry, whose = _what_has_terms(draft, section, name)
            if entry is not None and not entry.enabled and name not in allowed:
                terms = f" (terms: {entry.terms})" if entry.terms else ""
                message = f"`{name}` is off by default: {whose}{entry.reason.rstrip('.')}{terms}. To use it all the "
                yield (section, place), f"{message}same, write `allow: [{name}]` into the study"


def citation_mistakes(draft: Draft) -> Iterator[Mistake]:
    """Yield references that do not exist, of splits and gold that may be used."""
    references = read_references(draft.root)
    for section in ("splits", "gold"):
        for name in draft.used[section]:
            entry = draft.catalogue.valid[section][name]
            if entry is None or not draft.may_use(section, name):
                continue
            for place, item in enumerate(entry.citation):
                if not item.startswith("@") and item not in references:
                    message = f"there is no `{item}` in {FILE.as_posix()}{nearest(item, references)}"
                    yield (section, name, "citation", place), message


def _what_has_terms(draft: Draft, section: str, name: str) -> tuple[Any, str]:
    """Return the valid entry that is on or off, and words for whose it is: of a model or a judge that of its engine."""
    valid = draft.catalogue.valid
    if section in ("splits", "gold"):
        return valid[section].get(name), ""
    user = draft.catalogue.typed[section].get(name)
    # Recorded answers need no weights.
    engine = None if getattr(user, "recorded", None) else getattr(user, "engine", None)
    return valid["engines"].get(str(engine)), f"the weights of its engine `{engine}` are "


def pin_mistakes(draft: Draft) -> Iterator[Mistake]:
    """Yield each pin that is open and that the lock does not fill, and each that differs from the lock's."""
    command = f"`refusal-eval pin {draft.written.layers[-1].source.file}`"
    for section, key in PINNED.items():
        for name in draft.used[section]:
            entry = draft.catalogue.valid[section][name]
            source: Pinned | None = getattr(entry, key, None)
            if source is None or source.pin is None or not draft.may_use(section, name):
                continue
            if (message := _wrong_pin(source, section, draft, command)) is not None:
                yield (section, name, key, source.pin), message
            elif (message := _not_locked(source, section, draft.lock, command)) is not None:
                yield (section, name, key, "file"), message


def _wrong_pin(source: Pinned, section: str, draft: Draft, command: str) -> str | None:
    lock = draft.lock
    if source.open_pin is not None:
        if draft.open_pins or (lock is not None and lock.open_pin(section, source) is not None):
            return None
        lacks = f" ({lock.lacks(section, source)})" if lock is not None else ""
        return (
            f"the {source.pin_words} is not known yet{lacks}, and a study runs only on what is pinned: run {command}, "
            "which asks for it and writes it into the study's lock file"
        )
    pins, pin = lock.pins(section, source) if lock is not None else [], getattr(source, str(source.pin))
    if lock is None or not pins or pin in pins:
        return None
    return (
        f"is {pin}, but {lock.line(section, source)} has {' and '.join(pins)}: run {command} to lock what the "
        f"entry says, or write what the lock says into the entry"
    )


def _not_locked(source: Pinned, section: str, lock: Lock | None, command: str) -> str | None:
    file = getattr(source, "file", None)
    if lock is None or not file or lock.lists(section, source, file):
        return None
    return f"`{file}` is not among the files that {lock.line(section, source)} locks: run {command}"
