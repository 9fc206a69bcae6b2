"""The catalogue: the shipped entries and the user's, with inheritance (`like:`) and data-set defaults applied."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refusal_eval.config.datasets import Dataset, Split
from refusal_eval.config.engine_entry import AnyEngine
from refusal_eval.config.entries import Gold, Model
from refusal_eval.config.explain import validated
from refusal_eval.config.feature_keys import MODEL_KEYS, FeatureKeys
from refusal_eval.config.feature_keys import SECTIONS as OF_FEATURES
from refusal_eval.config.judge_entry import Judge
from refusal_eval.config.problems import Problem
from refusal_eval.config.shapes import FORMS, MOST_CHARACTERS, REPO, SLUG, Entry, Slug, fields_of, paths_on_disk, shown
from refusal_eval.config.yaml_source import Layer, Source, Written, look_up
from refusal_eval.core.files import shown_path
from refusal_eval.core.hints import nearest, nearest_name
from refusal_eval.core.secret_names import names_a_secret

SECTIONS: dict[str, Any] = {
    "engines": AnyEngine,
    "models": Model,
    "datasets": Dataset,
    "judges": Judge,
    "gold": Gold,
    **{section: OF_FEATURES.get(section) for section in OF_FEATURES.names()},
}
TYPES: dict[str, Any] = SECTIONS | {"splits": Split}
# What one entry is called; gold is called gold.
SECTION_OF = {section.removesuffix("s"): section for section in TYPES}
RESERVED_MODEL = "gold"  # gold answers pass through the judging rules under this model name
LIKE = "like"
VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")


class DatasetInside(Entry):
    """A data set as it is written: the keys of a split, each of which may be left to `defaults`."""

    defaults: Split
    splits: dict[Slug, Split]


@dataclass(frozen=True, eq=False)
class Definition:
    """One entry as one file writes it."""

    section: str
    name: str
    value: Any
    source: Source


class Catalogue:
    """All entries by section and name (splits too), and all mistakes in them.

    A user's entry replaces a shipped one of the same name; with `like:` and its own name it changes a part of it. All
    entries are there as they are `written`, and those without a mistake are `valid`. `swept` has the models that a
    sweep stands for, by its name; they are entries too. Those of `broken_sweeps`, which have mistakes, are not known.
    `brought` names the splits that the source of another one brings.

    Args:
        files: the files, the strongest last.
        shipped: how many of them come with refusal-eval.
        problems: takes the mistakes.
        complete: whether all files are there; if not, unknown names are no mistakes.
    """

    def __init__(self, files: Iterable[str], shipped: int, problems: list[Problem], complete: bool = True) -> None:
        self.written: dict[str, dict[str, Written]] = {section: {} for section in TYPES}
        self.valid: dict[str, dict[str, Any]] = {section: {} for section in TYPES}
        self.swept: dict[str, list[str]] = {}
        self.broken_sweeps: list[str] = []
        self.brought: set[str] = set()
        self.complete = complete
        self._problems = problems
        self._definitions: dict[tuple[str, str], list[Definition]] = {}
        for number, file in enumerate(files):
            self._read(Source(file), number < shipped)
        # What inherits from a model of a sweep comes after the sweep, which may be such an entry itself.
        waiting = [definitions[-1] for definitions in self._definitions.values()]
        while waiting:
            ready = [definition for definition in waiting if not self._waits(definition)] or waiting
            for definition in ready:
                self._add_definition(definition)
            waiting = [definition for definition in waiting if definition not in ready]
        for name in list(self.valid["splits"]):
            self._add_brought(name)

    def lacks(self, word: str, name: str) -> str | None:
        """Return what is wrong with the name of a model, split, judge or other entry that there is none of.

        Nothing is wrong with a name that may be in a file with mistakes, or be that of a sweep's model.

        Args:
            word: what it names: `model`, `split`.
        """
        section = SECTION_OF[word]
        if (name in self.written[section] and name not in self.brought) or self.may_be(section, name):
            return None
        if section == "models" and re.fullmatch(REPO, name):
            return self._about_repository(name)
        return f"there is no {word} `{name}` in the catalogue" + nearest(name, self.written[section])

    def _about_repository(self, repo: str) -> str:
        if models := self.models_of(repo):
            return f"this is a repository on the hub; the catalogue has it as model `{models[0]}`: write that"
        return (
            "this is a repository on the hub, and no model of the catalogue has it: `refusal-eval new --model "
            f"{repo}` writes a study with its entries"
        )

    def engines_of(self, repo: str) -> list[str]:
        """Return the engines with the weights of a repository on the hub."""
        return [
            name
            for name, engine in self.valid["engines"].items()
            if (weights := getattr(engine, "weights", None)) is not None
            and str(getattr(weights, "repo", "")).lower() == repo.lower()
        ]

    def models_of(self, repo: str) -> list[str]:
        """Return the models with the weights of a repository on the hub, those as they were published first."""
        engines = self.engines_of(repo)
        found = [name for name, model in self.valid["models"].items() if model.engine in engines]
        plain = {"engine", "label", "sampling", "reasoning", "unverified", "template_options", "date"}
        return sorted(found, key=lambda name: not self.valid["models"][name].model_fields_set <= plain)

    def may_be(self, section: str, name: str) -> bool:
        """Tell whether an entry of this name may be in what has mistakes."""
        return not self.complete or (section == "models" and any(name.startswith(f"{x}.") for x in self.broken_sweeps))

    def _add_definition(self, definition: Definition) -> None:
        name, entry = definition.name, self._inherited(definition)
        if definition.section == "datasets":
            self._add_dataset(name, entry)
        else:
            self._add(definition.section, name, entry)
        if definition.section == "models":
            for keys in map(MODEL_KEYS.get, MODEL_KEYS.names()):
                if keys.makes_several is not None:
                    self._add_several(name, entry, keys)

    def _read(self, source: Source, shipped: bool) -> None:
        self._problems.extend(source.problems)
        self.complete &= source.readable
        for section, entries in source.data.items():
            if section not in SECTIONS:
                hint = ": it belongs in an entry of `datasets`" if section == "splits" else nearest(section, SECTIONS)
                self._problems.append(source.problem((section,), f"unknown section `{section}`{hint}"))
            elif isinstance(entries, dict):
                for name, value in entries.items():
                    self._define(Definition(section, str(name), value, source), name, shipped)
            elif entries is not None:
                message = f"must be a mapping of names to entries, not {shown(entries)}"
                self._problems.append(source.problem((section,), message))

    def _define(self, definition: Definition, name: Any, shipped: bool) -> None:
        section = definition.section
        known = self._definitions.setdefault((section, definition.name), [])
        known.append(definition)
        if not isinstance(name, str):
            self._note(definition, f"the name must be text, not {shown(name)}: put it in quotes")
        elif not re.fullmatch(SLUG, name):
            self._note(definition, f"{shown(name)} is not {FORMS[SLUG]}")
        elif section == "models" and name == RESERVED_MODEL:
            self._note(definition, f"`{name}` is a reserved name; choose another")
        if shipped and len(known) > 1:
            self._note(definition, f"{known[0].source.file} defines it too")

    def _note(self, definition: Definition, message: str, *path: str) -> None:
        self._problems.append(definition.source.problem((definition.section, definition.name, *path), message))

    def _inherited(self, definition: Definition) -> Written:
        """Return an entry laid over the one that its `like:` names, and so on."""
        layers: list[Layer] = []
        chain: list[Definition] = []
        while True:
            chain.append(definition)
            value, path = definition.value, (definition.section, definition.name)
            if isinstance(value, dict):
                value = {key: item for key, item in value.items() if key != LIKE}
            shape = DatasetInside if definition.section == "datasets" else SECTIONS[definition.section]
            value = with_paths(shape, value, definition.source, path, self._problems)
            layers.insert(0, Layer(value, definition.source, path))
            if not (isinstance(definition.value, dict) and LIKE in definition.value):
                return Written(layers)
            parent = self._parent(definition)
            if parent is None and self._is_swept(definition):
                inherited = self.written["models"][definition.value[LIKE]].layers
                # The label that names the member's scale is not that of another model.
                unlabelled = Layer({"label": None}, definition.source, (definition.section, definition.name))
                return Written([*inherited, unlabelled, *layers])
            if parent is None or parent in chain:
                self._note_bad_parent(chain, parent)
                return Written(layers, broken=True)
            definition = parent

    def _parent(self, definition: Definition) -> Definition | None:
        name = definition.value[LIKE]
        known = self._definitions.get((definition.section, str(name)), [])
        if name == definition.name:  # what this definition replaces
            known = known[: known.index(definition)]
        return known[-1] if known else None

    def _is_swept(self, definition: Definition) -> bool:
        """Tell whether an entry inherits from a model of a sweep that is known by now."""
        members = [member for each in self.swept.values() for member in each]
        return definition.section == "models" and definition.value[LIKE] in members

    def _waits(self, definition: Definition) -> bool:
        """Tell whether an entry inherits, at last, from a name unknown so far: a sweep's model, or a mistake."""
        chain: list[Definition] = []
        while isinstance(definition.value, dict) and LIKE in definition.value and definition not in chain:
            chain.append(definition)
            parent = self._parent(definition)
            if parent is None:
                return not self._is_swept(definition)
            definition = parent
        return False

    def _note_bad_parent(self, chain: list[Definition], parent: Definition | None) -> None:
        last, first = chain[-1], chain[0]
        if parent is None and not self.may_be(last.section, str(last.value[LIKE])):
            others = [name for section, name in self._definitions if section == last.section and name != last.name]
            wanted = last.value[LIKE]
            self._note(
                last, f"there is no other entry {shown(wanted)} in `{last.section}`" + nearest(wanted, others), LIKE
            )
        elif parent is first and first.name == min(definition.name for definition in chain):  # reported once
            names = " -> ".join(definition.name for definition in [*chain, first])
            self._note(last, f"the entries inherit from each other in a circle: {names}", LIKE)

    def _add(self, section: str, name: str, entry: Written) -> None:
        self.written[section][name] = entry
        also = (LIKE,) if section in SECTIONS else ()
        self.valid[section].pop(name, None)  # of two splits of one name the last one counts
        valid = validated(TYPES[section], entry, self._problems, also)
        if valid is not None:
            self.valid[section][name] = valid

    def add_split(self, name: str, entry: Written) -> None:
        """Add a split that no file of the catalogue has; it counts in the place of one of its name."""
        self._add("splits", name, entry)

    def _add_brought(self, name: str) -> None:
        """Add the splits that the source of a split brings."""
        own = self.written["splits"][name].layers[-1]
        for brought, entry in self.valid["splits"][name].source.brings(name).items():
            if len(brought) > MOST_CHARACTERS or brought in self.written["splits"]:
                why = "which is too long" if len(brought) > MOST_CHARACTERS else "which another entry has"
                message = f"brings a split `{brought}`, {why}; choose another name"
                self._problems.append(self.written["splits"][name].problem(("source",), message))
                continue
            self._add("splits", brought, Written([Layer(entry, own.source, own.path)]))
            self.brought.add(brought)

    def _add_several(self, name: str, entry: Written, keys: type[FeatureKeys]) -> None:
        """Add the models of a sweep, if the entry is one by these keys."""
        model, key = self.valid["models"].get(name), str(keys.makes_several)
        if model is None and entry.get(key) is not None:
            self.broken_sweeps.append(name)
        if model is None:
            return
        own = entry.layers[-1]
        for member, changes in keys.several(model, name):
            taken = member in self.written["models"] or ("models", member) in self._definitions
            if len(member) > MOST_CHARACTERS or taken:
                why = "which is too long" if len(member) > MOST_CHARACTERS else "which another entry has"
                self._problems.append(entry.problem((key,), f"makes a model `{member}`, {why}; choose another name"))
                continue
            self._add("models", member, Written([*entry.layers, Layer(changes, own.source, own.path)]))
            self.swept.setdefault(name, []).append(member)

    def _add_dataset(self, name: str, dataset: Written) -> None:
        self._add("datasets", name, dataset)
        splits, keys = dataset.get("splits"), dataset.value if isinstance(dataset.value, dict) else {}
        misspelt = any(
            key not in fields_of(Dataset) and nearest_name(key, fields_of(Dataset)) == "defaults" for key in keys
        )
        for split, value in splits.items() if isinstance(splits, dict) else ():
            if not isinstance(value, dict):
                continue  # noted when the data set was validated
            layers = [
                Layer(look_up(layer.value, inside)[0], layer.source, (*layer.path, *inside))
                for inside in (("defaults",), ("splits", split))
                for layer in dataset.layers
                if look_up(layer.value, inside)[1] == len(inside)
            ]
            known = self.written["splits"].get(str(split))
            if known is not None:
                first = known.layers[-1]
                message = (
                    f"the data set `{first.path[1]}` ({first.source.file}) has this split too; choose another name"
                )
                self._problems.append(dataset.problem(("splits", split), message))
            self._add("splits", str(split), Written(layers, dataset.broken or misspelt))


def with_paths(shape: Any, value: Any, source: Source, at: tuple[str, ...], problems: list[Problem]) -> Any:
    """Return a copy of `value` in which paths no longer depend on the file that names them.

    `~` and environment variables are replaced, but for variables that may hold a secret. Paths below the working
    directory come out relative to it.
    """
    value = _unshared(value)
    for path, mark in paths_on_disk(shape, value).items():
        holder, _ = look_up(value, path[:-1])
        named = (match[1] or match[2] for match in VARIABLE.finditer(holder[path[-1]]))
        if secret := next((name for name in named if names_a_secret(name)), None):
            message = (
                f"${secret} looks like a secret by its name, and paths are shown; give the folder another variable"
            )
            problems.append(source.problem((*at, *path), message))
            continue
        text = os.path.expandvars(os.path.expanduser(holder[path[-1]]))
        unset = VARIABLE.search(text)
        if unset:
            problems.append(source.problem((*at, *path), f"the environment variable {unset[0]} is not set"))
        # Relative to the folder of the file that names it, but for an output: that is relative to where snakemake runs.
        beside = os.path.join(os.path.dirname(os.path.abspath(source.file)), text)
        shown = os.path.normpath(text) if mark.what == "output" else shown_path(beside)
        holder[path[-1]] = os.path.join(os.curdir, shown) if shown in mark.words else shown
    return value


def _unshared(value: Any) -> Any:
    """Return a copy in which what YAML's anchors and aliases share is there once for each place."""
    if isinstance(value, dict):
        return {key: _unshared(item) for key, item in value.items()}
    return list(map(_unshared, value)) if isinstance(value, list) else value


def shipped_files(root: str) -> list[str]:
    """Return the catalogue files that come with refusal-eval, those in folders too, sorted."""
    return sorted(str(path) for path in Path(root, "config", "catalogue").rglob("*.yaml"))
