"""Where a word is in a prompt: its places in a text, and the tokens of the rendered prompt that hold it.

A place is looked for in the turns of the user alone, as the template renders them, and never in the system message, an
answer, or what the template adds. A token that holds a part of the word counts, whatever else is in it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from refusal_eval.ask.user_tokens import Stretch, rendered_text, token_stretches, user_turns

if TYPE_CHECKING:
    from refusal_eval.ask.render import Renderer
    from refusal_eval.core.rubric import ChatMessages

# Scripts without spaces between words, or with endings that are written to them: a word may begin or end anywhere.
_RUNNING_ON = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
)


def places_of(word: str, text: str) -> list[Stretch]:
    """Return all places of a word (or words, in this order) in a text.

    Upper and lower case are alike, and so is white space between words. A place begins and ends where words do; in
    Chinese, Japanese, Korean, Thai and other scripts that do not show this it may be anywhere.
    """
    parts = word.split()
    if not parts:
        return []
    pattern = _edge(parts[0][0], r"(?<!\w)") + r"\s+".join(map(re.escape, parts)) + _edge(parts[-1][-1], r"(?!\w)")
    return [found.span() for found in re.finditer(pattern, text, re.IGNORECASE)]


def _edge(letter: str, boundary: str) -> str:
    """Return what must be at the edge of a word that begins or ends with this letter."""
    return boundary if re.match(r"\w", letter) and not _RUNNING_ON.match(letter) else ""


def focus_tokens(renderer: Renderer, messages: ChatMessages, word: str) -> list[int]:
    """Return the places of the tokens that hold a word, ascending; none where no turn of the user has it.

    Raises:
        UserError: for a tokenizer that does not say which characters a token is made of, and for a template that hides
            where it writes a turn.
    """
    text = rendered_text(renderer, messages)
    spans = [
        (turn.begin + begin, turn.begin + end)
        for turn in user_turns(renderer, messages, text)
        for begin, end in places_of(word, turn.text)
    ]
    if not spans:
        return []
    return [
        place
        for place, (first, after) in enumerate(token_stretches(renderer, messages, text))
        if any(first < end and after > begin for begin, end in spans)
    ]
