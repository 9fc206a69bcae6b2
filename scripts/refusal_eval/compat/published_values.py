"""Values of a config of the published library, each of the kind that it has to be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refusal_eval.core.errors import UserError

Config = Mapping[str, Any]
MOST = 10**9  # of any number: beyond it is no length, count or temperature


def section(config: Config, key: str) -> dict[str, Any]:
    """Return a section; a missing one is empty.

    Raises:
        UserError: if it is no mapping.
    """
    value = config.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UserError(f"`{key}` is {value!r}; it has to be a mapping of keys to values")
    return {str(name): item for name, item in value.items()}


def whole(config: Config, key: str, default: int, where: str = "", least: int = 1) -> int:
    """Return a whole number, the default where the key is missing or empty.

    Args:
        config: the section.
        key: the key.
        default: what the published code takes without it.
        where: the section's name with a dot, for messages.
        least: the least number that makes sense.

    Raises:
        UserError: for anything else.
    """
    value = config.get(key)
    if value is None:
        return default
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MOST:
        raise UserError(f"`{where}{key}` is {_shown(value)}; it has to be a whole number of at least {least}")
    return value


def number(config: Config, key: str, where: str = "", least: float = 0.0, most: float | None = None) -> float | None:
    """Return a number, None where the key is missing or empty.

    Raises:
        UserError: for anything else, and outside of [least, most].
    """
    value = config.get(key)
    if value is None:
        return None
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    if not fits or not least <= value <= (most if most is not None else MOST):
        limits = f"from {least:g} to {most:g}" if most is not None else f"of at least {least:g}"
        raise UserError(f"`{where}{key}` is {_shown(value)}; it has to be a number {limits}")
    return float(value)


def _shown(value: Any) -> str:
    """Return a value as a message shows it; Python writes no number of thousands of digits."""
    return "a very large number" if isinstance(value, int) and abs(value) > 10**18 else repr(value)


def text(config: Config, key: str, where: str = "") -> str | None:
    """Return a text without white space around it, None where the key is missing or empty.

    Raises:
        UserError: for anything else.
    """
    value = config.get(key)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise UserError(f"`{where}{key}` is {value!r}; it has to be a text (put it in quotes)")
    return value.strip()


def weights_name(config: Config, where: str) -> str | None:
    """Return `name_or_path` of a section, a repository or a folder, without the slash that a folder may end with.

    Raises:
        UserError: if it is no text.
    """
    name = text(config, "name_or_path", where)
    return None if name is None else name.rstrip("/") or name
