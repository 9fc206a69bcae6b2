"""What became of a row that a writer was asked for: the text in its answer, and whether that is a prompt.

A row is `written` if nothing speaks against it; the first thing that does is its state.
"""

import json
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

from refusal_eval.core import states
from refusal_eval.core.text_runs import ECHO_WORDS, runs_of, words_of
from refusal_eval.core.texts import is_blank, without_invisible

WRITTEN, REFUSED, BLOCKED, TRUNCATED, FAILED = "written", "refused", "blocked", "truncated", "failed"
UNPARSABLE, SAME, ECHO, LIKE, UNLIKE = "unparsable", "same", "echo", "like", "unlike"
KEPT_WORD, NO_QUESTION = "kept_word", "no_question"
# In the order in which they are looked for, with what a table says of them.
STATES = {
    WRITTEN: "written",
    FAILED: "no answer",
    BLOCKED: "blocked",
    TRUNCATED: "cut off",
    REFUSED: "refused",
    UNPARSABLE: "unparsable",
    SAME: "unchanged",
    ECHO: "echo of the template",
    KEPT_WORD: "a word kept",
    NO_QUESTION: "no question",
    LIKE: "too like",
    UNLIKE: "too unlike",
}
# States of an answer that has no whole text.
OF_ANSWERS = {
    states.BLOCKED: BLOCKED,
    states.TRUNCATED: TRUNCATED,
    states.TRUNCATED_REASONING: TRUNCATED,
    states.TOO_LONG: FAILED,
    states.FAILED: FAILED,
}
QUOTES = (('"', '"'), ("\u201c", "\u201d"), ("'", "'"), ("\u00ab", "\u00bb"))
QUESTION_MARKS = "?\uff1f\u061f\u037e"


@dataclass(frozen=True)
class Parsing:
    """Where in an answer the text of a row is."""

    after: str | None = None
    json_key: str | None = None
    first_line: bool = False


@dataclass(frozen=True)
class Checking:
    """What a text must be to pass for a prompt."""

    at_least: float | None = None  # likeness to the prompt that it was made from
    at_most: float | None = None
    question: bool = False
    without: Sequence[str] = ()  # columns whose words it may not hold
    said: Collection[tuple[str, ...]] = field(default_factory=frozenset)  # runs of the template's own words


def row_state(
    answer: Mapping[str, Any],
    prompt: str,
    kept: Mapping[str, str | None],
    refuses: Callable[[str], bool],
    parsing: Parsing,
    checking: Checking,
    shown: Sequence[str] = (),
    nonce: str = "",
) -> tuple[str, str]:
    """Return the state of a row, and its text; of a row that is not `written` as much of a text as there is.

    Args:
        answer: the writer's answer, a row of a file of answers.
        prompt: what the row was made from.
        kept: its columns.
        refuses: tells whether an answer refuses.
        shown: the texts besides `prompt` that the writer was shown, and may not give back.
        nonce: what the delimiters of the template held.
    """
    whole = str(answer.get("answer") or "").strip()
    if answer["state"] in OF_ANSWERS:
        return OF_ANSWERS[answer["state"]], whole
    if whole and refuses(whole):
        return REFUSED, whole
    text = parsed(whole, parsing)
    if text is None or is_blank(text):
        return UNPARSABLE, whole
    return _wrong_with(text, prompt, kept, checking, shown, nonce) or WRITTEN, text


def parsed(answer: str, parsing: Parsing) -> str | None:
    """Return the text of a row in an answer, without white space and quotes around it; None if it is not there."""
    text: str | None = answer
    if parsing.after is not None:
        _, found, text = answer.rpartition(parsing.after)
        if not found:
            return None
    if parsing.json_key is not None:
        text = _in_json(str(text), parsing.json_key)
        if text is None:
            return None
    text = str(text).strip()
    if parsing.first_line:
        text = next((line.strip() for line in text.splitlines() if not is_blank(line)), "")
    return _unquoted(text)


def likeness(text: str, other: str) -> float:
    """Return how alike two texts are, 0 to 1: twice the words in matching runs by the words of both.

    Runs are those of Ratcliff and Obershelp (`difflib`), without regard to case and punctuation.
    """
    return SequenceMatcher(None, words_of(text), words_of(other), autojunk=False).ratio()


def _wrong_with(
    text: str,
    prompt: str,
    kept: Mapping[str, str | None],
    checking: Checking,
    shown: Sequence[str],
    nonce: str,
) -> str | None:
    if bare(text) in {bare(other) for other in (prompt, *shown)}:
        return SAME
    own = runs_of(prompt, ECHO_WORDS).union(*(runs_of(other, ECHO_WORDS) for other in shown))
    if (nonce and nonce in text) or (runs_of(text, ECHO_WORDS) & set(checking.said)) - own:
        return ECHO
    if any(_holds(text, kept.get(column)) for column in checking.without):
        return KEPT_WORD
    if checking.question and _asks(prompt) and not _asks(text):
        return NO_QUESTION
    alike = likeness(text, prompt)
    if checking.at_most is not None and alike > checking.at_most:
        return LIKE
    return UNLIKE if checking.at_least is not None and alike < checking.at_least else None


def bare(text: str) -> str:
    """Return a text without what does not change a prompt: case, white space, punctuation, invisible characters."""
    plain = unicodedata.normalize("NFKC", without_invisible(text)).casefold()
    letters = "".join(c for c in plain if not c.isspace() and unicodedata.category(c)[0] != "P")
    return letters or plain.strip()


def _holds(text: str, word: str | None) -> bool:
    """Tell whether a text holds a word, or several in a row."""
    wanted, there = words_of(word or ""), words_of(text)
    return bool(wanted) and any(there[n : n + len(wanted)] == wanted for n in range(len(there)))


def _asks(text: str) -> bool:
    return any(mark in text for mark in QUESTION_MARKS)


def _unquoted(text: str) -> str:
    for first, last in QUOTES:
        inside = text[1:-1]
        if len(text) > 2 and text[0] == first and text[-1] == last and first not in inside and last not in inside:
            return inside.strip()
    return text


def _in_json(text: str, key: str) -> str | None:
    """Return the text at a key of the first JSON object in a text that has it."""
    decoder = json.JSONDecoder()
    for place in (n for n, character in enumerate(text) if character == "{"):
        try:
            found, _ = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and isinstance(found.get(key), str):
            return str(found[key])
    return None
