"""Registries: the classes of a noun by name.

A class does the work of its noun. Its module is imported when the class is asked for, so that rooms higher up can be
named here without being imported.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from pathlib import Path

ClassT = TypeVar("ClassT", bound=type[Any])


def places_of_features(attribute: str) -> dict[str, str]:
    """Return what the tables of this name in the packages of features list: `package.module:NAME` by name."""
    found: dict[str, str] = {}
    for feature in importlib.import_module("refusal_eval.features").FEATURES:
        package = f"refusal_eval.features.{feature}"
        own: Mapping[str, str] = getattr(importlib.import_module(package), attribute, {})
        found |= {name: f"{package}.{place}" for name, place in own.items()}
    return found


def at_place(place: str) -> Any:
    """Return what `package.module:NAME` names; its module is imported now."""
    module, name = place.split(":")
    return getattr(importlib.import_module(module), name)


class Registry:
    """Classes of one noun, each by its name.

    A feature adds those listed in the table `attribute` of its package: `module:Class` by name, as in `places`.

    Args:
        noun: what they are, for messages.
        attribute: name of the tables of features.
        places: `package.module:Class` of those that no feature adds, by name.
    """

    every: ClassVar[list[Registry]] = []

    def __init__(self, noun: str, attribute: str, places: Mapping[str, str] = MappingProxyType({})) -> None:
        self.noun, self._attribute, self._kernel = noun, attribute, dict(places)
        self._added: dict[str, type[Any]] = {}
        self.every.append(self)

    @functools.cached_property
    def _places(self) -> dict[str, str]:
        """Those that ship: of the kernel, and of each feature."""
        return self._kernel | places_of_features(self._attribute)

    def names(self) -> list[str]:
        """Return all names: shipped ones first, then added ones."""
        return [*self._places, *self._added]

    def get(self, name: str) -> type[Any]:
        """Return a class by its name.

        Raises:
            KeyError: if there is none of this name.
        """
        if name in self._added:
            return self._added[name]
        return at_place(self._places[name])  # type: ignore[no-any-return]

    def module(self, name: str) -> Path:
        """Return the file of a class, for `code_version`."""
        from pathlib import Path  # slow to import, and the program's help needs no file

        return Path(str(sys.modules[self.get(name).__module__].__file__))

    def added_names(self) -> list[str]:
        """Return the names that a study's plug-ins added."""
        return list(self._added)

    def add(self, cls: ClassT) -> ClassT:
        """Add a class; a decorator for the class in a plug-in's module.

        Raises:
            ValueError: if one of this name ships already or another module added one, or the class has no name.
        """
        name = self._name_of(cls)
        other = self._added.get(name)
        if name in self._places or (other is not None and other.__module__ != cls.__module__):
            raise ValueError(f"there is {self._one(name)} already; choose another name")
        self._added[name] = cls
        return cls

    def _name_of(self, cls: type[Any]) -> str:
        name = getattr(cls, "name", None)
        if not isinstance(name, str):
            raise ValueError(f'{cls.__name__} needs `name = "its_name"`, by which the {self.noun} is found')
        return name

    def _one(self, name: str) -> str:
        return f"another {self.noun} named `{name}`"

    @classmethod
    def forget_added(cls) -> bool:
        """Forget what was added, as the classes of one study are not another's; return whether there were any."""
        any_added = any(registry._added for registry in cls.every)
        for registry in cls.every:
            registry._added.clear()
        return any_added
