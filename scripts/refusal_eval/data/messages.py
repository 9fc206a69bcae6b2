"""Fields of a message other than its text, which no model or judge would see."""

from collections.abc import Mapping
from typing import Any

# What a model reads, and what published collections note about a message.
READ = {
    *("role", "content", "id", "timestamp", "created", "language", "model", "toxic", "redacted", "turn_identifier"),
    *("hashed_ip", "country", "state", "header", "metadata", "openai_id", "turn", "weight", "index", "lang", "date"),
    *("message_id", "parent_id", "turn_id", "turn_index", "create_time", "created_at", "temperature", "top_p", "usage"),
    *("token_counter", "token_count", "num_tokens", "system_fingerprint", "loss", "train"),
}
PART = {"type", "text"}  # of a message that is a list of parts
NOTHING: tuple[Any, ...] = (None, "", [], {}, False)


def lost_field(message: Mapping[Any, Any], read: set[str] = READ) -> str | None:
    """Return a field with content that would be lost, such as `tool_calls`; None if every field is read."""
    return next((str(key)[:40] for key, field in message.items() if key not in read and field not in NOTHING), None)
