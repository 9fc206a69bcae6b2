"""How the next token is drawn, from the logits of the model: penalties, temperature, top-k, top-p, min-p and a seed.

For the engine environment. The order is vLLM's: tokens that may not end an answer yet, penalties, temperature, min-p,
top-k, top-p. Log-probabilities are not taken from here: they are the model's own, before all of this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

NEVER = float("-inf")


def is_greedy(sampling: Mapping[str, Any]) -> bool:
    """Tell whether nothing is drawn."""
    return not sampling["temperature"]


def next_token(
    logits: Any, prompt: Any, written: Sequence[int], sampling: Mapping[str, Any], generator: torch.Generator | None
) -> int:
    """Return the id of the next token of one answer.

    Args:
        logits: float32, one for each token of the vocabulary.
        prompt: ids of the prompt, as a tensor.
        written: ids of the answer so far.
        generator: that of the request; None draws from torch's own.
    """
    scores = penalised(logits, prompt, written, sampling)
    if is_greedy(sampling):
        return int(scores.argmax())
    chances = torch.softmax(restricted(scores / sampling["temperature"], sampling), dim=-1)
    return int(torch.multinomial(chances, 1, generator=generator))


def penalised(logits: Any, prompt: Any, written: Sequence[int], sampling: Mapping[str, Any]) -> Any:
    """Return logits after penalties, without the tokens that would end an answer too early."""
    scores = logits.clone()
    if len(written) < sampling["min_tokens"] and sampling["stop_token_ids"]:
        scores[sampling["stop_token_ids"]] = NEVER
    own = torch.tensor(list(written), dtype=torch.long, device=scores.device)
    if (factor := sampling["repetition_penalty"]) != 1.0:
        seen = torch.unique(torch.cat([prompt, own]))
        scores[seen] = torch.where(scores[seen] > 0, scores[seen] / factor, scores[seen] * factor)
    if written and (sampling["frequency_penalty"] or sampling["presence_penalty"]):
        ids, counts = torch.unique(own, return_counts=True)
        scores[ids] -= sampling["frequency_penalty"] * counts + sampling["presence_penalty"]
    return scores


def restricted(scores: Any, sampling: Mapping[str, Any]) -> Any:
    """Return scores without the tokens that top-k, top-p and min-p leave out."""
    if sampling["min_p"]:
        chances = torch.softmax(scores, dim=-1)
        scores = scores.masked_fill(chances < sampling["min_p"] * chances.max(), NEVER)
    if 0 < sampling["top_k"] < len(scores):
        scores = scores.masked_fill(scores < scores.topk(sampling["top_k"]).values[-1], NEVER)
    if sampling["top_p"] < 1.0:
        ordered, places = scores.sort(descending=True)
        chances = torch.softmax(ordered, dim=-1)
        # Those before a token already have the share: it is left out. The likeliest always stays.
        left_out = chances.cumsum(-1) - chances >= sampling["top_p"]
        scores = scores.masked_fill(torch.zeros_like(left_out).scatter(0, places, left_out), NEVER)
    return scores
