"""The tokens with which a refusal begins, of one attribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from refusal_eval.core.errors import UserError
from refusal_eval.judges.first_token_judge import HELLO, MOST_TOKENS, FirstTokens, tokens_that_begin
from refusal_eval.judges.named_tokens import tokens_of

if TYPE_CHECKING:
    from refusal_eval.ask.render import Renderer


def refusal_tokens(renderer: Renderer, name: str, refusal: Any, gold: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return the ids of the tokens with which a refusal begins, by their texts.

    Args:
        name: of the attribution, for messages.
        refusal: as the study has it: texts, or what gold they come from.
        gold: its rows.

    Raises:
        UserError: if a text is not one token behind a prompt, or gold gives none or too many.
    """
    try:
        if isinstance(refusal, list):
            return tokens_of(renderer, HELLO, {text: text for text in refusal})
        found = tokens_that_begin(renderer, FirstTokens.model_validate(refusal), gold).token_ids
        if len(found) > MOST_TOKENS:
            raise UserError(f"at most {MOST_TOKENS} tokens, not {len(found)}; raise `share`")
    except UserError as error:
        raise UserError(f"`attributions.{name}.refusal`: {error}") from error
    return found
