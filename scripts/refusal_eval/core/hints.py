"""The nearest valid name, for error messages."""

import difflib
from collections.abc import Iterable


def nearest_name(name: object, allowed: Iterable[object], cutoff: float = 0.55) -> str | None:
    """Return the allowed name that a user probably meant, if there is one."""
    text, names = str(name), sorted(map(str, allowed))
    close = difflib.get_close_matches(text, names, cutoff=cutoff)
    close = close or difflib.get_close_matches(text.lower(), names, cutoff=cutoff)
    # Of equally near names the one with the same letters: `flie` is `file`, not `like`.
    return max(close, key=lambda found: sorted(found) == sorted(text), default=None)


def nearest(name: object, allowed: Iterable[object]) -> str:
    """Return a hint: the nearest allowed name if there is one, and (the first of) all that are allowed."""
    names = sorted(map(str, allowed))
    close = nearest_name(name, names)
    hint = f"; did you mean `{close}`?" if close else ""
    shown = ", ".join(names[:12]) + (f", ... ({len(names)} in all)" if len(names) > 12 else "")
    return f"{hint} (allowed: {shown or 'none'})"
