"""The key `lora` of a model's entry."""

from typing import Annotated

from pydantic import Field

from refusal_eval.config.feature_keys import FeatureKeys
from refusal_eval.config.kinds import ADAPTER_SOURCES, OfKind
from refusal_eval.config.source_entries import Source


class LoraKeys(FeatureKeys):
    """What a model's entry says of its LoRA adapter."""

    lora: Annotated[Source, OfKind(ADAPTER_SOURCES)] | None = Field(
        None,
        description="LoRA adapter of this model. In the request key: the hub's commit, or the SHA-256 of the folder's "
        "two files. Models of one engine that differ by adapter share its load (with `batch: engine`), together with "
        "the model without an adapter. The prompt is rendered with the engine's tokenizer and template; if the adapter "
        "brings its own template, name it as `template`.",
    )
