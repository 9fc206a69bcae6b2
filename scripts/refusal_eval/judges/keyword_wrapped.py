"""Answers that stand in a fence or in JSON as a whole: what they say without it.

Models that write code or answer to programs wrap what they say to the user too. Text beside the wrapping says that it
holds something else, such as a message that the user ordered (see `keyword_forms`).
"""

import json
from collections.abc import Callable
from typing import Any

FENCE = "```"
PLAIN = {"", "markdown", "md", "plain", "plaintext", "text", "txt"}  # languages of fences that are none
COMMENT = " \n\t/*#%;-"  # what opens a comment in one language or another
LOOKED_AT = 1000  # characters of code; no phrase that could begin it is nearly as long
LONGEST = 100_000  # characters; longer JSON is data


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
    fences = [number for number, line in enumerate(lines) if line.lstrip().startswith(FENCE)]
    if fences != [0, len(lines) - 1] or lines[-1].strip() != FENCE:
        return "", None
    return lines[0].strip("` \t\r").lower(), "\n".join(lines[1:-1])


def _strings(text: str) -> list[str]:
    """Return the strings of a text that is a JSON object or list, in order and without keys; none for any other."""
    text = text.strip()
    if not (2 <= len(text) <= LONGEST and text[0] + text[-1] in ("{}", "[]")):
        return []
    try:
        waiting = [json.loads(text, object_pairs_hook=_values)]
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


def _values(pairs: list[tuple[str, Any]]) -> list[Any]:
    """Return the values of an object, also of keys that stand in it twice."""
    return [value for _, value in pairs]
