"""How many prompts attention steering left as they are."""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.core.files import read_jsonl
from refusal_eval.core.texts import is_blank
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.flags import UNSTEERED

BECAUSE, TOKENS = "unsteered_because", "steered_tokens"
# Why a prompt is asked as it is, as results name it, and in words.
NO_WORD, NOT_FOUND = "no_word", "not_found"
REASONS = {NO_WORD: "the column is empty", NOT_FOUND: "the word is not in the prompt"}


def measure(files: Mapping[str, Sequence[str]], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return of each cell the share of prompts that were asked as they are, in all and by why, and the tokens steered.

    The first row of a request file is its header.
    """
    found = []
    for (model, split, column), asked, prompts in zip(
        params["cells"], files["requests"], files["prompts"], strict=True
    ):
        words = {row["id"]: row["source"].get("kept", {}).get(column) for row in read_jsonl(prompts)}
        counts, tokens = Counter[str | None](), 0
        for row in itertools.islice(read_jsonl(asked), 1, None):
            tokens += len(row.get("positions", ()))
            word = words[row["prompt_id"]]
            counts[None if row.get("positions") else NO_WORD if word is None or is_blank(word) else NOT_FOUND] += 1
        total = counts.total()
        about: dict[str, Any] = {"model": model, "split": split, "n_prompts": total}
        found.append(Estimate(UNSTEERED, (total - counts[None]) / total, **about))
        found += [
            Estimate(BECAUSE, counts[reason] / total, parameter=reason, **about) for reason in REASONS if counts[reason]
        ]
        if counts[None]:
            found.append(Estimate(TOKENS, tokens / counts[None], **about | {"n_prompts": counts[None]}))
    return {"estimates": [estimate.row() for estimate in found]}


def methods_words(results: Sequence[Estimate]) -> dict[str, Any]:
    """Return what the methods section says of it: each cell with prompts that were asked as they are."""
    return {"unsteered": [row for row in results if row.estimand == UNSTEERED and row.value]}
