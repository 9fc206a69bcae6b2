"""Validation by pydantic, with its errors in plain English and the nearest valid names."""

import copy
import datetime
import functools
import re
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import BaseModel, TypeAdapter, ValidationError

from refusal_eval.config.problems import Problem, one_of
from refusal_eval.config.shapes import (
    FORMS,
    Entry,
    KeyPath,
    fields_of,
    infos_of,
    is_entry,
    kind_key,
    kinds_of,
    leaves,
    shown,
)
from refusal_eval.config.yaml_source import Written, look_up
from refusal_eval.core.hints import nearest, nearest_name

TYPE_ERROR = re.compile(r"_(type|parsing|from_float|inexact)$")
UNKNOWN_KIND = ("union_tag_invalid", "union_tag_not_found")
SLIP = 0.8  # so near to a key of its own level is a slip
# Errors of the other member of a union of a list and a mapping.
PLAIN_TYPES = ("string_type", "float_type")
OTHER_MEMBER = (("list_type", dict), ("model_type", list))
WORDS = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    datetime.date: "a day such as 2026-01-31",
    list: "a list",
    dict: "a mapping of keys to values",
}
BOUNDS = {
    "greater_than_equal": "at least",
    "greater_than": "more than",
    "less_than_equal": "at most",
    "less_than": "less than",
}


@dataclass(frozen=True)
class Explained:
    """One mistake in a value, in plain English.

    Attributes:
        path: the key.
        message: what is wrong.
        missing: whether the key is missing.
        meant: for an unknown key, the key that was probably meant.
        assume: for an unknown kind, the mapping around it with the kind that was probably meant.
    """

    path: KeyPath
    message: str
    missing: bool = False
    meant: str | None = None
    assume: dict[Any, Any] | None = None
    misnames_kind: bool = False  # whether it is an unknown key in the place of the one that says the kind


@dataclass(frozen=True)
class Spot:
    """Where an error of pydantic's is.

    Attributes:
        path: the key's.
        owner: the class that owns the key.
        others: the classes that the owner's mapping would have if it were of another kind.
        types: those that the key may have.
        is_key: whether the key itself is wrong, and not its value.
    """

    path: KeyPath
    owner: type[BaseModel] | None
    others: list[type[BaseModel]]
    types: list[Any]
    is_key: bool


def validated(annotation: Any, written: Written, problems: list[Problem], also: Iterable[str] = ()) -> Any:
    """Return the validated value, or None after noting all its mistakes.

    Args:
        problems: takes the mistakes.
        also: keys that are allowed beside those of the class and were taken out already (`like`).
    """
    also = tuple(also)
    value, mistakes = check(annotation, written.value, also)
    incomplete = written.broken or any(mistake.meant in also for mistake in mistakes)
    for mistake in mistakes:
        if not (mistake.missing and incomplete):
            problems.append(written.problem(mistake.path, mistake.message, mistake.missing))
    return value


def check(annotation: Any, value: Any, also: tuple[str, ...] = ()) -> tuple[Any, list[Explained]]:
    """Return the validated value and no mistakes, or None and all mistakes."""
    try:
        return _adapter(annotation).validate_python(value), []
    except ValidationError as error:
        mistakes = _of_the_kind_meant(_explained(annotation, value, error, also), value)
    # Nothing inside a mapping of unknown kind is validated: take the kind that was meant, and look again.
    repaired = copy.deepcopy(value)
    for mistake in mistakes:
        if mistake.assume is not None:
            owner, _ = look_up(repaired, mistake.path[:-1])
            owner.clear()
            owner.update(mistake.assume)
    if any(mistake.assume is not None for mistake in mistakes):
        known = {mistake.path: mistake for mistake in mistakes}  # one of each path
        mistakes += [found for found in check(annotation, repaired, also)[1] if known.get(found.path) != found]
    return None, mistakes


def _of_the_kind_meant(mistakes: list[Explained], value: Any) -> list[Explained]:
    """Return the mistakes without those in mappings whose kind stands under a misspelt key: it is another kind."""
    found = mistakes
    for mistake in [mistake for mistake in mistakes if mistake.misnames_kind]:
        *owner_path, key = mistake.path
        owner, _ = look_up(value, owner_path)
        said = {name: item for name, item in owner.items() if name != key} | {mistake.meant: owner[key]}
        found = [other for other in found if list(other.path[: len(owner_path)]) != owner_path]
        found.append(replace(mistake, assume=said))
    return found


def valid_keys(entry: type[BaseModel], value: dict[Any, Any]) -> Any:
    """Return an entry of those keys whose values have no mistake; a key that must be there and has none is None."""
    wrong = {mistake.path[0] for mistake in check(entry, value)[1] if mistake.path}
    required = {name: None for name, field in entry.model_fields.items() if field.is_required()}
    valid = {
        name: _adapter(hint).validate_python(value[name])
        for name, hint in fields_of(entry).items()
        if name in value and name not in wrong
    }
    return entry.model_construct(**required | valid)


def valid_items(annotation: Any, values: Any) -> dict[Any, Any]:
    """Return the items of a list, or of a mapping, that have no mistake, by their place or name."""
    placed = values.items() if isinstance(values, dict) else enumerate(values if isinstance(values, list) else ())
    checked = ((place, check(annotation, value)) for place, value in placed)
    return {place: item for place, (item, mistakes) in checked if not mistakes}


@functools.cache
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation)


def ask_for_kinds_again() -> None:
    """Let classes that were used before know the kinds that were added since (see `OfKind`)."""
    _adapter.cache_clear()
    todo = Entry.__subclasses__()  # in the order in which they were defined: what a class holds comes before it
    for entry in todo:
        todo.extend(entry.__subclasses__())
        if entry.model_config.get("defer_build") and entry.__pydantic_complete__:
            entry.model_rebuild(force=True)


def _explained(annotation: Any, value: Any, error: ValidationError, also: tuple[str, ...]) -> list[Explained]:
    found: dict[KeyPath, Explained] = {}
    for item in error.errors(include_url=False):
        spot = follow(annotation, item["loc"])
        if item["type"] == "literal_error" and isinstance(item["input"], dict) and any(map(is_entry, spot.types)):
            continue  # a word or a mapping may stand here: of a mapping only what is wrong inside it is reported
        if item["type"] in PLAIN_TYPES and isinstance(item["input"], dict) and any(map(is_entry, spot.types)):
            continue  # the same of a text or a number, or a mapping
        plain = item["type"] in ("literal_error", "string_type")
        if plain and isinstance(item["input"], list) and _takes_list(spot.types):
            continue  # the same of a word or a list
        if (
            (item["type"], type(item["input"])) in OTHER_MEMBER
            and _takes_list(spot.types)
            and any(map(is_entry, spot.types))
        ):
            continue  # a list or a mapping may stand here: of what does only what is wrong inside it is reported
        mistake = _explain(item, spot, also if len(spot.path) == 1 else ())
        found.setdefault(mistake.path, mistake)
        if item["type"] in UNKNOWN_KIND and mistake.assume is None and isinstance(item["input"], dict):
            for inside in _whatever_its_kind(spot, item["input"]):
                found.setdefault(inside.path, inside)
    # A misspelt key is one mistake, not also a missing one.
    meant = {(*mistake.path[:-1], mistake.meant) for mistake in found.values() if mistake.meant is not None}
    return [mistake for mistake in found.values() if not (mistake.missing and mistake.path in meant)]


def _whatever_its_kind(spot: Spot, value: dict[Any, Any]) -> Iterator[Explained]:
    """Yield what is wrong inside a mapping of unknown kind, whichever of all kinds it is meant to be."""
    kinds = _of_one_key([leaf for leaf in spot.types if is_entry(leaf) and kinds_of(leaf)], value)
    mistakes = [check(kind, value | {kind_key(kind): kinds_of(kind)[0]})[1] for kind in kinds]
    by_kind = [{mistake.path: mistake for mistake in found} for found in mistakes]
    for path in by_kind[0]:
        if path and all(path in found for found in by_kind):
            # What is wrong with a key says more than that a kind has none of this name.
            having = [found for kind, found in zip(kinds, by_kind, strict=True) if path[0] in fields_of(kind)]
            slips = [found for found in by_kind if found[path].meant is not None]
            # A kind that is named and not known may be a plug-in's, with keys of its own.
            others = [] if kind_key(kinds[0]) in value else by_kind
            for found in (*having, *slips, *others)[:1]:
                yield replace(found[path], path=(*spot.path, *path))


def _explain(item: Any, spot: Spot, also: tuple[str, ...]) -> Explained:
    kind, value, context = item["type"], item.get("input"), item.get("ctx", {})
    path = spot.path
    if kind == "invalid_key":  # its place is no word either
        return Explained(path[:-1], f"a key must be text, not {shown(value)}: put it in quotes")
    if spot.is_key and not isinstance(value, str):
        return Explained(path, f"this key must be text, not {shown(value)}: put it in quotes")
    if kind == "extra_forbidden" and spot.owner and (place := _place_of(str(path[-1]), spot.owner)):
        return Explained(path, f"unknown key `{path[-1]}`: {place}")
    if kind == "extra_forbidden":
        allowed = [*(fields_of(spot.owner) if spot.owner else ()), *also]
        if (there := _key_of_others(str(path[-1]), allowed, spot)) is not None:
            return there
        message = f"unknown key `{path[-1]}`" + nearest(path[-1], allowed)
        meant = nearest_name(path[-1], allowed)
        kinds = {kind for one in (spot.owner, *spot.others) if one for kind in kinds_of(one)}
        is_kind = spot.owner is not None and meant == kind_key(spot.owner) and isinstance(value, str) and value in kinds
        return Explained(path, message, meant=meant, misnames_kind=is_kind)
    if kind == "missing":
        field = infos_of(spot.owner).get(str(path[-1])) if spot.owner else None
        words = f" ({field.description.rstrip('.')})" if field and field.description else ""
        return Explained(path, "this key is missing" + words, missing=True)
    if kind in UNKNOWN_KIND:
        return _wrong_kind(path, value, [leaf for leaf in spot.types if is_entry(leaf)])
    if kind == "literal_error" and not any(map(is_entry, spot.types)) and not _takes_list(spot.types):
        allowed = [word for leaf in spot.types for word in typing.get_args(leaf)]
        return Explained(path, f"{shown(value)} is not allowed" + nearest(value, allowed))
    if kind == "string_pattern_mismatch":
        return Explained(path, f"{shown(value)} is not {FORMS[context['pattern']]}")
    if kind in ("too_short", "string_too_short"):
        return Explained(path, "must not be empty")
    if kind == "value_error":
        return Explained(path, item["msg"].removeprefix("Value error, "))
    if TYPE_ERROR.search(kind) or kind == "literal_error":
        hint = _hint(spot.types, value) or _hint_of_others(spot, value)
        return Explained(path, f"must be {_in_words(spot.types)}, not {shown(value)}{hint}")
    if kind in BOUNDS:
        bound = next(iter(context.values()))
        least = f"{bound:g}" if isinstance(bound, float) else str(bound)
        return Explained(path, f"must be {BOUNDS[kind]} {least}, not {shown(value)}")
    return Explained(path, item["msg"].replace("Input should be", "must be") + f", not {shown(value)}")


def _place_of(key: str, owner: type[BaseModel]) -> str:
    """Return where an unknown key belongs: outside, as its class says, or one level down."""
    inside = [
        f"`{name}`"
        for name, hint in fields_of(owner).items()
        if any(is_entry(leaf) and key in fields_of(leaf) for leaf, _ in leaves(hint))
    ]
    if key in (outside := getattr(owner, "NO_KEYS", {})):
        return str(outside[key])
    # `layer` for `layers` is a slip, also where some key below is called `layer`.
    return f"it belongs in {one_of(inside)}" if inside and not nearest_name(key, fields_of(owner), SLIP) else ""


def _key_of_others(key: str, allowed: list[str], spot: Spot) -> Explained | None:
    """Return that a key is one of other kinds, or a slip of one; None where it is rather a slip of one's own."""
    others = {name: [other for other in spot.others if name in fields_of(other)] for name in _keys(spot.others)}
    if spot.owner is None or nearest_name(key, allowed, SLIP):
        return None
    if key in others:
        return Explained(spot.path, f"is for {_kinds_only(others[key], spot.owner)}; leave it out")
    meant = None if nearest_name(key, allowed) else nearest_name(key, others, SLIP)
    if meant is None:
        return None
    message = f"unknown key `{key}`; did you mean `{meant}`? That is for {_kinds_only(others[meant], spot.owner)}"
    return Explained(spot.path, message, meant=meant)


def _keys(entries: Iterable[type[BaseModel]]) -> set[str]:
    return {name for entry in entries for name in fields_of(entry)}


def _hint_of_others(spot: Spot, value: Any) -> str:
    """Return which kinds would take a value that a key of its owner does not take."""
    key = str(spot.path[-1]) if spot.path else ""
    if spot.owner is None or key not in fields_of(spot.owner):
        return ""
    able = [other for other in spot.others if key in fields_of(other) and not check(fields_of(other)[key], value)[1]]
    kinds = _kinds_only(able, spot.owner)
    return f": that is for {kinds}" if kinds else ""


def _kinds_only(others: list[type[BaseModel]], own: type[BaseModel]) -> str:
    """Return that something is for some kinds of a union and not for one's own; nothing where there are none."""
    key, kinds = kind_key((others or [own])[0]), [f"`{kind}`" for other in others for kind in kinds_of(other)]
    word = key if len(kinds) == 1 else f"{key}s"
    listed = ", ".join(kinds[:-1]) + (" and " if kinds[1:] else "") + kinds[-1] if kinds else ""
    return f"{word} {listed} only, and this one is `{kinds_of(own)[0]}`" if kinds else ""


def _takes_list(types: Iterable[Any]) -> bool:
    return any(typing.get_origin(leaf) is list for leaf in types)


def _wrong_kind(path: KeyPath, value: Any, entries: list[type[BaseModel]]) -> Explained:
    if not isinstance(value, dict):
        by_key: dict[str, list[str]] = {}
        for entry in entries:
            by_key.setdefault(kind_key(entry), []).extend(kinds_of(entry))
        ways = [f"a `{key}` (one of {', '.join(sorted(kinds))})" for key, kinds in by_key.items()]
        return Explained(path, f"must be a mapping with {' or '.join(ways)}, not {shown(value)}")
    of_all, entries = entries, _of_one_key(entries, value)
    key, kinds = kind_key(entries[0]), [kind for entry in entries for kind in kinds_of(entry)]
    here = (*path, key)
    if key in value:
        meant = nearest_name(value[key], kinds)
        named, word = shown(value[key]), isinstance(value[key], str)
        message = (f"unknown {key} {named}" if word else f"{named} is not allowed") + nearest(value[key], kinds)
        return Explained(here, message, assume={**value, key: meant} if meant is not None else None)
    unknown = {name for name in value if isinstance(name, str)} - _keys(of_all)
    for meant in dict.fromkeys(map(kind_key, of_all)):
        misspelt = nearest_name(meant, unknown, cutoff=0.65)
        if misspelt is not None:
            others = {name: item for name, item in value.items() if name != misspelt}
            message = f"unknown key `{misspelt}`; did you mean `{meant}`?"
            return Explained((*path, misspelt), message, assume={**others, meant: value[misspelt]})
    return Explained(here, f"this key is missing (allowed: {', '.join(sorted(_with_needs(entries)))})", missing=True)


def _of_one_key(entries: list[type[BaseModel]], value: Any) -> list[type[BaseModel]]:
    """Return the classes of a union that are told apart by a key that a mapping has, else by that of the first one."""
    keys = list(dict.fromkeys(map(kind_key, entries)))
    key = next((one for one in keys if isinstance(value, dict) and one in value), keys[0])
    return [entry for entry in entries if kind_key(entry) == key]


def _with_needs(entries: list[type[BaseModel]]) -> Iterator[str]:
    """Yield each kind with the keys that it must have and not all kinds must: `gated (needs scale and gate)`."""
    required = [[name for name, field in entry.model_fields.items() if field.is_required()] for entry in entries]
    of_all = set(required[0]).intersection(*required)
    for entry, names in zip(entries, required, strict=True):
        own = [name for name in names if name not in of_all]
        needs = f" (needs {', '.join(own[:-1])}{' and ' * (len(own) > 1)}{own[-1]})" if own else ""
        yield from (f"{kind}{needs}" for kind in kinds_of(entry))


def _in_words(types: list[Any]) -> str:
    words = [_word(leaf) for leaf in types if leaf is not type(None) and not (leaf is int and float in types)]
    return one_of(list(dict.fromkeys(words)))


def _word(leaf: Any) -> str:
    if typing.get_origin(leaf) is Literal:
        return one_of([f"`{word}`" for word in typing.get_args(leaf)])
    return WORDS[dict] if is_entry(leaf) else WORDS.get(typing.get_origin(leaf) or leaf, "something else")


def _hint(types: list[Any], value: Any) -> str:
    if str in types and isinstance(value, bool | int | float | datetime.date):
        return ": put it in quotes"  # such as `label: no`, which YAML reads as false
    if _takes_list(types) and isinstance(value, str):
        return f": write [{value}]" if len(value) <= 40 else ""
    needed = [
        (name, hint)
        for leaf in types
        for name, hint in (fields_of(leaf) if is_entry(leaf) else {}).items()
        if infos_of(leaf)[name].is_required()
    ]
    if len(needed) == 1 and isinstance(value, str | int | float) and not check(needed[0][1], value)[1]:
        return f": write {{{needed[0][0]}: {shown(value)}}}"
    return ""


def follow(annotation: Any, loc: tuple[str | int, ...]) -> Spot:
    """Return where pydantic's `loc` leads; beside keys it names members of unions, which are not part of a path."""
    path: list[str | int] = []
    owner: type[BaseModel] | None = None
    others, union = list[type[BaseModel]](), list[type[BaseModel]]()
    here = [leaf for leaf, _ in leaves(annotation)]
    for part in loc:
        entries = [leaf for leaf in here if is_entry(leaf)]
        tagged = [entry for entry in entries if part in kinds_of(entry)]
        if tagged and len(entries) > 1:
            here, union = tagged, [entry for entry in entries if entry not in tagged]
            continue
        if len(here) > 1 and part in [entry.__name__ for entry in entries]:
            continue  # the member of a union that is an entry
        origins = {typing.get_origin(leaf) for leaf in here}
        if len(here) > 1 and list in origins and dict not in origins and not entries and not isinstance(part, int):
            continue  # a member of a union of plain values and a list of them
        if entries and len(here) > 1 and not isinstance(part, int) and str(part).startswith(("list[", "function-")):
            continue  # the member of a union that is a list or a plain value
        inner = [typing.get_args(leaf)[-1] for leaf in here if typing.get_origin(leaf) in (list, dict)]
        if part == "[key]" or not (entries or inner) or str(part).startswith(("literal[", "constrained-str")):
            continue
        path.append(part)
        owner = entries[0] if entries and not isinstance(part, int) else None  # beside a list
        others, union = union, []
        if owner is not None:
            inner = [fields_of(owner)[str(part)]] if part in fields_of(owner) else []
        here = [leaf for hint in inner for leaf, _ in leaves(hint)]
    return Spot(tuple(path), owner, others, here, "[key]" in loc)
