"""Runs of words, by which a text is recognised that repeats another one."""

import re

ECHO_WORDS = 6  # as many words of another text in a row are no chance
WORD = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return WORD.findall(text.lower())


def runs_of(text: str, count: int) -> set[tuple[str, ...]]:
    """Return every run of so many words in a text, in lower case."""
    words = words_of(text)
    return {tuple(words[place : place + count]) for place in range(len(words) - count + 1)}
