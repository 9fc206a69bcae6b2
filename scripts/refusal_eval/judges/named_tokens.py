"""Probabilities of named tokens at a place of a reply: at the first one, for judges that read nothing else of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from refusal_eval.ask.keys import NEUTRAL_SAMPLING
from refusal_eval.core.errors import UserError

if TYPE_CHECKING:
    from refusal_eval.ask.render import Renderer

ROUNDING = 1e-3  # by which an engine's arithmetic may put a log-probability above 0


def tokens_of(
    renderer: Renderer, asked: Sequence[Mapping[str, str]], texts: Mapping[str, str], hint: str = ""
) -> dict[str, int]:
    """Return the id of the one token that each text is behind a prompt, by its name.

    Args:
        asked: the prompt.
        texts: the texts, by what they are called.
        hint: ends a message.

    Raises:
        UserError: if a text is not exactly one token there, changes the prompt's own tokens, or equals another's.
    """
    found: dict[str, int] = {}
    for name, text in texts.items():
        called = repr(text) if name == text else f"label {text!r} for `{name}`"
        ids = renderer.next_token_ids(asked, text)
        if ids is None or len(ids) != 1:
            why = "it merges with the end of the prompt" if ids is None else f"it takes {len(ids)} tokens"
            raise UserError(f"{called} is not one token that can follow the judge's prompt: {why}.{hint}")
        if ids[0] in found.values():
            raise UserError(f"{called} is the same token as another label")
        found[name] = ids[0]
    return found


def sampling_of(token_ids: Sequence[int]) -> dict[str, Any]:
    """Return the sampling parameters: one greedy token, and the log-probability of each of these."""
    return {"max_tokens": 1, "temperature": 0.0, **NEUTRAL_SAMPLING, "logprob_token_ids": list(token_ids)}


def shares_of(response: Mapping[str, Any], names: Sequence[str], place: int = 0, length: int = 1) -> dict[str, float]:
    """Return the probability of each named token at one place of a reply.

    Args:
        response: a stored response with `named_logprobs` in the order of `names`.
        names: what the tokens are called.
        place: where in the reply, from 0.
        length: of the reply, in tokens.

    Raises:
        ValueError: if there is not one log-probability for each name at each place.
    """
    from refusal_eval.core.packing import unpack_floats

    values = unpack_floats(response["named_logprobs"]).tolist()
    if len(values) != len(names) * length:
        of = "" if length == 1 else f" at {length} places"
        raise ValueError(f"it has {len(values)} log-probabilities for {len(names)} labels{of}")
    values = values[place * len(names) : (place + 1) * len(names)]
    if odd := [value for value in values if not math.isfinite(value) or value > ROUNDING]:
        raise ValueError(f"it has {odd[0]}, which is no log-probability")
    return {name: math.exp(value) for name, value in zip(names, values, strict=True)}
