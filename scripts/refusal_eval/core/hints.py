"""The nearest valid name, for error messages."""

import difflib
import re
from collections.abc import Iterable


def nearest_name(name: object, allowed: Iterable[object], cutoff: float = 0.55) -> str | None:
    """Return the allowed name that a user probably meant, if there is one."""
    text, names = str(name), sorted(map(str, allowed))
    close = difflib.get_close_matches(text, names, cutoff=cutoff)
    close = close or difflib.get_close_matches(text.lower(), names, cutoff=cutoff)
    # Of equally near names the one with the same letters: `flie` is `file`, not `like`.
    return max(close, key=lambda found: sorted(found) == sorted(text), default=None)


def nearest_column(column: str, known: Iterable[object], file: str) -> str:
    """Return a hint for a column that a file lacks: the nearest name, or that another separator may be the reason."""
    names = sorted(map(str, known))
    if file.endswith(".csv") and len(names) == 1 and re.search(rf"(?<!\w){re.escape(column)}(?!\w)", names[0]):
        return f": its only column is {names[0]!r:.80}. Are the columns separated by something else than commas?"
    return nearest(column, names)


def nearest(name: object, allowed: Iterable[object]) -> str:
    """Return a hint: the nearest allowed name if there is one, and (the first of) all that are allowed."""
    names = sorted(map(str, allowed))
    close = nearest_name(name, names)
    hint = f"; did you mean `{close}`?" if close else ""
    shown = ", ".join(names[:12]) + (f", ... ({len(names)} in all)" if len(names) > 12 else "")
    return f"{hint} (allowed: {shown or 'none'})"
