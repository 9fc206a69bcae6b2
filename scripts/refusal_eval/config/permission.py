"""May a study use its splits and gold: are they on, and is there a reference for what they cite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from refusal_eval.config.catalogue import Catalogue
from refusal_eval.config.problems import Problem
from refusal_eval.config.references import FILE, read_references
from refusal_eval.config.source import Written
from refusal_eval.hints import nearest


def check_permissions(
    study: Written, catalogue: Catalogue, used: Mapping[str, Sequence[str]], root: str, problems: list[Problem]
) -> None:
    """Note each split and gold entry that is off and not allowed, and references that do not exist."""
    allowed = _texts(study.get("allow"))
    named = {section: _texts(study.get(section)) for section in ("splits", "gold")}
    known = [name for names in named.values() for name in names]
    for index, name in enumerate(allowed):
        if name not in known:
            message = f"`{name}` is not one of `splits` or `gold`{nearest(name, known)}"
            problems.append(study.problem(("allow", index), message))
    for section, names in named.items():
        for index, name in enumerate(names):
            entry = catalogue.valid[section].get(name)
            if entry is not None and not entry.enabled and name not in allowed:
                terms = f" (terms: {entry.terms})" if entry.terms else ""
                message = f"`{name}` is off by default: {entry.reason.rstrip('.')}{terms}. To use it all the same, "
                problems.append(study.problem((section, index), f"{message}write `allow: [{name}]` into the study"))
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


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
