"""Pins of a study's entries that nothing fills, or that differ from those of its lock file."""

from collections.abc import Iterator

from refusal_eval.config.draft import Draft
from refusal_eval.config.lock_file import Lock
from refusal_eval.config.problems import Mistake
from refusal_eval.config.source_entries import PINNED
from refusal_eval.config.source_entries import Source as Pinned


def pin_mistakes(draft: Draft) -> Iterator[Mistake]:
    """Yield each pin that is open and that the lock does not fill, and each that differs from the lock's."""
    command = f"`refusal-eval pin {draft.written.layers[-1].source.file}`"
    for section, key in PINNED.items():
        for name in draft.used[section]:
            entry = draft.catalogue.valid[section][name]
            source: Pinned | None = getattr(entry, key, None)
            if source is None or source.pin is None or not draft.may_use(section, name):
                continue
            if (message := _wrong_with(source, section, draft, command)) is not None:
                yield (section, name, key, source.pin), message
            elif (message := _not_locked(source, section, draft.lock, command)) is not None:
                yield (section, name, key, "file"), message


def _wrong_with(source: Pinned, section: str, draft: Draft, command: str) -> str | None:
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
