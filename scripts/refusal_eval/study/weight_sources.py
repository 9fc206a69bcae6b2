"""Where the weights of an engine come from, and the id of their copy in the cache."""

from collections.abc import Mapping
from typing import Any

from refusal_eval.config.kinds import WEIGHT_SOURCES
from refusal_eval.core.files import sha256_of

CONVERSION = 1  # of scripts/convert_gguf.py: raise it when the same GGUF file comes out as other weights or tokens


def weights_id(weights: Mapping[str, Any]) -> str:
    """Return 16 hex digits that name the copy in the cache of a source of weights, or of an adapter.

    A copy in the cache is never made again. So weights that another version of the conversion made are another copy.
    """
    made = WEIGHT_SOURCES.class_of(weights).made if WEIGHT_SOURCES.kind_of(weights) in WEIGHT_SOURCES.names() else {}
    return sha256_of({key: value for key, value in weights.items() if value is not None} | dict(made))[:16]
