"""What a log of inspect that `refusal-eval export` wrote says besides: in the metadata of samples and scores."""

import math
from collections.abc import Mapping
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.states import ANSWER_STATES, BLOCKERS
from refusal_eval.data.rows import kind_of

OURS = "refusal_eval"
STAGES = ("prompt", "answer")
WORDS = ("category", "severity", "code")


def own_fields(metadata: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return the state, the block and the log-probability of an answer; empty for another tool's sample.

    Raises:
        UserError: for a sample without texts, and for what no export writes.
    """
    own = metadata.get(OURS)
    if own is None:
        return {}
    if not isinstance(own, Mapping):
        raise UserError(f"{place}: `metadata.{OURS}` is {kind_of(own)}, which no export of refusal-eval has there")
    if own.get("level") == "labels":
        todo = "export the study with `--level answers`"
        raise UserError(f"{place}: the log was exported with `--level labels`, without prompts and answers; {todo}")
    found = {"state": own["state"]} if own.get("state") in ANSWER_STATES else {}
    if isinstance(block := own.get("blocked"), Mapping):
        found["blocked"] = {name: block.get(name) for name in WORDS if isinstance(block.get(name), str)}
        found["blocked"] |= {"by": block.get("by")} if block.get("by") in BLOCKERS else {}
        found["blocked"] |= {"stage": block.get("stage")} if block.get("stage") in STAGES else {}
    logprob = _number(own.get("answer_logprob"), -math.inf, 0)
    return found | ({} if logprob is None else {"answer_logprob": logprob})


def own_probability(score: Mapping[str, Any]) -> dict[str, float]:
    """Return the probability of a refusal that an exported verdict has."""
    kept = score.get("metadata")
    said = _number(kept.get("p_refusal"), 0, 1) if isinstance(kept, Mapping) else None
    return {} if said is None else {"probability": said}


def _number(value: Any, low: float, high: float) -> float | None:
    """Return a number within these bounds; None for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) and low <= value <= high else None
