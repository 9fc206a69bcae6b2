"""May a study use what it names: is it on, is it pinned, and is there a reference for what splits and gold cite."""

from collections.abc import Iterator
from typing import Any

from refusal_eval.config.change import changes_of, source_fields
from refusal_eval.config.checked_study import LISTS, CheckedStudy
from refusal_eval.config.kinds import ACTIVATION_USES
from refusal_eval.config.problems import Mistake
from refusal_eval.config.references import FILE, read_references
from refusal_eval.config.shapes import KeyPath
from refusal_eval.config.source_entries import RowSource
from refusal_eval.config.source_entries import Source as Pinned
from refusal_eval.core.hints import nearest


def permission_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield each split, gold entry, model and judge that is off and not allowed.

    A model or a judge is off where its engine is: the terms are those of the weights, or of the server.
    """
    allowed, known = study.names("allow"), [name for section in LISTS for name in study.names(section)]
    known += [name for section in LISTS for name in study.used[section] if name not in known]
    # What has mistakes may use more of the catalogue.
    whole = study.all_valid("judges", *ACTIVATION_USES.names())
    may_be_used = () if whole else {name for section in LISTS for name in study.catalogue.written[section]}
    for place, name in study.named("allow"):
        if name not in known and name not in may_be_used and not study.catalogue.may_be("models", name):
            message = f"`{name}` is not one of `models`, `splits`, `judges` or `gold`{nearest(name, known)}"
            yield ("allow", place), message
    # An entry that stands for several models is allowed by its own name, as the study lists it.
    entries = {one: entry for entry, several in study.catalogue.swept.items() for one in several}
    told = set[tuple[KeyPath, str]]()
    for where, section, name in _used(study):
        entry, whose = _what_has_terms(study, section, name)
        if entry is not None and not entry.enabled and name not in allowed:
            if section == "models" and entries.get(name) in (study.written.get("models") or ()):
                name = entries[name]
            if (where, name) in told:
                continue
            told.add((where, name))
            terms = f" (terms: {entry.terms})" if entry.terms else ""
            message = f"`{name}` is off by default: {whose}{entry.reason.rstrip('.')}{terms}. To use it all the "
            yield where, f"{message}same, write `allow: [{name}]` into the study"


def _used(study: CheckedStudy) -> Iterator[tuple[KeyPath, str, str]]:
    """Yield where, in which section and by which name the study uses an entry; what it lists comes first."""
    for section in LISTS:
        for place, name in study.named(section):
            yield (section, place), section, name
    for name in study.names("judges"):
        judge = study.catalogue.valid["judges"].get(name)
        if judge is not None and (second := judge.second()) and second not in study.names("judges"):
            yield ("judges", name, "then"), "judges", second
    for where, side in study.sides():
        for key, names in (("split", [side.split]), ("without", side.without or [])):
            for name in names:
                if name in study.catalogue.written["splits"] and name not in study.names("splits"):
                    yield (*where, key), "splits", name
    for where, section, name in _made_from(study):
        if name in study.catalogue.written[section] and name not in study.names(section):
            yield where, section, name


def _made_from(study: CheckedStudy) -> Iterator[tuple[KeyPath, str, str]]:
    """Yield where, in which section and by which name an entry is named that prompts are made from."""
    for name, model in study.entries("models").items():
        for change in changes_of(model):
            yield from (
                (("models", name, change.key), "splits", split) for split in change.splits_read(change.value_in(model))
            )
    for name, split in study.entries("splits").items():
        source, here = split.source, ("splits", name, "source")
        if name in study.catalogue.brought:  # made of what the split that brings it names too
            continue
        if source.made_of is not None:
            yield (*here, source.made_of_key), "splits", source.made_of
        yield from ((here, "models", model) for model in source.loads())
        for read in source.reads(name):
            if read.split not in {source.made_of, *study.catalogue.brought}:
                yield here, "splits", read.split
            if read.model is not None:
                yield (*here, read.key), "models", read.model
            if read.judge is not None:
                yield (*here, *read.judge_key), "judges", read.judge


def citation_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield references that do not exist, of splits and gold that may be used."""
    references = read_references(study.root)
    for section in ("splits", "gold"):
        for name in study.used[section]:
            entry = study.catalogue.valid[section].get(name)
            for place, item in enumerate(entry.citation if entry and study.may_use(section, name) else ()):
                if not item.startswith("@") and item not in references:
                    message = f"there is no `{item}` in {FILE.as_posix()}{nearest(item, references)}"
                    yield (section, name, "citation", place), message


def _what_has_terms(study: CheckedStudy, section: str, name: str) -> tuple[Any, str]:
    """Return the valid entry whose terms apply (for models and judges, their engine), and words for whose they are."""
    valid = study.catalogue.valid
    if section in ("splits", "gold"):
        return valid[section].get(name), ""
    user = valid[section].get(name)
    # Answers that are there already need no weights.
    engine = study.engine_of(user) if getattr(user, "asks_engine", True) else None
    # Somebody's server is off for a reason of its own.
    whose = f"the weights of its engine `{getattr(user, 'engine', None)}` are "
    return engine, "" if getattr(engine, "elsewhere", False) else whose


def pin_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield each pin that is open and that the lock does not fill, and each that differs from the lock's."""
    lock, command = study.lock, f"`refusal-eval pin {study.written.layers[-1].source.file}`"
    for section, key in source_fields():
        for name in study.used[section]:
            source: Pinned | None = getattr(study.catalogue.valid[section].get(name), key, None)
            if source is None or source.pin is None or not study.may_use(section, name):
                continue
            here, pin, file = (section, name, key), getattr(source, source.pin), getattr(source, "file", None)
            pins = lock.pins(section, source) if lock is not None else []
            if pin is None and not study.open_pins and (lock is None or lock.open_pin(section, source) is None):
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
