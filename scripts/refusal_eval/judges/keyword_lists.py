"""Phrase lists of the keyword judge: what a list file may hold, and how its phrases become regular expressions."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from refusal_eval.core.hints import nearest
from refusal_eval.core.texts import nfkc, without_invisible
from refusal_eval.judges.known_scripts import scripts_of

# Curly, modifier and acute apostrophes, primes, all kinds of double quotes; before NFKC, which takes the acute apart.
QUOTES = str.maketrans(
    "\u2018\u2019\u201b\u02bb\u02bc\xb4\u2032\u02b9\u201c\u201d\u201e\xab\xbb\u300c\u300d\u300e\u300f",
    "'" * 8 + '"' * 9,
)
BACKTICK = re.compile(r"(?<=[^\W\d_])`(?=[^\W\d_])")  # "can`t"; around a word it is markdown
MARKDOWN = re.compile(r"[*_`#>~]+")
# The rest of a clause, up to a sixth of a line: bounded, so that no text can make a search slow.
GAP = r'[^,.!?;:"\0。、]{0,30}?'
WORD_START = r"(?<!\w)"
# How the Unicode names of letters begin whose scripts put no spaces between words.
WITHOUT_SPACES = ("CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "BOPOMOFO", "THAI", "LAO", "KHMER", "MYANMAR")
WINDOWS = {
    **{"opening": 300, "first_part": 800, "ending": 300, "lecture": 300, "lectured": 1000},
    **{"short": 150, "content": 300, "answered": 600},
}
PHRASES = (
    *("refusal_starts", "refusal_openings", "withheld", "ordered_texts", "partial", "hedges"),
    *("lecture_morals", "lecture_words"),
)


def normalise(text: str, rewrites: Iterable[tuple[str, str]] = ()) -> str:
    """Return what is visible, in lower case with straight quotes, single spaces and no markdown; then rewrites."""
    text = nfkc(without_invisible(text).translate(QUOTES)).lower()
    text = " ".join(MARKDOWN.sub("", BACKTICK.sub("'", text)).split())
    for old, new in rewrites:
        text = text.replace(old, new)
    return text


def bare(text: str) -> str:
    """Return normalised text without quotes and punctuation at its ends."""
    return text.strip(" \"'.,!?。、")


@dataclass(frozen=True)
class KeywordLists:
    """The compiled lists of one language file; a list that is missing matches nothing."""

    rewrites: tuple[tuple[str, str], ...]
    windows: Mapping[str, int]
    whole_answers: frozenset[str]
    patterns: Mapping[str, re.Pattern[str]]
    latin: bool  # whether any phrase could match a text in ASCII; if not, such a text need not be read
    scripts: frozenset[str]  # of the letters of all phrases

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> KeywordLists:
        """Compile one file's content.

        Raises:
            ValueError: for an unknown key or a value of the wrong kind.
        """
        check_lists(data)
        rewrites = tuple((str(old), str(new)) for old, new in data.get("rewrites", ()))

        # Commas and blanks stand between anyway: taken for fillers too, a run of them could be read in ever more ways.
        fillers = [filler for filler in _phrases(data.get("fillers", ()), rewrites) if filler.strip(" ,")]
        between = rf"(?:[\s,]*{any_of(fillers)}){{0,4}}[\s,]*"
        patterns = {}
        for name in PHRASES:
            items = list(_ungrouped(data.get(name, ())))
            plain = _phrases([item for item in items if isinstance(item, str)], rewrites)
            starts, sources = list(plain), [any_of(plain)]
            for pair in (item for item in items if not isinstance(item, str)):
                first, second = (_phrases(pair[half], rewrites) for half in ("first", "second"))
                starts += first
                sources.append(any_of(first) + between + any_of(second))
            patterns[name] = re.compile(f"{_first_words(starts)}(?:{'|'.join(sources)})")
        said = [phrase for name in ("whole_answers", *PHRASES) for phrase in _said(_ungrouped(data.get(name, ())))]
        return cls(
            rewrites=rewrites,
            windows={**WINDOWS, **data.get("windows", {})},
            whole_answers=frozenset(bare(phrase) for phrase in _phrases(data.get("whole_answers", ()), rewrites)),
            patterns=patterns,
            latin=any(phrase.isascii() for phrase in said),
            scripts=scripts_of(said),
        )


def _phrases(phrases: Iterable[str], rewrites: Iterable[tuple[str, str]]) -> list[str]:
    """Return phrases as they stand in normalised text; `...` and `*`, which normalising would change, are kept."""
    kept = (phrase.replace("...", "\ue000").replace("*", "\ue001") for phrase in phrases)
    return [normalise(phrase, rewrites).replace("\ue000", "...").replace("\ue001", "*") for phrase in kept]


def any_of(phrases: Iterable[str]) -> str:
    """Return a regular expression for any phrase, longest first.

    Whole words wherever a phrase begins or ends with a letter of a script that is written with spaces; in scripts
    without spaces words have no borders. `*` stands for the rest of a word and `...` for a few words of the same
    clause.
    """
    latin: list[str] = []
    words: list[str] = []  # of other scripts with spaces
    other: list[str] = []
    for phrase in sorted({phrase for phrase in phrases if phrase}, key=lambda p: (-len(p), p)):
        source = (
            re.escape(phrase).replace(r"\ \.\.\.\ ", f" (?:{GAP} )?").replace(r"\.\.\.", GAP).replace(r"\*", r"\w*")
        )
        source += f"(?!{_letters(phrase[-1])})" if _has_border(phrase[-1]) else ""
        (latin if _begins_with_letter(phrase) else words if _has_border(phrase[0]) else other).append(source)
    parts = [rf"{WORD_START}(?:" + "|".join(latin) + ")"] if latin else []
    parts += [f"(?<!{_letters(words[0][0])})(?:" + "|".join(words) + ")"] if words else []
    return "(?:" + "|".join([*parts, *other]) + ")" if parts or other else r"(?!)"  # (?!) never matches


def _first_words(phrases: Iterable[str]) -> str:
    """Return a look at the next word that fails where no phrase can begin; empty if some phrase begins with no letter.

    It changes no match, only how soon a place without one is passed over.
    """
    words = set()
    for phrase in filter(None, phrases):
        if not _begins_with_letter(phrase):
            return ""
        word = re.split(r"\W", phrase, maxsplit=1)[0]
        words.add(word + ("" if phrase[len(word) :].startswith("*") else r"(?!\w)"))
    return f"{WORD_START}(?={'|'.join(sorted(words))})" if words else ""


def _begins_with_letter(phrase: str) -> bool:
    return phrase[0].isascii() and phrase[0].isalnum()


def _has_border(edge: str) -> bool:
    """Tell whether a phrase with this character at an edge ends there as a word: a letter of a script with spaces."""
    letter = edge.isalnum() or unicodedata.category(edge).startswith("M")
    return letter and not unicodedata.name(edge, "").startswith(WITHOUT_SPACES)


def _letters(edge: str) -> str:
    """Return what must not stand beyond an edge: letters and, except at ASCII, combining marks, which `\\w` lacks."""
    return r"\w" if edge.isascii() else rf"[\w{_marks()}]"


@functools.cache
def _marks() -> str:
    """Return the combining marks as ranges of a class, so that long lists compile soon."""
    marks = [code for code in range(0x300, 0x20000) if unicodedata.category(chr(code)).startswith("M")]
    known = set(marks)
    ends = zip([m for m in marks if m - 1 not in known], [m for m in marks if m + 1 not in known], strict=True)
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ends)


def _ungrouped(items: Iterable[Any]) -> Iterator[Any]:
    """Yield the phrases and pairs of a list; of a group, which is a list inside it, one phrase after the other."""
    for item in items:
        yield from item if isinstance(item, list) else [item]


def _said(items: Iterable[Any]) -> Iterator[str]:
    """Yield the phrases of a list; of a pair its two halves as one, since both must occur."""
    for item in items:
        if isinstance(item, str):
            yield item
        else:
            yield from (first + second for first in item["first"] for second in item["second"])


def check_lists(data: Any) -> None:
    """Check the content of a list file.

    Raises:
        ValueError: for an unknown key or a value of the wrong kind.
    """
    if not isinstance(data, dict):
        raise ValueError("must be a mapping of list names to lists")
    allowed = {*PHRASES, "whole_answers", "fillers", "windows", "rewrites"}
    for name, value in data.items():
        if name not in allowed:
            raise ValueError(f"unknown key `{name}`" + nearest(name, allowed))
        if name == "windows" and not (isinstance(value, dict) and all(type(width) is int for width in value.values())):
            raise ValueError("`windows` must be a mapping of names to whole numbers")
        if name == "rewrites" and not (
            isinstance(value, list) and all(_texts(pair) and len(pair) == 2 for pair in value)
        ):
            raise ValueError("`rewrites` must be a list of pairs of texts")
        if name in ("windows", "rewrites"):
            continue
        if not isinstance(value, list):
            raise ValueError(f"`{name}` must be a list of phrases")
        pairs = name not in ("fillers", "whole_answers")
        for item in value:
            is_pair = isinstance(item, dict) and set(item) == {"first", "second"} and all(map(_texts, item.values()))
            if not (isinstance(item, str) or (pairs and (is_pair or _texts(item)))):
                what = "a phrase, or a pair of the lists `first` and `second`" if pairs else "a phrase"
                raise ValueError(f"every item of `{name}` must be {what}, not {str(item)[:80]}")
    unknown = set(data.get("windows", {})) - set(WINDOWS)
    if unknown:
        raise ValueError(f"unknown key `windows.{min(unknown)}`" + nearest(min(unknown), WINDOWS))


def _texts(item: Any) -> bool:
    return isinstance(item, list) and all(isinstance(phrase, str) for phrase in item)
