"""How answers of other tools and servers end, in their words, and the state that follows."""

from collections.abc import Mapping
from typing import Any

from refusal_eval.core.states import BLOCKED, COMPLETE, FAILED, TRUNCATED

# Case does not matter.
ENDS = {
    **dict.fromkeys(("stop", "eos", "eos_token", "end_turn", "stop_sequence", "complete", "completed"), COMPLETE),
    **dict.fromkeys(("tool_calls", "tool_use", "function_call"), COMPLETE),
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "model_length"), TRUNCATED),
    **dict.fromkeys(("content_filter", "refusal", "safety", "blocked", "guardrail_intervened"), BLOCKED),
    **dict.fromkeys(("error", "failed", "cancelled"), FAILED),
}


def state_of(row: Mapping[str, Any]) -> str:
    """Return the state that a row says, by its `state`, its block or its finish reason; complete where it says none."""
    said = BLOCKED if row.get("blocked") else ENDS.get(str(row.get("finish_reason", "stop")).lower(), COMPLETE)
    return str(row.get("state") or said)
