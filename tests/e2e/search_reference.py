"""What a search for prompts has to agree with, computed by plain transformers; for the engine environment.

Usage: python search_reference.py PROGRAM JOB.json < asked.json
"""

import json
import math
import runpy
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.models.llama.modeling_llama import LlamaRMSNorm

DRAWS = 4000


def finite_differences(model: Any, prompt: list[int], place: int, refusal: list[int], tokens: list[int]) -> list[float]:
    """Return the slope of the loss along one-hot vectors of tokens, added at one place of the prompt, in float64."""
    one_hot = torch.nn.functional.one_hot(torch.tensor(prompt), model.config.vocab_size).double()
    behind = torch.nn.functional.one_hot(torch.tensor(refusal), model.config.vocab_size).double()
    matrix, step = model.get_input_embeddings().weight, 1e-5

    def loss(token: int, size: float) -> float:
        moved = one_hot.clone()
        moved[place, token] += size
        with torch.no_grad():
            logits = model(inputs_embeds=(torch.cat([moved, behind]) @ matrix)[None]).logits[0]
        wanted = logits[len(prompt) - 1 : -1].log_softmax(-1)
        return -sum(float(row[token]) for row, token in zip(wanted, refusal, strict=True)) / len(refusal)

    return [(loss(token, step) - loss(token, -step)) / (2 * step) for token in tokens]


def in_float64(folder: str) -> Any:
    """Return a Llama that computes in float64 throughout: its norms would do so in float32."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
    for part in model.modules():
        if isinstance(part, LlamaRMSNorm):
            part.forward = partial(norm, part.weight, part.variance_epsilon)
    return model


def norm(weight: Any, epsilon: float, states: Any) -> Any:
    """Return states over their root mean square."""
    return weight * states / (states.square().mean(-1, keepdim=True) + epsilon).sqrt()


def plain_loss(model: Any, prompt: list[int], refusal: list[int]) -> float:
    """Return the loss that transformers computes itself, of the refusal's tokens alone."""
    labels = [-100] * len(prompt) + refusal
    with torch.no_grad():
        return float(model(torch.tensor([prompt + refusal]), labels=torch.tensor([labels])).loss)


def greedy(model: Any, context: list[int], allowed: list[int], ends: list[int], most: int) -> list[int]:
    """Return the likeliest continuation, without anything kept; it ends where the ends together are likeliest."""
    text: list[int] = []
    while len(text) < most:
        with torch.no_grad():
            found = model(torch.tensor([context + text])).logits[0, -1].double().softmax(-1)
        best = max(allowed, key=lambda token: float(found[token]))
        if text and float(found[ends].sum()) > float(found[best]):
            break
        text.append(best)
    return text


def main(program_path: str, job_path: str) -> None:
    """Print what the program computes, and what it should."""
    program, job, asked = runpy.run_path(program_path), json.loads(Path(job_path).read_text()), json.load(sys.stdin)
    search = program["Search"](job)
    model = in_float64(job["target"]["folder"])
    tokenizer = AutoTokenizer.from_pretrained(job["target"]["folder"])
    before, text, after, refusal = (
        tokenizer(asked[name], add_special_tokens=False)["input_ids"] for name in ("before", "text", "after", "refusal")
    )
    allowed = search.allowed.nonzero().flatten().tolist()
    target, probes = search._target, allowed[::7]
    target.begin(before, after, refusal)
    for token in text:
        target.add(token)
    dummy, place = allowed[3], len(before) + len(text)
    said = {
        "gradient": [float(target.gradient(dummy)[token]) for token in probes],
        "finite": finite_differences(model, [*before, *text, dummy, *after], place, refusal, probes),
        "losses": target.losses(probes),
        "plain": [plain_loss(model, [*before, *text, token, *after], refusal) for token in probes],
        "loss": target.loss(),
        "plain loss": plain_loss(model, [*before, *text, *after], refusal),
        "allowed": tokenizer.decode(allowed),
        "ends": search._ends,
    }
    writer = in_float64(job["by"]["folder"])
    contexts = [tokenizer(context, add_special_tokens=False)["input_ids"] for context in asked["contexts"]]
    search._job = {**job, "w1": 0.0, "w2": 0.0, "temperature": 0.0, "candidates": 1, "steps": 12}
    said["greedy"] = [search.written(before, after, refusal, context, "x")[0] for context in contexts]
    said["greedy reference"] = [greedy(writer, context, allowed, search._ends, 12) for context in contexts]
    context = contexts[0]
    search._job = {**job, "w1": 0.0, "w2": 0.0, "candidates": len(allowed), "rounds": 1}
    fluency = search._models["GrowingText"](search._writer_model, context).next_log_probabilities()
    scores = search.scores(fluency, first=False)
    counts = Counter(program["drawn"](scores, 1.0, program["uniform"](f"draw {n}", 0)) for n in range(DRAWS))
    with torch.no_grad():
        found = writer(torch.tensor([context])).logits[0, -1].softmax(-1)
    shares = {token: float(found[token]) for token in allowed} | {-1: float(found[search._ends].sum())}
    whole = math.fsum(shares.values())
    said["drawn"] = [[counts[token], DRAWS * share / whole] for token, share in shares.items()]
    json.dump(said, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
