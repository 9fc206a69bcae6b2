"""The words and the sentences of a text, in any script, as places in it.

Words are about those of Unicode's text segmentation (UAX #29), without its dictionaries: a run of letters, digits and
their marks, held together by an apostrophe or full stop inside, and here by a hyphen too. Chinese characters and
hiragana are words of one character, an emoji with all that belongs to it is one. Punctuation is in no word.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

_JOINTS = frozenset("'\u2019\u02bc-\u2010\u2011.\u00b7")  # between two letters or digits
_OF_NUMBERS = frozenset(",\u066b\u066c")  # between two digits
_JOINERS = frozenset("\u200c\u200d")  # invisible; within words of Persian and Hindi, and between parts of an emoji
_BY_CHARACTER = ((0x3040, 0x309F), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF))
_SYMBOLS = 0x2190  # emoji and other pictures begin here, above signs such as those of degrees and copyright
_FLAGS = range(0x1F1E6, 0x1F200)  # letters of which two are a flag
_SKINS = range(0x1F3FB, 0x1F400)
# The end of a sentence: its mark with closing quotes, before white space or the end; in Chinese before anything.
_SENTENCE_END = re.compile(
    r"[.!?\u2026\u061f\u06d4\u0964]+[\"'\u2019\u201d)\]\u00bb]*(?=\s|$)|[\u3002\uff01\uff1f]+[\u300d\u201d]*|\n+"
)


class Span(NamedTuple):
    """A part of a text, by the characters (code points) that it begins at and ends before."""

    begin: int
    end: int


def words(text: str) -> list[Span]:
    """Return the words of a text in their order."""
    return list(_words(text))


def sentences(text: str) -> list[Span]:
    """Return the sentences of a text in their order, without the white space around them.

    A full stop before a small letter ends none, as in `e.g. this`; a line break always does.
    """
    found, begin = list[Span](), 0
    for end in [*(match.end() for match in _SENTENCE_END.finditer(text) if not _goes_on(text, match)), len(text)]:
        inside = text[begin:end]
        first = begin + len(inside) - len(inside.lstrip())
        if inside.strip():
            found.append(Span(first, first + len(inside.strip())))
        begin = end
    return found


UNITS: Mapping[str, Callable[[str], list[Span]]] = {"word": words, "sentence": sentences}


def without(text: str, span: Span) -> str:
    """Return a text without a part of it, and without the spaces before it, or after it where a line begins with it."""
    before, after = text[: span.begin], text[span.end :]
    if before == "" or before.endswith("\n"):
        return before + after.lstrip(" \t\u00a0")
    return before.rstrip(" \t\u00a0") + after


def _goes_on(text: str, end: re.Match[str]) -> bool:
    return end[0][0] == "." and text[end.end() :].lstrip(" ")[:1].islower()


def _words(text: str) -> Iterator[Span]:
    place = 0
    while place < len(text):
        end = _end_of_word(text, place)
        if end > place:
            yield Span(place, end)
        place = max(end, place + 1)


def _end_of_word(text: str, begin: int) -> int:
    """Return the end of the word that begins at a place; the place itself where none does."""
    if _is_picture(text[begin]):
        return _end_of_picture(text, begin)
    if not text[begin].isalnum():
        return begin
    if _stands_alone(text[begin]):
        return _behind_marks(text, begin + 1)
    end = begin
    while end < len(text) and not (text[end].isalnum() and _stands_alone(text[end])):
        if not (text[end].isalnum() or text[end] == "_" or _is_mark(text[end]) or _joins(text, end)):
            break
        end += 1
    return end


def _joins(text: str, place: int) -> bool:
    """Tell whether a character holds what is before it and what is behind it together."""
    before, after = text[place - 1], text[place + 1 : place + 2]
    if text[place] in _OF_NUMBERS:
        return before.isdigit() and after.isdigit()
    inside = (before.isalnum() or _is_mark(before)) and after.isalnum() and not _stands_alone(after)
    return inside and text[place] in _JOINTS


def _end_of_picture(text: str, begin: int) -> int:
    """Return the end of an emoji: with its colour and form, what is joined to it, and the other half of a flag."""
    end = _behind_marks(text, begin + 1)
    if ord(text[begin]) in _FLAGS and end < len(text) and ord(text[end]) in _FLAGS:
        return end + 1
    while end < len(text) and (ord(text[end]) in _SKINS or (text[end - 1] == "\u200d" and _is_picture(text[end]))):
        end = _behind_marks(text, end + 1)
    return end


def _behind_marks(text: str, place: int) -> int:
    while place < len(text) and _is_mark(text[place]):
        place += 1
    return place


def _stands_alone(character: str) -> bool:
    return any(low <= ord(character) <= high for low, high in _BY_CHARACTER)


def _is_mark(character: str) -> bool:
    """Tell whether a character belongs to the one before it: an accent, a vowel sign, the form of an emoji."""
    return (
        character in _JOINERS or unicodedata.category(character)[0] == "M" or "\U000e0020" <= character <= "\U000e007f"
    )


def _is_picture(character: str) -> bool:
    return ord(character) >= _SYMBOLS and unicodedata.category(character) == "So"
