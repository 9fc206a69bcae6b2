"""The model's own replies, whose first tokens an attribution of the score `reply` is of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from refusal_eval.ask.keys import NEUTRAL_SAMPLING
from refusal_eval.ask.store import StoreReader, not_in_store
from refusal_eval.core.files import read_jsonl
from refusal_eval.core.packing import unpack_floats

if TYPE_CHECKING:
    from pathlib import Path


def own_replies(answers: str | Path, store_dir: str | Path, engine_id: str, tokens: int) -> dict[str, list[int]]:
    """Return the first tokens of the first sample's reply to each prompt, as they were sampled, by the prompt's id.

    A prompt that the engine did not answer, or answered with no token, has none.

    Args:
        answers: answers/{model}/{split}.jsonl.
        tokens: the most of a reply.

    Raises:
        NotInStore: if replies are no longer there.
    """
    keys = {
        row["prompt_id"]: row["key"]
        for row in read_jsonl(answers)
        if row["sample"] == 0 and row["turn"] == 0 and row["serving"] is not None
    }
    records = StoreReader(store_dir, engine_id).lookup(keys.values())
    if lost := [name for name, key in keys.items() if key not in records]:
        raise not_in_store(f"{len(lost)} of {len(keys)} replies are")
    found = {name: list(records[key]["response"]["token_ids"][:tokens]) for name, key in keys.items()}
    return {name: reply for name, reply in found.items() if reply}


def sampling_of_reply() -> dict[str, Any]:
    """Return the sampling parameters: one greedy token, and the log-probabilities of the prompt's tokens."""
    return {"max_tokens": 1, "temperature": 0.0, **NEUTRAL_SAMPLING, "prompt_logprobs": 0}


def log_probability(response: Mapping[str, Any], reply: Sequence[int]) -> float:
    """Return the log-probability (nats) of a reply behind a prompt, from the response to both together.

    Raises:
        ValueError: if the response has not one for each token.
    """
    values = unpack_floats(response["prompt_logprobs"])
    if len(values) < len(reply):
        raise ValueError(f"it has {len(values)} log-probabilities of a prompt that ends with {len(reply)} of a reply")
    return float(values[len(values) - len(reply) :].sum(dtype="float64"))
