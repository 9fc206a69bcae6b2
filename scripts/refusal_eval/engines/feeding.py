"""How many requests an engine is given at one time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refusal_eval.weights.identity import one_spelling

LEAST = 1024
# `max-num-seqs`: what vLLM takes by itself for a server, on the largest cards, and on a CPU.
VLLM_SEQUENCES = {"cuda": 1024, "cpu": 128}


def requests_in_flight(config: Mapping[str, Any], entry: Mapping[str, Any], device: str) -> int:
    """Return the study's `requests_in_flight`; without it twice what the engine batches, and at least 1024.

    As many again wait at the engine while it works, so that none of its places is empty while an answer travels.

    Args:
        config: the validated study.
        entry: the engine's.
        device: cpu or cuda.
    """
    if config["requests_in_flight"] is not None:
        return int(config["requests_in_flight"])
    given = dict(one_spelling(name, value) for name, value in entry["args"].items())
    batched = int(given.get("max-num-seqs", VLLM_SEQUENCES[device])) * int(entry["data_parallel"])
    return max(LEAST, 2 * batched)
