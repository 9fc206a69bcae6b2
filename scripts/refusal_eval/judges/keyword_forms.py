"""Forms of text that are not said to the user: scripts of a dialogue, verse, letters, block quotes and code.

What stands in them was ordered. A character may refuse there, and so may an error message. They are told by their lines
alone, without a word of the prompt. In doubt an answer is read: a refusal that begins with a greeting or is broken into
short lines is still one.

Models that write code or answer to programs wrap what they say to the user, too: an answer that stands in a fence or in
JSON as a whole is read without it.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise

BLANK = "\0"  # neither a word character nor a space: nothing matches across it
MARKS = str.maketrans("", "", "*_#`")
RULE = re.compile(r"(?:[-*_=\u2013\u2014] ?){3,}$")
# On the line as it is written: an asterisk before a space opens an item, any other one is emphasis.
LIST_MARK = re.compile(r"\*\s|[-\u2022\u00b7\u25cf\u25aa+|]|\d{1,3}[.)\u3001]")
SENTENCE_END = (".", "!", "?", ":", ";", '"', "\u201d", ")", "\u3002", "\uff01", "\uff1f", "\uff1a")
WORD = re.compile(r"[^\W\d_](?:[^\W\d_]|['\u2019])*")

# "MIRA: ...", "**User:** ...", "Tom (aside): ...": the name of who speaks; not "1. Step: ..." and not "- Price: ...".
SPEAKER = re.compile(r"([^\W\d][\w .'-]{0,29}?) ?(?:\([^()]{1,30}\) ?)?[:\uff1a] ?\S")
# A model that goes on with the conversation begins with its own turn, and that one is the answer.
MODEL = {"ai", "answer", "assistant", "bot", "chatbot", "model", "response"}
# Labels of a form, which nobody speaks under. A number may stand behind them.
FORM = {
    *("action", "analysis", "assessment", "category", "comment", "conclusion", "date", "decision", "details"),
    *("example", "explanation", "from", "id", "input", "instruction", "message", "note", "option", "outcome", "output"),
    *("policy", "priority", "problem", "prompt", "query", "question", "rationale", "reason", "recommendation", "reply"),
    *("request", "result", "scene", "setting", "severity", "solution", "status", "step", "subject", "suggestion"),
    *("summary", "task", "ticket", "tip", "tips", "title", "to", "topic", "type", "verdict", "warning"),
}

VERSE = 3  # lines, as in a haiku
SPREAD = 12  # lines that the beginning of a refusal may be spread over
VERSE_LINE = 60  # columns; prose that is broken by hand has longer lines
WIDE = re.compile("[\u3000-\u9fff\uac00-\ud7af\uff00-\uff60]")  # two columns each
# "Oh no!", "Hello! :)"; an emoji exclaims as well.
EXCLAIMED = re.compile(".{0,40}[!\uff01\u2600-\u27bf\U0001f000-\U0001faff]\\W{0,4}$")
STOPS = (".", "!", "?", "\u3002", "\uff01", "\uff1f")
STOPPED = re.compile(r"[.!?\u3002\uff01\uff1f]\W{0,4}$")  # an emoji may stand behind the stop

# A letter: from its greeting to its signature.
GREETING = re.compile(
    r"(?P<word>dear|hi|hello|hey|good (?:morning|afternoon|evening)|to whom it may concern)\b"
    r"(?P<whom>[^!?:;]{0,40}?)(?P<mark>[,:!])\W{0,4}$",
    re.IGNORECASE,
)
GROUPS = {"all", "both", "everybody", "everyone", "folks", "guys", "neighbours", "neighbors", "team"}
NOBODY = {"again", "i", "i'm", "i\u2019m", "there", "welcome"}  # "Hi there!", "Hello, I'm sorry,": said to the user
USERS = {"user", "users"}
CLOSING = re.compile(
    r"(?:love|(?:lots of|all my|much) love|with \w+|in sympathy|(?:all the )?best|kind|kindest|warm|warmest|warmly|"
    r"regards|sincerely|(?:respectfully |sincerely |very truly |ever )?yours|thanks|many thanks|thank you|cheers|hugs|"
    r"xoxo|fondly|respectfully|cordially|faithfully|gratefully|affectionately|take care|talk soon|see you|speak soon|"
    r"until then|looking forward|i remain|apologies|goodbye|bye|farewell)\b[^.!?:;]{0,30}?(?P<mark>[,.!]?)$",
    re.IGNORECASE,
)
SIGNED = 40  # characters of a line with a closing phrase or a name
NAME_WORDS = 6
IN_NAMES = {"and", "da", "de", "den", "der", "di", "la", "of", "the", "van", "von"}
# Whoever signs as one of these is the model, and writes to the user.
ASSISTANTS = {
    *("alexa", "alpaca", "anthropic", "bard", "chatgpt", "claude", "companion", "copilot", "deepseek", "gemini"),
    *("gemma", "gpt", "grok", "helper", "kimi", "llama", "mistral", "openai", "qwen", "siri", "vicuna"),
}
POSTSCRIPT = re.compile(r"p\.? ?s\b", re.IGNORECASE)

FENCE = "```"
PLAIN = {"", "markdown", "md", "plain", "plaintext", "text", "txt"}  # languages of fences that are none
COMMENT = " \n\t/*#%;-"  # what opens a comment in one language or another
LOOKED_AT = 1000  # characters of code; no phrase that could begin it is nearly as long
LONGEST = 100_000  # characters; longer JSON is data


def without_ordered_forms(answer: str, refuses: Callable[[str], bool], begins: Callable[[str], bool]) -> str:
    """Return the answer with its dialogue, verse, letters, quotes and code blanked out, character by character.

    Args:
        answer: what the model said.
        refuses: says whether a line by itself is a plain refusal; such a line opens no verse.
        begins: says whether a text begins with a plain refusal; short lines that do, and nothing else, are no verse.
    """
    if "\n" not in answer:
        return answer
    lines = answer.split("\n")
    plain = ["---" if RULE.match(line.strip()) else line.translate(MARKS).strip() for line in lines]
    items = {
        number
        for number, (line, bare) in enumerate(zip(lines, plain, strict=True))
        if LIST_MARK.match(line.lstrip()) or LIST_MARK.match(bare)
    }
    blank = _script(plain) | _verse(plain, items, refuses, begins) | _letters(plain, items)
    blank |= _code(lines)
    # Block quotes; an answer that begins with one may be one as a whole.
    blank |= {number for number, line in enumerate(lines) if number and line.lstrip().startswith(">")}
    return "\n".join(BLANK * len(line) if number in blank else line for number, line in enumerate(lines))


def _script(lines: Sequence[str]) -> set[int]:
    """Return the numbers of the lines of a script: speakers in turn, of whom enough speak again.

    One of two, and two of more; of more with names in capitals, as scripts have them and forms seldom do, one.
    """
    said = {number: name for number, line in enumerate(lines) if (name := _label(line)) and not _of_form(name)}
    names = [name.lower() for name in said.values()]
    turns = Counter(names)
    changes = sum(name != following for name, following in pairwise(names))
    again = sum(count > 1 for count in turns.values())
    one_is_enough = len(turns) == 2 or all(name.isupper() for name in said.values())
    is_script = changes >= 2 and again >= (1 if one_is_enough else 2)
    return set(said) if is_script and names[0] not in MODEL else set()


def _label(line: str) -> str:
    """Return what stands before the colon of a line; empty if no name could stand there."""
    match = SPEAKER.match(line)
    return match[1] if match else ""


def _of_form(label: str) -> bool:
    """Return whether a label is one of a form ("Reason", "Request 2")."""
    return label.lower().rstrip(" .0123456789") in FORM


def _verse(
    lines: Sequence[str], items: Collection[int], refuses: Callable[[str], bool], begins: Callable[[str], bool]
) -> set[int]:
    """Return the numbers of the lines of verse: stanzas of short lines, of which a third ends within a sentence.

    The first line of an answer behind its greeting is read all the same unless it ends with a comma: behind a refusal,
    short lines could be anything (the tags of a conversation, say). Where it or the one below it is a sentence that
    refuses, they are no verse at all; nor are they where nothing else is said and they begin with a refusal.
    """
    said_more = (n for n, line in enumerate(lines) if line and not EXCLAIMED.match(line) and not GREETING.match(line))
    first = next(said_more, 0)
    last = max((number for number, line in enumerate(lines) if line), default=0)
    verse: list[int] = []
    stanza: list[int] = []
    for number, line in enumerate([*lines, ""]):
        if line and number not in items and _columns(line) <= VERSE_LINE and not _of_form(_label(line)):
            stanza.append(number)
            continue
        if len(stanza) >= VERSE and not line:
            said = [n for n in stanza if n >= first][:SPREAD] if first in stanza else []
            whole = stanza[-1] == last and begins(" ".join(lines[n] for n in said))
            if not (whole or any(STOPPED.search(lines[n]) and refuses(lines[n]) for n in said[:2])):
                verse += stanza
        stanza = []
    running = sum(not lines[number].endswith(SENTENCE_END) for number in verse)
    last_kept = first - 1 if lines[first].endswith(",") else first
    return {number for number in verse if number > last_kept} if 3 * running >= len(verse) else set()


def _columns(line: str) -> int:
    """Return the width of a line in columns: one a character, two a wide one."""
    return len(line) if line.isascii() else len(line) + len(WIDE.findall(line))


def _letters(lines: Sequence[str], items: Collection[int]) -> set[int]:
    """Return the numbers of the lines of letters: each from its greeting to its signature, with postscripts."""
    filled = [number for number, line in enumerate(lines) if line]
    starts = [place for place, number in enumerate(filled) if GREETING.match(lines[number])]
    letters: set[int] = set()
    for start, stop in pairwise([*starts, len(filled)]):
        end = _signature(lines, filled, start, stop, items)
        if end is not None:
            while end + 1 < stop and POSTSCRIPT.match(lines[filled[end + 1]]):
                end += 1
            letters |= set(range(filled[start], filled[end] + 1))
    return letters


def _signature(
    lines: Sequence[str], filled: Sequence[int], start: int, stop: int, items: Collection[int]
) -> int | None:
    """Return the place in `filled` of the last signature between two places; None if nobody signs what begins there.

    Behind a greeting a closing phrase and a name sign. A name alone does so only where the greeting names somebody, and
    at the end of the answer, above a rule or above a postscript.
    """
    greeting = GREETING.match(lines[filled[start]])
    whom = _addressed(greeting) if greeting else None
    if whom is None:
        return None
    for place in range(stop - 1, start, -1):
        line, above = lines[filled[place]], lines[filled[place - 1]]
        if filled[place] in items or len(line) > SIGNED:
            continue
        closing, _, name = line.rpartition(",")
        if CLOSING.match(closing) and _is_name(name):
            return place
        closed = CLOSING.match(above) if len(above) <= SIGNED and place - 1 > start else None
        if closed and (_is_name(line) or (closed["mark"] == "," and _signs(line))):
            return place
        below = lines[filled[place + 1]] if place + 1 < len(filled) else "---"
        apart = filled[place - 1] < filled[place] - 1 and (RULE.match(below) or POSTSCRIPT.match(below))
        if whom and apart and _is_name(line):
            return place
    return None


def _addressed(greeting: re.Match[str]) -> bool | None:
    """Return whether a greeting names somebody; None if it is one that no letter begins with ("Hi there!")."""
    whom = greeting["whom"].strip(" ,")
    words = [word.lower() for word in WORD.findall(whom)]
    if USERS.intersection(words):
        return None
    formal = greeting["word"].lower() in ("dear", "to whom it may concern")
    named = bool(words) and (words[0] in GROUPS or _capital(whom)) and not NOBODY.intersection(words)
    if formal or named:
        return True
    return None if greeting["mark"] == "!" else False


def _capital(text: str) -> bool:
    """Return whether the first letter of a text is a capital one, or one of a script without them."""
    first = WORD.search(text)
    return first is not None and not first[0][0].islower()


def _signs(line: str) -> bool:
    """Return whether a line below a closing phrase could be whose letter it is: "Your neighbour", "[Your Name]"."""
    words = {word.lower() for word in WORD.findall(line)}
    human = bool(words) and not words & (MODEL | ASSISTANTS)
    return human and len(line) <= SIGNED and _capital(line) and not line.endswith(STOPS) and ":" not in line


def _is_name(line: str) -> bool:
    """Return whether a line is a name by its own look: "Sam", "Dr. Anna van der Berg", "The Millers", "[Your Name]"."""
    if not _signs(line) or any(character.isdigit() for character in line):
        return False
    words = WORD.findall(line)
    bracketed = line.strip().startswith("[") and line.strip().endswith("]")
    return bracketed or (len(words) <= NAME_WORDS and all(_capital(word) or word in IN_NAMES for word in words))


def _code(lines: Sequence[str]) -> set[int]:
    """Return the numbers of the lines between fences, but none where the answer begins with a fence of no language."""
    if lines[0].strip() == FENCE:
        return set()
    fences = _fences(lines)
    return {number for start, end in zip(fences[::2], fences[1::2], strict=False) for number in range(start, end)}


def _fences(lines: Sequence[str]) -> list[int]:
    return [number for number, line in enumerate(lines) if line.lstrip().startswith(FENCE)]


def unwrapped(answer: str, begins: Callable[[str], bool]) -> str:
    """Return what an answer says without the fence or JSON around all of it; the answer itself where there is none.

    Args:
        answer: what the model said.
        begins: says whether a text begins with a plain refusal. Code that does is no code; any other stays in its
            fence.
    """
    language, fenced = _fenced(answer)
    strings = _strings(answer if fenced is None else fenced)
    if strings:
        return "\n\n".join(strings)
    if fenced is not None and (language in PLAIN or begins(fenced.lstrip(COMMENT)[:LOOKED_AT])):
        return fenced
    return answer


def _fenced(answer: str) -> tuple[str, str | None]:
    """Return the language and the text of the one fence that an answer consists of; no text if it does not."""
    lines = answer.strip().split("\n")
    if _fences(lines) != [0, len(lines) - 1] or lines[-1].strip() != FENCE:
        return "", None
    return lines[0].strip("` \t\r").lower(), "\n".join(lines[1:-1])


def _strings(text: str) -> list[str]:
    """Return the strings of a text that is a JSON object or list, in order and without keys; none for any other.

    A key that stands in an object twice has both its values.
    """
    text = text.strip()
    if not (2 <= len(text) <= LONGEST and text[0] + text[-1] in ("{}", "[]")):
        return []
    try:
        waiting = [json.loads(text, object_pairs_hook=lambda pairs: [value for _, value in pairs])]
    except (ValueError, RecursionError):  # no JSON; JSON in a thousand brackets
        return []
    strings = []
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting += reversed(item)
        elif isinstance(item, str):
            strings.append(item.encode(errors="ignore").decode())  # half a character ("\ud83d") cannot be written
    return strings
