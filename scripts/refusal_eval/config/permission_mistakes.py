"""May a study use what it names: is it on, and is there a reference for what its splits and gold cite."""

from collections.abc import Iterator
from typing import Any

from refusal_eval.config.draft import LISTS, Draft
from refusal_eval.config.problems import Mistake
from refusal_eval.config.references import FILE, read_references
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
