"""What differs between two studies by their manifests: settings, engines, versions, what served, and files."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from refusal_eval.core.files import canonical_json

# Where results lie and what a study is called changes no number; files and servings are compared in their own way.
_IGNORED = {"study": {"study", "description", "results_dir", "store_dir", "cache_dir", "private_folders", "lock"}}
_OWN_WAY = ("files", "serving")


Setting = tuple[str, str | None, str | None]  # its name and value in both studies; None where one does not have it


def settings_that_differ(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Setting]:
    """Return every setting of two manifests that differs, sorted by name; what only one has is named as a whole.

    Servings (hardware, driver, versions that answered) have hashes for names and are compared as sets of settings.
    """
    one, other = ({k: v for k, v in manifest.items() if k not in _OWN_WAY} for manifest in (first, second))
    for section, names in _IGNORED.items():
        for manifest in (one, other):
            if isinstance(manifest.get(section), Mapping):
                manifest[section] = {k: v for k, v in manifest[section].items() if k not in names}
    found = list(_differences("", one, other))
    served = [_values(manifest.get("serving") or {}) for manifest in (first, second)]
    for name in sorted({*served[0], *served[1]}):
        sides = [", ".join(sorted(side.get(name, ()))) or None for side in served]
        if sides[0] != sides[1]:
            found.append((f"serving.{name}", sides[0], sides[1]))
    return sorted(found)


def files_that_differ(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[tuple[str, int, int, int, int]]:
    """Return for each kind of file (prompts, answers, ...) how many have the same content, other content, or are alone.

    A row has the kind, and how many are the same, different, only in the first and only in the second manifest.
    """
    one, other = (manifest.get("files") or {} for manifest in (first, second))
    counts: Counter[tuple[str, str]] = Counter()
    for name in {*one, *other}:
        both = name in one and name in other
        fate = ("same" if one[name] == other[name] else "different") if both else "first" if name in one else "second"
        counts[name.split("/", 1)[0], fate] += 1
    found = {kind: [counts[kind, fate] for fate in ("same", "different", "first", "second")] for kind, _ in counts}
    return [(kind, *found[kind]) for kind in sorted(found)]  # type: ignore[misc]


def _differences(path: str, first: Any, second: Any) -> Iterator[Setting]:
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for key in sorted({*first, *second}):
            inner = f"{path}.{key}" if path else str(key)
            if key in first and key in second:
                yield from _differences(inner, first[key], second[key])
            else:
                yield inner, _shown(first, key), _shown(second, key)
    elif first != second:
        yield path, canonical_json(first), canonical_json(second)


def _shown(holder: Mapping[str, Any], key: str) -> str | None:
    if key not in holder:
        return None
    return "there" if isinstance(holder[key], Mapping) else canonical_json(holder[key])


def _values(serving: Mapping[str, Any]) -> dict[str, set[str]]:
    """All values of each setting among the servings of a study."""
    found: dict[str, set[str]] = {}
    for one in serving.values():
        for name, value in one.items():
            found.setdefault(name, set()).add(value if isinstance(value, str) else canonical_json(value))
    return found
