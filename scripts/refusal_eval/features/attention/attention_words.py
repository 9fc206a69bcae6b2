"""What the methods section says of attention steering."""

from collections.abc import Mapping
from typing import Any

from refusal_eval.report.methods.study_sources import quoted
from refusal_eval.report.methods.words import listed


def attention_words(value: Mapping[str, Any], manifest: Mapping[str, Any], model: str) -> str:
    """Return what a model was asked with."""
    layers = value.get("layers")
    where = "all layers" if layers is None else f"{'layer' if len(layers) == 1 else 'layers'} "
    where += "" if layers is None else f"{listed(map(str, sorted(layers)))}, counted from 0"
    return (
        f"attention steering (log {value['alpha']:g} was added to the attention scores of all later tokens at those of "
        f"the word in column {quoted(value['span'])}, before the softmax, in all heads of {where})"
    )
