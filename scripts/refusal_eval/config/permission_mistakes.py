"""May a study use what it names: is it on, is it pinned, and is there a reference for what splits and gold cite."""

from collections.abc import Iterator
from typing import Any

from refusal_eval.config.change import source_fields
from refusal_eval.config.draft import LISTS, Draft
from refusal_eval.config.problems import Mistake
from refusal_eval.config.references import FILE, read_references
from refusal_eval.config.shapes import KeyPath
from refusal_eval.config.source_entries import RowSource
from refusal_eval.config.source_entries import Source as Pinned
from refusal_eval.core.hints import nearest


def permission_mistakes(draft: Draft) -> Iterator[Mistake]:
    """Yield each split, gold entry, model and judge that is off and not allowed.

    A model or a judge is off where its engine is: the terms are those of the weights.
    """
    allowed, known = draft.names("allow"), [name for section in LISTS for name in draft.names(section)]
    known += [*draft.direction_splits(), *(name for name in draft.view.seconds if name not in known)]
    for place, name in draft.named("allow"):
        if name not in known:
            message = f"`{name}` is not one of `models`, `splits`, `judges` or `gold`{nearest(name, known)}"
            yield ("allow", place), message
    for where, section, name in _used(draft):
        entry, whose = _what_has_terms(draft, section, name)
        if entry is not None and not entry.enabled and name not in allowed:
            terms = f" (terms: {entry.terms})" if entry.terms else ""
            message = f"`{name}` is off by default: {whose}{entry.reason.rstrip('.')}{terms}. To use it all the "
            yield where, f"{message}same, write `allow: [{name}]` into the study"


def _used(draft: Draft) -> Iterator[tuple[KeyPath, str, str]]:
    """Yield where, in which section and by which name the study uses an entry; what it lists comes first."""
    for section in LISTS:
        for place, name in draft.named(section):
            yield (section, place), section, name
    for name in draft.names("judges"):
        judge = draft.catalogue.valid["judges"].get(name)
        if judge is not None and (second := judge.second()) and second not in draft.names("judges"):
            yield ("judges", name, "then"), "judges", second
    for where, side in draft.sides():
        for key, names in (("split", [side.split]), ("without", side.without or [])):
            for name in names:
                if name in draft.catalogue.written["splits"] and name not in draft.names("splits"):
                    yield (*where, key), "splits", name


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
    lock, command = draft.lock, f"`refusal-eval pin {draft.written.layers[-1].source.file}`"
    for section, key in source_fields():
        for name in draft.used[section]:
            source: Pinned | None = getattr(draft.catalogue.valid[section][name], key, None)
            if source is None or source.pin is None or not draft.may_use(section, name):
                continue
            here, pin, file = (section, name, key), getattr(source, source.pin), getattr(source, "file", None)
            pins = lock.pins(section, source) if lock is not None else []
            if pin is None and not draft.open_pins and (lock is None or lock.open_pin(section, source) is None):
                lacks = f" ({lock.lacks(section, source)})" if lock is not None else ""
                message = f"the {source.pin_words} is not known yet{lacks}, and a study runs only on what is pinned: "
                message += f"run {command}, which asks for it and writes it into the study's lock file"
                yield (*here, source.pin), message
            elif lock is not None and pin is not None and pins and pin not in pins:
                message = f"is {pin}, but {lock.line(section, source)} has {' and '.join(pins)}: run {command} to lock "
                message += "what the entry says, or write what the lock says into the entry"
                yield (*here, source.pin), message
            elif lock is not None and file and not lock.lists(section, source, file):
                message = f"`{file}` is not among the files that {lock.line(section, source)} locks: run {command}"
                yield (*here, "file"), message
            elif (
                lock is not None and not file and isinstance(source, RowSource) and not lock.lists_all(section, source)
            ):
                message = f"a split takes all files of its repository, and {lock.line(section, source)} does not lock "
                yield here, message + f"them all: run {command}"
