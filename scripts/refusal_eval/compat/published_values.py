"""Values of a config of the published library, each of the kind that it has to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from refusal_eval.core.errors import UserError

MOST = 10**9  # of any number: beyond it is no length, count or temperature


@dataclass(frozen=True)
class Values:
    """A config, or a section of one, whose `name` stands before the keys in messages.

    Every reader raises UserError for a value of another kind.
    """

    values: Mapping[str, Any]
    name: str = ""

    def section(self, key: str) -> Values:
        """Return a section; a missing one is empty."""
        value = {} if self.values.get(key) is None else self.values[key]
        if not isinstance(value, dict):
            raise self._wrong(key, value, "a mapping of keys to values")
        return Values({str(name): item for name, item in value.items()}, f"{key}.")

    def whole(self, key: str, default: int, least: int = 1) -> int:
        """Return a whole number; where the key is missing or empty the default, what the published code takes then."""
        value = self.number(key, least, whole=True)
        return default if value is None else int(value)

    def number(self, key: str, least: float = 0.0, most: float | None = None, whole: bool = False) -> float | None:
        """Return a number in [least, most], None where the key is missing or empty."""
        value = self.values.get(key)
        if value is None:
            return None
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        if not fits or not least <= value <= (most or MOST) or (whole and value != int(value)):
            limits = f"of at least {least:g}" if most is None else f"from {least:g} to {most:g}"
            raise self._wrong(key, value, f"a {'whole ' if whole else ''}number {limits}")
        return float(value)

    def text(self, key: str) -> str | None:
        """Return a text without white space around it, None where the key is missing or empty."""
        value = self.values.get(key)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise self._wrong(key, value, "a text (put it in quotes)")
        return value.strip()

    def weights(self) -> str | None:
        """Return `name_or_path`, a repository or a folder, without the slash that a folder may end with."""
        name = self.text("name_or_path")
        return None if name is None else name.rstrip("/") or name

    def _wrong(self, key: str, value: Any, wanted: str) -> UserError:
        # Python writes no number of thousands of digits.
        shown = "a very large number" if isinstance(value, int) and abs(value) > 10**18 else repr(value)
        return UserError(f"`{self.name}{key}` is {shown}; it has to be {wanted}")
