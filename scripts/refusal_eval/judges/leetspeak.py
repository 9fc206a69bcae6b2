"""Texts with digits in place of letters ("1 c4n'7 h3lp"), read as the letters that they stand for."""

from __future__ import annotations

import re

HEAD = 800  # characters in which it shows
LEAST_WORDS, LEAST_SHARE = 2, 0.2  # of its words; a product or two has a digit between letters, too
_DIGITS = "0134567@$"
_EVIDENCE = re.compile(r"[A-Za-z](?:'?[013-9$!]+'?|@(?![\w-]*\.\w))[A-Za-z]")  # and no address
_WORD = re.compile(r"(?<![\w@$!'])[\w@$!']*[013-9@$!][\w@$!']*", re.ASCII)
_LETTERS = str.maketrans("03456789@$!", "oeasgtbgasi")
# A 1 is an l where English has one more often than an i: doubled, at the end, in "would", "help", "explain", "able".
_L = re.compile(r"(?<=[^gq][ou])1(?=[dks])|(?<=[eE])1(?![rn])|(?<=[bcfgkpBCFGKP])1(?=[aeouy])|1(?=y?\b)(?<=\w1)")


def without_leetspeak(text: str) -> str:
    """Return a text with letters for the digits that stand for them, if a fifth of the words at its head has some."""
    head = text[:HEAD]
    if not any(digit in head for digit in _DIGITS):
        return text
    found = len(_EVIDENCE.findall(head))
    if found < LEAST_WORDS or found < LEAST_SHARE * len(head.split()):
        return text
    return _WORD.sub(lambda word: _letters(word[0]), text)


def _letters(word: str) -> str:
    """Return a word with letters for digits; a number stays."""
    bare = word.rstrip("!")
    if bare.isdigit() and len(bare) > 3:
        return word
    plain = bare.translate(_LETTERS).replace("111", "ill").replace("11", "ll")
    return _L.sub("l", plain).replace("1", "i") + word[len(bare) :]
