"""Where a word is in a prompt: its places in a text, and the tokens of the rendered prompt that hold it.

A place is looked for in the turns of the user alone, as the template renders them, and never in the system message, an
answer, or what the template adds. A token that holds a part of the word counts, whatever else is in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from refusal_eval.core.errors import UserError

if TYPE_CHECKING:
    from refusal_eval.ask.render import Renderer
    from refusal_eval.core.rubric import ChatMessages

# Scripts without spaces between words, or with endings that are written to them: a word may begin or end anywhere.
_RUNNING_ON = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
)
_STAND_IN = "zxqjwordqxjz"  # for a turn, to see where a template writes it

Stretch = tuple[int, int]  # characters from .. to, the latter not included


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
    text = renderer.text(messages).removesuffix(renderer.prefill or "")
    spans = [
        (start + begin, start + end)
        for start, turn in _turns(renderer, messages, text)
        for begin, end in places_of(word, turn)
    ]
    if not spans:
        return []
    if not renderer.tokenizer.is_fast:
        raise UserError(
            f"the tokenizer in {renderer.folder} does not say which characters a token is made of, so that the tokens "
            "of a word are not known; take a model with a tokenizer.json"
        )
    plain = renderer.template == "none"
    read = renderer.tokenizer(text, add_special_tokens=plain, return_offsets_mapping=True)
    ids: Sequence[int] = read["input_ids"]
    if list(ids) != renderer.token_ids(messages)[: len(ids)]:
        raise UserError(
            f"the tokenizer in {renderer.folder} reads the rendered prompt otherwise than its template, so that the "
            "tokens of a word are not known"
        )
    offsets: Sequence[Stretch] = read["offset_mapping"]
    return [
        place
        for place, (first, after) in enumerate(offsets)
        if any(first < end and after > begin for begin, end in spans)
    ]


def _turns(renderer: Renderer, messages: ChatMessages, text: str) -> Iterator[tuple[int, str]]:
    """Yield where each turn of the user begins in a rendered prompt, and the turn as it is there."""
    for number, message in enumerate(messages):
        if message["role"] != "user":
            continue
        other = [*messages[:number], {**message, "content": _STAND_IN}, *messages[number + 1 :]]
        before, *rest = renderer.text(other).removesuffix(renderer.prefill or "").split(_STAND_IN)
        turn = text[len(before) : len(text) - len(rest[0])] if len(rest) == 1 else ""
        if len(rest) != 1 or text != before + turn + rest[0] or turn.strip() != message["content"].strip():
            raise UserError(
                "the chat template writes a turn of the user twice, or otherwise by what is in it, so that the place "
                "of a word is not known"
            )
        yield len(before), turn
