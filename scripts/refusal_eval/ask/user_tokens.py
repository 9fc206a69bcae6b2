"""Where the turns of the user are in a rendered prompt, and which characters each of its tokens is made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from refusal_eval.core.errors import UserError

if TYPE_CHECKING:
    from refusal_eval.ask.render import Renderer
    from refusal_eval.core.rubric import ChatMessages

_STAND_IN = "zxqjwordqxjz"  # for a turn, to see where a template writes it

Stretch = tuple[int, int]  # characters from .. to, the latter not included


class UserTurn(NamedTuple):
    """A turn of the user as a template renders it."""

    number: int  # of the message
    begin: int  # of the turn, in characters of the rendered prompt
    text: str


def rendered_text(renderer: Renderer, messages: ChatMessages) -> str:
    """Return a rendered prompt without its prefill."""
    return renderer.text(messages).removesuffix(renderer.prefill or "")


def user_turns(renderer: Renderer, messages: ChatMessages, text: str) -> Iterator[UserTurn]:
    """Yield where each turn of the user begins in a rendered prompt, and the turn as it is there.

    Args:
        text: the rendered prompt.

    Raises:
        UserError: for a template that hides where it writes a turn.
    """
    for number, message in enumerate(messages):
        if message["role"] != "user":
            continue
        other = [*messages[:number], {**message, "content": _STAND_IN}, *messages[number + 1 :]]
        before, *rest = rendered_text(renderer, other).split(_STAND_IN)
        turn = text[len(before) : len(text) - len(rest[0])] if len(rest) == 1 else ""
        if len(rest) != 1 or text != before + turn + rest[0] or turn.strip() != message["content"].strip():
            raise UserError(
                "the chat template writes a turn of the user twice, or otherwise by what is in it, so that the place "
                "of a word is not known"
            )
        yield UserTurn(number, len(before), turn)


def token_stretches(renderer: Renderer, messages: ChatMessages, text: str) -> Sequence[Stretch]:
    """Return the characters of the rendered prompt that each of its tokens is made of; a prefill's are left out.

    Args:
        text: the rendered prompt.

    Raises:
        UserError: for a tokenizer that does not say which characters a token is made of.
    """
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
    return read["offset_mapping"]  # type: ignore[no-any-return]
