"""The residual stream after each decoder layer as vLLM itself computes it; for the engine environment.

Usage: python engine_states.py FOLDER PROMPTS OUT, with the token ids of each prompt in PROMPTS (JSON). Prompts go
through the engine one at a time, so that the last row of a prefill is the prompt's last token. Of this project's code
it uses nothing.
"""

import json
import os
import sys
from typing import Any

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # the model is in this process, where its layers can be hooked

import torch
from safetensors.torch import save_file
from vllm import LLM, SamplingParams

seen: dict[int, torch.Tensor] = {}


def keep_first(number: int) -> Any:
    """Return a hook that keeps the stream of a layer's first pass: the prefill."""

    def kept(module: Any, inputs: Any, output: tuple[torch.Tensor, torch.Tensor]) -> None:
        branch, residual = output  # vLLM adds these in the next layer's norm
        seen.setdefault(number, (branch + residual).clone())

    return kept


def hook_layers(model: Any) -> int:
    """Register a hook on each decoder layer of a Llama; return how many there are."""
    for number, layer in enumerate(model.model.layers):
        layer.register_forward_hook(keep_first(number))
    return len(model.model.layers)


def main(folder: str, prompts: str, out: str) -> None:
    """Save `states` [prompts, layers, width]."""
    llm = LLM(
        folder,
        dtype="float32",
        enforce_eager=True,
        max_num_seqs=1,
        max_model_len=1024,
        enable_prefix_caching=False,
        kv_cache_memory_bytes=1 << 28,
    )
    llm.apply_model(hook_layers)
    rows = []
    with open(prompts) as file:
        wanted = json.load(file)
    for ids in wanted:
        seen.clear()
        llm.generate({"prompt_token_ids": ids}, SamplingParams(max_tokens=1), use_tqdm=False)
        assert {len(stream) for stream in seen.values()} == {len(ids)}
        rows.append(torch.stack([seen[number][-1] for number in sorted(seen)]))
    save_file({"states": torch.stack(rows)}, out)


if __name__ == "__main__":
    main(*sys.argv[1:])
