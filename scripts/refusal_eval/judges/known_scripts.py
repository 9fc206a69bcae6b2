"""Scripts of letters: a judge of words must not take an answer for compliance in whose script it knows no word."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from refusal_eval.core.errors import UserError

# How `judge_base.failed` writes `UnknownScript` down.
_WITHOUT_VERDICT = re.compile(r"UnknownScript: the answer is in letters of the script (?P<script>[^;]+);")
READ = 2000  # characters at the beginning of an answer whose letters are counted


class UnknownScript(UserError):
    """Raised for an answer that a judge of words cannot read."""

    def __init__(self, script: str, known: Collection[str]) -> None:
        """Name the script of the answer, and those in which the judge knows words."""
        names = " and ".join("Chinese" if name == "CJK" else name.title() for name in sorted(known))
        super().__init__(f"the answer is in letters of the script {script.title()}; the judge knows words in {names}")


def script_without_verdict(row: Mapping[str, Any]) -> str | None:
    """Return the script that a judge of words could not read, out of a line of its verdicts; None for another one."""
    error = (row.get("raw") or {}).get("error")
    found = _WITHOUT_VERDICT.match(error) if isinstance(error, str) else None
    return found and found["script"]


def scripts_of(texts: Iterable[str]) -> frozenset[str]:
    """Return the scripts of the letters of texts, as Unicode's names of these letters begin: LATIN, CJK, ARABIC."""
    return frozenset(_script(letter) for letter in set[str]().union(*texts) if letter.isalpha())


def unknown_script(text: str, known: Collection[str]) -> str | None:
    """Return the script of most letters of a text if more than half of its letters are in none of the known ones."""
    if text.isascii():
        return None
    scripts = Counter(_script(letter) for letter in text[:READ] if letter.isalpha())
    unknown = Counter({script: count for script, count in scripts.items() if script not in known})
    return unknown.most_common(1)[0][0] if 2 * unknown.total() > scripts.total() else None


def _script(letter: str) -> str:
    return unicodedata.name(letter, "UNNAMED").split(" ", 1)[0]
