"""May a study use what it names: is it on, and is there a reference for what its splits and gold cite."""

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.config.catalogue import Catalogue
from refusal_eval.config.problems import Problem
from refusal_eval.config.references import FILE, read_references
from refusal_eval.config.yaml_source import Written
from refusal_eval.core.hints import nearest


def check_permissions(
    study: Written, catalogue: Catalogue, used: Mapping[str, Sequence[str]], root: str, problems: list[Problem]
) -> None:
    """Note each split, gold entry, model and judge that is off and not allowed, and references that do not exist.

    A model or a judge is off where its engine is: the terms are those of the weights.
    """
    allowed = _texts(study.get("allow"))
    named = {section: _texts(study.get(section)) for section in ("models", "splits", "judges", "gold")}
    known = [name for names in named.values() for name in names]
    for index, name in enumerate(allowed):
        if name not in known:
            message = f"`{name}` is not one of `models`, `splits`, `judges` or `gold`{nearest(name, known)}"
            problems.append(study.problem(("allow", index), message))
    for section, names in named.items():
        for index, name in enumerate(names):
            entry, whose = _what_has_terms(catalogue, section, name)
            if entry is not None and not entry.enabled and name not in allowed:
                terms = f" (terms: {entry.terms})" if entry.terms else ""
                message = f"`{name}` is off by default: {whose}{entry.reason.rstrip('.')}{terms}. To use it all the "
                problems.append(
                    study.problem((section, index), f"{message}same, write `allow: [{name}]` into the study")
                )
    references = read_references(root)
    for section in ("splits", "gold"):
        for name in dict.fromkeys(used[section]):
            entry, written = catalogue.valid[section].get(name), catalogue.written[section][name]
            if entry is None or (not entry.enabled and name not in allowed):
                continue
            for index, item in enumerate(getattr(entry, "citation", ())):
                if not item.startswith("@") and item not in references:
                    message = f"there is no `{item}` in {FILE.as_posix()}{nearest(item, references)}"
                    problems.append(written.problem(("citation", index), message))


def _what_has_terms(catalogue: Catalogue, section: str, name: str) -> tuple[Any, str]:
    """Return the entry that is on or off, and words for whose it is: of a model or a judge that of its engine."""
    if section in ("splits", "gold"):
        return catalogue.valid[section].get(name), ""
    written = catalogue.written[section].get(name)
    # Recorded answers need no weights.
    engine = written.get("engine") if written is not None and not written.get("recorded") else None
    return catalogue.valid["engines"].get(str(engine)), f"the weights of its engine `{engine}` are "


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
