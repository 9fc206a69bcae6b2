"""The part of a model's config.json that is about its decoder."""

from collections.abc import Mapping
from typing import Any

LAYERS_KEY, TEXT_PARTS = "num_hidden_layers", ("text_config", "llm_config", "language_config")


def of_text(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of a model's config.json that is about its decoder: of a model with other parts, the text's."""
    return next((config[part] for part in TEXT_PARTS if isinstance(config.get(part), Mapping)), config)
