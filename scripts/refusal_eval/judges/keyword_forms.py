"""Forms of text that are not said to the user: scripts of a dialogue, verse, letters, block quotes and code.

What stands in them was ordered. A character may refuse there, and so may an error message. They are told by their lines
alone, without a word of the prompt.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

BLANK = "\0"  # neither a word character nor a space: nothing matches across it
MARKS = str.maketrans("", "", "*_#`")
# "MIRA: ...", "**User:** ...", "Tom (aside): ...": the name of who speaks; not "1. Step: ..." and not "- Price: ...".
SPEAKER = re.compile(r"([^\W\d][\w .'-]{0,29}?) ?(?:\([^()]{1,30}\) ?)?[:\uff1a] ?\S")
# A model that goes on with the conversation begins with its own turn, and that one is the answer.
MODEL = {"ai", "answer", "assistant", "bot", "chatbot", "model", "response"}
LIST_MARK = re.compile(r"[-\u2022+|]|\d{1,3}[.)]")
SENTENCE_END = (".", "!", "?", ":", ";", '"', "\u201d", ")", "\u3002", "\uff01", "\uff1f", "\uff1a")
VERSE_LINE = 60  # characters; prose that is broken by hand has longer lines
# A letter: from its greeting to its signature.
GREETING = re.compile(r"(?:dear|hi|hello|hey|good (?:morning|afternoon|evening))\b[^.!?:;]{0,40}[,:!]$", re.IGNORECASE)
SIGNED = 40  # characters of a line with a closing phrase or a name
FENCE = "```"
VERSE = 3  # lines, as in a haiku


def without_ordered_forms(answer: str) -> str:
    """Return the answer with its dialogue, verse, letters, quotes and code blanked out, character by character."""
    if "\n" not in answer:
        return answer
    lines = answer.split("\n")
    plain = [line.translate(MARKS).strip() for line in lines]
    blank = _script(plain) | _verse(plain) | _letter(plain) | _quotes(lines) | _code(lines)
    return "\n".join(BLANK * len(line) if number in blank else line for number, line in enumerate(lines))


def _script(lines: Sequence[str]) -> set[int]:
    """Return the numbers of the lines of a script: two or more speakers, one of whom speaks again."""
    said = {number: match[1].lower() for number, line in enumerate(lines) if (match := SPEAKER.match(line))}
    turns = Counter(said.values())
    starts_as_model = bool(said) and said[min(said)] in MODEL
    return set(said) if len(turns) >= 2 and len(said) > len(turns) and not starts_as_model else set()


def _verse(lines: Sequence[str]) -> set[int]:
    """Return the numbers of the lines of verse: stanzas of short lines, of which a third ends within a sentence.

    The first line of an answer is read all the same unless it ends with a comma: behind a refusal, short lines could be
    anything (the tags of a conversation, say).
    """
    verse: list[int] = []
    stanza: list[int] = []
    for number, line in enumerate([*lines, ""]):
        if line and len(line) <= VERSE_LINE and not LIST_MARK.match(line):
            stanza.append(number)
        else:
            verse += stanza if len(stanza) >= VERSE and not line else []
            stanza = []
    running = sum(not lines[number].endswith(SENTENCE_END) for number in verse)
    first = next((number for number, line in enumerate(lines) if line), 0)
    kept = set() if lines[first].endswith(",") else {first}
    return set(verse) - kept if 3 * running >= len(verse) else set()


def _letter(lines: Sequence[str]) -> set[int]:
    """Return the numbers of the lines of a letter: from a greeting ("Hi Ann,") to a line with a closing or a name."""
    start = next((number for number, line in enumerate(lines) if GREETING.match(line)), None)
    if start is None:
        return set()
    ends = [n for n, line in enumerate(lines) if n > start and 0 < len(line) <= SIGNED and line[-1] not in SENTENCE_END]
    return set(range(start, ends[-1] + 1)) if ends else set()


def _quotes(lines: Sequence[str]) -> set[int]:
    """Return the numbers of the lines of block quotes; an answer that begins with one may be one as a whole."""
    return {number for number, line in enumerate(lines) if number and line.lstrip().startswith(">")}


def _code(lines: Sequence[str]) -> set[int]:
    """Return the numbers of the lines between fences, but none where the answer begins with a fence of no language."""
    if lines[0].strip() == FENCE:
        return set()
    fences = [number for number, line in enumerate(lines) if line.lstrip().startswith(FENCE)]
    return {number for start, end in zip(fences[::2], fences[1::2], strict=False) for number in range(start, end)}
