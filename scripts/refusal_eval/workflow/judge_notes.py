"""What a judge notices beside the label: the flags it can raise, and whether its votes are asked again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refusal_eval.judges.reasoned_judge import FLAGS, PUBLISHED
from refusal_eval.judges.wildguard_judge import PROMPT_HARM, RESPONSE_HARM


def flags_of(config: Mapping[str, Any], judge: str) -> list[str]:
    """Return the flags that a judge of the study can raise, of a panel those of its members; sorted.

    What a user's own function raises is not known before it does.
    """
    entry = config["judge_entries"][judge]
    if entry["kind"] == "panel":
        return sorted({flag for member in entry["members"] for flag in flags_of(config, member)})
    if entry["kind"] == "reasoned" and entry["form"] != PUBLISHED:
        return sorted(FLAGS)
    return sorted((PROMPT_HARM, RESPONSE_HARM)) if entry["kind"] == "wildguard" else []


def asks_again(config: Mapping[str, Any], judge: str) -> bool:
    """Tell whether votes of a judge that cannot be read are asked again."""
    return bool(config["judge_entries"][judge].get("retries"))
