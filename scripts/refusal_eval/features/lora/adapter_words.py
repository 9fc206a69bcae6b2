"""What the methods section says of a LoRA adapter."""

from collections.abc import Mapping
from typing import Any

from refusal_eval.config.kinds import ADAPTER_SOURCES
from refusal_eval.features.lora.adapter_sources import AdapterSource
from refusal_eval.report.methods.study_sources import cite, quoted


def adapter_words(value: Mapping[str, Any], manifest: Mapping[str, Any], model: str) -> str:
    """Return that a model has an adapter, and where that comes from."""
    source: AdapterSource = ADAPTER_SOURCES.entry(value)
    return f"a LoRA adapter ({source.in_words(quoted)}{cite(source.bibtex_key)})"
