"""Greedy answers of vLLM's `LLM` class with interventions, without a server; for the engine environment.

Of this project it uses the worker's class alone, whose folder must be among those that modules are imported from.
Standard input is JSON: {"folder", "prompts": [ids], "tokens", "loads": [[worker class, additional configuration]]}.
Printed is for each load, one after the other, {"answers", "cached"}: the tokens of each answer, and how many tokens of
the first prompt the cache of prompts had; of all prompts, and then of the same prompts again.
"""

import json
import sys
from typing import Any

from vllm import LLM, SamplingParams


def answered(given: dict[str, Any], worker: str, additional: dict[str, Any]) -> dict[str, list[Any]]:
    """Return what one load says."""
    llm = LLM(
        given["folder"],
        dtype="float32",
        enforce_eager=True,
        max_model_len=1024,
        block_size=32,
        enable_prefix_caching=True,
        kv_cache_memory_bytes=1 << 28,
        worker_cls=worker,
        additional_config=additional,
    )
    prompts = [{"prompt_token_ids": ids} for ids in given["prompts"]]
    sampling = SamplingParams(temperature=0.0, max_tokens=given["tokens"], ignore_eos=True)  # as the server is asked
    rounds = [llm.generate(prompts, sampling, use_tqdm=False) for _ in range(2)]
    return {
        "answers": [[list(one.outputs[0].token_ids) for one in outputs] for outputs in rounds],
        "cached": [outputs[0].num_cached_tokens for outputs in rounds],
    }


if __name__ == "__main__":
    given = json.load(sys.stdin)
    print(json.dumps([answered(given, *load) for load in given["loads"]]))
