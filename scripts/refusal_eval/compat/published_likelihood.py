"""How likely the published code takes the parts of a response to be."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from refusal_eval.core.packing import unpack_floats

Place = tuple[str, int, int]  # prompt id, sample, turn

NO_TOKENS = -1.0  # stands for the probability of a part without tokens
NO_MARK = 0.0  # stands for the probability of the reasoning of a model without an end mark


class Probabilities(NamedTuple):
    """Geometric mean probability of a token of the reasoning, of the answer, and of both: -1 for no tokens.

    `thinking` is 0 for a model without an end mark.
    """

    thinking: float
    answer: float
    combined: float

    @property
    def answer_log(self) -> float | None:
        """Logarithm of the answer's; None where it has no tokens."""
        return math.log(self.answer) if self.answer > 0 else None


def probabilities(tokens: Sequence[str], logprobs: Sequence[float], end_mark: str | None) -> Probabilities:
    """Return the probabilities of a response's parts, from the text and the natural log-probability of each token.

    The first token whose text equals the end mark is the last one of the reasoning; a model that does not reason has
    none. A mark that takes several tokens is never found, and then all of the response is reasoning.
    """
    begin = 0
    if end_mark is not None:
        begin = next((index + 1 for index, token in enumerate(tokens) if token == end_mark), len(tokens))
    parts = (logprobs[:begin], logprobs[begin:], logprobs)
    found = Probabilities(*(_geometric_mean(part) for part in parts))
    return found if end_mark is not None else found._replace(thinking=NO_MARK)


def _geometric_mean(logprobs: Sequence[float]) -> float:
    if not logprobs:
        return NO_TOKENS
    # In float32, as published: what is smaller than that can hold is 0, and its prompt may be dropped.
    return float(np.float32(np.exp(np.mean(logprobs))))


def response_rows(
    responses: Iterable[tuple[Place, Mapping[str, Any]]], end_mark: str | None, token_text: Callable[[int], str]
) -> list[dict[str, Any]]:
    """Return one row per stored response: its place, `thinking_prob`, `answer_prob` and `combined_prob`.

    Every token that the engine returned counts, the one that ended the answer included. A response without a single
    token (a provider blocked it) has no probability at all.
    """
    rows = []
    for place, response in responses:
        texts = [token_text(token) for token in response["token_ids"]] if end_mark is not None else []
        rows.append(likelihood_row(place, probabilities(texts, unpack_floats(response["logprobs"]).tolist(), end_mark)))
    return rows


def likelihood_row(place: Place, found: Probabilities) -> dict[str, Any]:
    """Return a row for one response."""
    names = dict(zip(("prompt_id", "sample", "turn"), place, strict=True))
    return names | {f"{name}_prob": value for name, value in found._asdict().items()}


def likelihoods(rows: Iterable[Mapping[str, Any]]) -> dict[Place, Probabilities]:
    """Return the rows of `response_rows` by place."""
    return {
        (row["prompt_id"], row["sample"], row["turn"]): Probabilities(
            *(row[f"{name}_prob"] for name in Probabilities._fields)
        )
        for row in rows
    }
