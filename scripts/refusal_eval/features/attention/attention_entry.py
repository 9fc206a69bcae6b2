"""The intervention of kind `attention` in a model's entry."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from refusal_eval.config.capture_entry import refuse_wrong_layers
from refusal_eval.config.shapes import Entry, Number, Text, Whole


class AttentionIntervention(Entry):
    """`kind: attention`. All later tokens pay less attention to a word of the prompt (docs/how-to/steer_attention.md).

    log(alpha) is added to their attention scores at the tokens of the word, before the softmax, in all heads.
    """

    kind: Literal["attention"]
    span: Text = Field(
        description="Column with the word (or words) of each prompt, such as `focus`; the split keeps it "
        "(`columns: {keep: [focus]}`). All places count where it is in a turn of the user as a whole word, upper or "
        "lower case. A prompt without it is asked as it is, and counted."
    )
    alpha: Number = Field(
        gt=0,
        le=1,
        description="By what the attention to the word is multiplied, before the weights are made to add up to 1 "
        "again. At 1 nothing is changed; near 0 later tokens cannot see the word.",
    )
    layers: list[Whole] | None = Field(
        None, min_length=1, description="Decoder layers, the first is 0. Default: all layers of the model."
    )

    @model_validator(mode="before")
    @classmethod
    def _said(cls, written: Any) -> Any:
        """Leave out keys without a value, by which an entry that is `like` another one takes its keys away."""
        if not isinstance(written, dict):
            return written
        return {key: value for key, value in written.items() if value is not None}

    @model_validator(mode="after")
    def _layers_of_a_model(self) -> AttentionIntervention:
        refuse_wrong_layers(self.layers)
        return self


def attention_of(model: Any) -> AttentionIntervention | None:
    """Return the intervention of a model's entry, if it is of this kind."""
    asked = getattr(model, "intervention", None)
    return asked if isinstance(asked, AttentionIntervention) else None
