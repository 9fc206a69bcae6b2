"""Texts that models and users wrote, as far as nobody can trust them: bounded before they are compared."""

from __future__ import annotations

import re
import unicodedata

MOST_MARKS = 30  # on one letter, as in Unicode's stream-safe text; no language needs more than a few
_DENSE = re.compile(f"[\u0300-\U0010ffff]{{{MOST_MARKS + 1},}}")  # before U+0300 no character combines


def nfkc(text: str) -> str:
    """Return a text in NFKC, without the combining marks of a letter beyond the thirtieth.

    Putting marks in order takes time that grows with the square of their number.
    """
    if _DENSE.search(text):
        # By what they decompose to: a halfwidth sound mark combines only then.
        marks = "".join(sorted(c for c in set(text) if unicodedata.combining(unicodedata.normalize("NFKD", c)[0])))
        if marks:
            text = re.sub(f"([{marks}]{{{MOST_MARKS}}})[{marks}]+", r"\1", text)
    return unicodedata.normalize("NFKC", text)
