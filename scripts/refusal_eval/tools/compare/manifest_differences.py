"""What differs between two studies by their manifests: settings, engines, versions, what served, and files."""

from collections.abc import Iterator, Mapping
from typing import Any

from refusal_eval.core.files import canonical_json

# Where results lie and what a study is called changes no number; files and servings are compared in their own way.
_IGNORED = ("study", "description", "results_dir", "store_dir", "cache_dir", "private_folders", "lock")
_SERVING = ("serving", "judge_serving")
_OWN_WAY = ("files", *_SERVING)


Setting = tuple[str, str | None, str | None]  # its name and value in both studies; None where one does not have it


def settings_that_differ(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Setting]:
    """Return every setting of two manifests that differs, sorted by name; what only one has is named as a whole.

    Servings (hardware, driver, versions that answered) have hashes for names and are compared as sets of settings.
    """
    one, other = ({k: v for k, v in manifest.items() if k not in _OWN_WAY} for manifest in (first, second))
    for manifest in (one, other):
        if isinstance(manifest.get("study"), Mapping):
            manifest["study"] = {k: v for k, v in manifest["study"].items() if k not in _IGNORED}
    found = list(_differences("", one, other))
    for whose in _SERVING:
        served = [_values(manifest.get(whose) or {}) for manifest in (first, second)]
        for name in {*served[0], *served[1]}:
            sides = [", ".join(sorted(side.get(name, ()))) or None for side in served]
            if sides[0] != sides[1]:
                found.append((f"{whose}.{name}", sides[0], sides[1]))
    return sorted(found)


def files_that_differ(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[tuple[str, list[int]]]:
    """Return for each kind of file (prompts, answers, ...) how many are the same, different, and only in one manifest.

    A row has the kind and four numbers; the last two are of files only in the first and only in the second manifest.
    """
    one, other = (manifest.get("files") or {} for manifest in (first, second))
    found: dict[str, list[int]] = {}
    for name in {*one, *other}:
        fate = 2 if name not in other else 3 if name not in one else int(one[name] != other[name])
        found.setdefault(name.split("/", 1)[0], [0, 0, 0, 0])[fate] += 1
    return sorted(found.items())


def _differences(path: str, first: Any, second: Any) -> Iterator[Setting]:
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for key in sorted({*first, *second}):
            inner = f"{path}.{key}" if path else str(key)
            if key in first and key in second:
                yield from _differences(inner, first[key], second[key])
            else:
                yield inner, _value_text(first, key), _value_text(second, key)
    elif first != second:
        yield path, canonical_json(first), canonical_json(second)


def _value_text(holder: Mapping[str, Any], key: str) -> str | None:
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
