"""What a provider asks for tokens, and what a request can cost at most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pydantic import Field

from refusal_eval.config.shapes import Currency, Day, Entry, Number
from refusal_eval.core.files import canonical_json, utf8

TOKENS_PER_MESSAGE = 16  # at most, that mark its role and its ends


@dataclass(frozen=True)
class Most:
    """What a request can cost at most: its prompt, and the answer."""

    prompt: Decimal = Decimal(0)
    answer: Decimal = Decimal(0)

    @property
    def whole(self) -> Decimal:
        return self.prompt + self.answer


class Price(Entry):
    """The price of tokens on one day."""

    input: Number = Field(ge=0, description="Of tokens of the prompt.")
    output: Number = Field(ge=0, description="Of generated tokens, reasoning included.")
    cached: Number | None = Field(
        None, ge=0, description="Of tokens of the prompt that the provider has in its cache. Default: `input`."
    )
    per: Number = Field(1_000_000, gt=0, description="How many tokens these prices are for.")
    date: Day = Field(description="The day on which the provider asked them.")
    currency: Currency = Field("USD", description="Three letters.")

    def cost(self, usage: Mapping[str, int]) -> Decimal:
        """Return what tokens cost (`ask.store.TokenUsage`)."""
        cached = _exact(self.input if self.cached is None else self.cached)
        tokens = (usage["input"] - usage["cached"]) * _exact(self.input) + usage["cached"] * cached
        return (tokens + usage["output"] * _exact(self.output)) / _exact(self.per)

    def most(self, body: Mapping[str, Any], messages: str, output: int | None, further: int = 0) -> Most:
        """Return what a request can cost at most: a byte is a token at most.

        Args:
            body: what is sent.
            messages: its key with the messages.
            output: the most tokens of the answer.
            further: tokens of the prompt that the provider may add.
        """
        # What else is sent may be read as well, such as the form that a reply is held to.
        size = len(utf8(canonical_json(body))) + TOKENS_PER_MESSAGE * len(body[messages]) + further
        dearest = max(self.input, self.cached or 0)
        per = _exact(self.per)
        return Most(size * _exact(dearest) / per, (output or 0) * _exact(self.output) / per)


def _exact(number: float) -> Decimal:
    return Decimal(str(number))
