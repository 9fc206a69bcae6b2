"""Constraints of wildcards."""

from __future__ import annotations

import re
from collections.abc import Iterable


def any_of(names: Iterable[str]) -> str:
    """Return a regular expression for exactly these names (for nothing at all when there are none)."""
    return "|".join(re.escape(name) for name in names) or "(?!)"
