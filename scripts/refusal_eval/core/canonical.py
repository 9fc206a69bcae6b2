"""Values in the one form in which they are hashed."""

from collections.abc import Mapping
from typing import Any

KEY_VERSION = 1  # of request keys and engine identities


def plain(value: Any) -> Any:
    """Return `value` with whole floats as integers: 1 and 1.0 in a config are one and the same."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
