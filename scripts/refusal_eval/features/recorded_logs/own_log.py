"""What a log of inspect that `refusal-eval export` wrote says besides: in the metadata of samples and scores."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.states import ANSWER_STATES, BLOCK_STAGES, BLOCKED, BLOCKERS, LABELS
from refusal_eval.data.rows import kind_of

OURS = "refusal_eval"
NO_REASON = "the request failed"  # what an export writes as the error of a sample without a reason
WORDS = ("category", "severity", "code")
TEXTS = ("reasoning", "reason")
USAGE = ("input", "cached", "output")
ABOUT = ("category", "cluster", "expectation")


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
    return _answer(own) | ({"turn": own["turn"]} if isinstance(own.get("turn"), int) and own["turn"] > 0 else {})


def earlier_turns(metadata: Mapping[str, Any], last: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a row for each earlier turn of an exported dialogue, whose last turn the sample is.

    Args:
        last: the row of the last turn, with the earlier ones in its messages.
    """
    own = metadata.get(OURS)
    turns = own.get("earlier_turns") if isinstance(own, Mapping) else None
    messages, users = last["messages"], dict[int, int]()
    for place, message in enumerate(messages):
        if message["role"] == "user":
            users[len(users)] = place
    for turn in turns if isinstance(turns, list) and last.get("turn") else ():
        place = users.get(turn.get("turn", -1), -1) if isinstance(turn, Mapping) else -1
        if not 0 <= place < len(messages) - 1:
            continue
        fields, labels = _answer(turn), turn.get("labels")
        shares = turn["p_refusal"] if isinstance(turn.get("p_refusal"), Mapping) else {}
        said = [
            {"by": by, "label": label} | ({} if (p := _number(shares.get(by), 0, 1)) is None else {"probability": p})
            for by, label in (labels.items() if isinstance(labels, Mapping) else ())
            if label in LABELS
        ]
        kept = {name: last[name] for name in ("prompt_id", "sample", *ABOUT) if name in last}
        said_too = {name: turn[name] for name in TEXTS if isinstance(turn.get(name), str)}
        text = "" if fields.get("state") == BLOCKED else messages[place + 1]["content"]
        row = {"messages": messages[: place + 1], "turn": turn["turn"], "answer": text, **said_too}
        yield kept | row | {"labels": said or None} | fields


def _answer(own: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"state": own["state"]} if own.get("state") in ANSWER_STATES else {}
    if isinstance(block := own.get("blocked"), Mapping):
        found["blocked"] = {name: block.get(name) for name in WORDS if isinstance(block.get(name), str)}
        found["blocked"] |= {"by": block.get("by")} if block.get("by") in BLOCKERS else {}
        found["blocked"] |= {"stage": block.get("stage")} if block.get("stage") in BLOCK_STAGES else {}
        partial = block.get("partial")
        found["blocked"] |= {"partial": partial} if isinstance(partial, str) else {}
    found |= {"declared": True} if own.get("declared") is True else {}
    found |= {"marks": ["unfiltered"]} if "unfiltered" in (own.get("marks") or ()) else {}
    if isinstance(usage := own.get("usage"), Mapping):
        found["usage"] = {name: usage.get(name) for name in USAGE}
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
