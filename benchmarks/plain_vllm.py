"""One plain offline vLLM call over all requests: what the workflow is measured against.

Run by the engine's Python. It renders the prompts with the tokenizer's own chat template and imports nothing of this
project: the seeds, the flags and the sampling parameters come as data. It writes what it asked and what came back.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

SAMPLING = (
    *("temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty"),
    *("min_tokens", "max_tokens", "stop", "stop_token_ids", "ignore_eos", "logprobs", "seed"),
)


def main(task_file: str, answers_file: str) -> None:
    """Answer the task in one call; write a JSON line per request."""
    from transformers import AutoTokenizer
    from vllm import LLM, SamplingParams, TokensPrompt

    task: dict[str, Any] = json.loads(Path(task_file).read_text(encoding="utf-8"))
    tokenizer = AutoTokenizer.from_pretrained(task["flags"]["model"])
    # The workflow sends its own stop tokens and no others; here they are read once more.
    sampling = {**task["sampling"], "logprobs": 0, "ignore_eos": True}
    sampling["stop_token_ids"] = stop_tokens(Path(task["flags"]["model"]), tokenizer.eos_token_id)
    prompts, params = [], []
    for system_prompt in task["system_prompts"]:
        system = [] if system_prompt is None else [{"role": "system", "content": system_prompt}]
        for row in task["prompts"]:
            messages = [*system, {"role": "user", "content": row["prompt"]}]
            ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False)
            for seed in row["seeds"]:
                prompts.append(TokensPrompt(prompt_token_ids=list(ids)))
                params.append(SamplingParams(**sampling, seed=seed if task["seeded"] else None))
    engine = LLM(**task["flags"])
    outputs = engine.generate(prompts, params, use_tqdm=False)
    with open(answers_file, "w", encoding="utf-8") as handle:
        for prompt, asked, output in zip(prompts, params, outputs, strict=True):
            answer = output.outputs[0]
            sampled = zip(answer.token_ids, answer.logprobs, strict=True)
            row = {
                "token_ids": list(prompt["prompt_token_ids"]),
                "sampling": {name: getattr(asked, name) for name in SAMPLING},
                "answer_ids": list(answer.token_ids),
                "logprobs": [place[token].logprob for token, place in sampled],
                "text": answer.text,
                "finish_reason": answer.finish_reason,
            }
            handle.write(json.dumps(row) + "\n")


def stop_tokens(folder: Path, end: int | None) -> list[int]:
    """Return the ids that end an answer: the tokenizer's, and those of generation_config.json (else config.json)."""
    ids = set() if end is None else {end}
    for name in ("generation_config.json", "config.json"):
        if (folder / name).is_file():
            named = json.loads((folder / name).read_text(encoding="utf-8")).get("eos_token_id")
            if named is not None:
                return sorted(ids | set(named if isinstance(named, list) else [named]))
    return sorted(ids)


if __name__ == "__main__":
    main(*sys.argv[1:])
