"""From an engine's catalogue entry to the class that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refusal_eval.engines.classifier_engine import ClassifierEngine
from refusal_eval.engines.server import ServerEngine
from refusal_eval.engines.vllm_engine import VllmEngine

CLASSES: Mapping[str, type[ServerEngine]] = {"vllm": VllmEngine, "transformers": ClassifierEngine}


def engine_class(entry: Mapping[str, Any]) -> type[ServerEngine]:
    """Return the class that runs an engine of this kind."""
    return CLASSES[entry.get("kind", "vllm")]
