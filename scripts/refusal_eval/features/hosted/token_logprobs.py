"""Log-probabilities that a server gives with its text, of tokens without ids."""

from __future__ import annotations

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from refusal_eval.core.files import utf8
from refusal_eval.core.packing import pack_floats


class TokenLogprob(BaseModel):
    """A token of the text."""

    token: str
    logprob: float = Field(allow_inf_nan=False)
    utf8: list[int] | None = Field(None, alias="bytes")

    def written(self) -> bytes:
        return utf8(self.token) if self.utf8 is None else bytes(self.utf8)


_TOKENS: TypeAdapter[list[TokenLogprob]] = TypeAdapter(list[TokenLogprob])


def packed_logprobs(text: str, content: object) -> str | None:
    """Return the log-probabilities of the tokens of a text, packed; None where they are not those of this text.

    Tokens behind the text, which some servers give too, such as the one that ends an answer, are left out.
    """
    try:
        tokens = _TOKENS.validate_python(content)
        written = [token.written() for token in tokens]
    except (ValidationError, ValueError):
        return None
    whole, length, counted = utf8(text), 0, 0
    while counted < len(tokens) and length < len(whole):
        length += len(written[counted])
        counted += 1
    if length == len(whole) and b"".join(written[:counted]) == whole:
        return pack_floats([token.logprob for token in tokens[:counted]])
    # A server may show parts of a letter as a sign of its own for each: then only the last token can be told.
    if any("�" in token.token for token in tokens):
        ends = bool(tokens) and not text.endswith(tokens[-1].token) and "�" not in tokens[-1].token
        return pack_floats([token.logprob for token in tokens[: len(tokens) - ends]])
    return None
