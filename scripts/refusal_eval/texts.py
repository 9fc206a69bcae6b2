"""Texts that models and files bring along: refused where they are none, bounded before they are compared."""

from __future__ import annotations

import re
import unicodedata

from refusal_eval.errors import UserError

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


def valid_text(text: str, place: str) -> str:
    r"""Return `text` as it is.

    Raises:
        UserError: if it holds half of a surrogate pair ("\ud83d" alone), which is no text and can't be sent.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        code = f"\\u{ord(text[error.start]):04x}"
        raise UserError(
            f"{place}: holds {code} alone, half of a surrogate pair (character {error.start + 1}); mend the text"
        ) from error
    return text
