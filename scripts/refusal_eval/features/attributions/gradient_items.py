"""What gradients are asked of: a prompt's own tokens, which of them are whose word's, and the key of each prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from refusal_eval.ask.user_tokens import Stretch, rendered_text, token_stretches, user_turns
from refusal_eval.core.canonical import KEY_VERSION, plain
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import sha256_of
from refusal_eval.data.text_units import UNITS
from refusal_eval.features.attributions.left_out import asked_prompts

if TYPE_CHECKING:
    from refusal_eval.ask.render import Renderer

GRADIENT_VERSION = 1  # of what is computed; another one makes all stored values unreachable


class OwnTokens(NamedTuple):
    """The tokens of the last turn of the user."""

    places: list[int]  # in the prompt
    of_units: list[list[int]]  # of each unit, in `places`


def own_tokens(renderer: Renderer, messages: Sequence[Mapping[str, str]], spans: Sequence[Stretch]) -> OwnTokens:
    """Return the tokens of the last turn of the user, and those of each unit of it.

    A token whose characters, but for white space, are all in the turn is its own, and others are the template's. It is
    the unit's of which it has most characters, the first one's of equals.

    Args:
        spans: of the units, in characters of the turn.

    Raises:
        UserError: if these tokens are not known (`ask.user_tokens`).
    """
    rows = [dict(message) for message in messages]
    text = rendered_text(renderer, rows)
    *_, turn = user_turns(renderer, rows, text)
    asked, end = rows[turn.number]["content"], turn.begin + len(turn.text)
    # A template may strip a turn.
    shift = turn.begin + _blanks(turn.text) - _blanks(asked)
    there = [(begin + shift, after + shift) for begin, after in spans]
    places: list[int] = []
    of_units: list[list[int]] = [[] for _ in spans]
    for place, (first, after) in enumerate(token_stretches(renderer, rows, text)):
        piece = text[first:after]
        low, high = (first + _blanks(piece), first + len(piece.rstrip())) if piece.strip() else (first, after)
        if not turn.begin <= low < high <= end:
            continue
        shared = [min(high, stop) - max(low, begin) for begin, stop in there]
        if shared and max(shared) > 0:
            of_units[shared.index(max(shared))].append(len(places))
        places.append(place)
    return OwnTokens(places, of_units)


def _blanks(text: str) -> int:
    return len(text) - len(text.lstrip())


def baseline_token(renderer: Renderer) -> int:
    """Return the token from which gradients begin: that of padding, else the one that ends a text.

    Raises:
        UserError: if the tokenizer has neither.
    """
    for token in (renderer.tokenizer.pad_token_id, renderer.tokenizer.eos_token_id):
        if token is not None:
            return int(token)
    raise UserError(
        f"the tokenizer in {renderer.folder} has no token of padding and none that ends a text, from which gradients "
        "could begin; take `method: leave_one_out`"
    )


def gradient_item(
    prompt: Mapping[str, Any],
    unit: str,
    renderer: Renderer,
    decided_by: Mapping[str, Any],
    longest: int,
    reply: Sequence[int] | None = (),
) -> dict[str, Any]:
    """Return what is asked about a prompt.

    Its key is None if it has one unit alone, is too long for the model, or has no reply where it needs one.

    Args:
        prompt: a row of prompts/{split}.jsonl.
        decided_by: the engine's identity, and what of the job decides values; with `steps` of 0 there are no gradients,
            and each unit is left out.
        longest: the most tokens of a prompt.
        reply: tokens behind the prompt whose log-probability is the score; None where the model gave none.

    Raises:
        UserError: for a prompt that the template cannot render.
    """
    spans = UNITS[unit](prompt["messages"][-1]["content"])
    item: dict[str, Any] = {"prompt_id": prompt["id"], "key": None, "token_ids": [], "own": [], "words": []}
    if len(spans) < 2 or reply is None:
        return item
    token_ids = [*renderer.prompt(prompt["messages"]), *reply]
    if len(token_ids) > longest:
        return item
    asked: dict[str, Any] = {"token_ids": token_ids}
    if not decided_by["steps"]:
        left = [one for one in asked_prompts(prompt, unit) if one.span is not None]
        asked |= {"own": [], "without": [renderer.token_ids(one.messages) for one in left]}
        of_units = [[place] for place in range(len(left))]
    else:
        own = own_tokens(renderer, prompt["messages"], [(span.begin, span.end) for span in spans])
        asked, of_units = {**asked, "own": own.places}, own.of_units
    if reply:
        asked["reply"] = len(reply)
    key = sha256_of({"key_version": KEY_VERSION, "gradient_version": GRADIENT_VERSION, **plain(decided_by), **asked})
    return {**item, **asked, "key": key, "words": of_units}
