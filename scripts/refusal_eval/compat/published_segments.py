"""How likely the published code takes the parts of a response to be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from refusal_eval.compat.float32 import EXACT, Elementary

NO_TOKENS = -1.0  # stands for the probability of a part without tokens
NO_MARK = 0.0  # stands for the probability of the reasoning of a model without an end mark


class Means(NamedTuple):
    """Mean log-probability of the tokens of the reasoning, of the answer, and of both; None for no tokens."""

    thinking: float | None
    answer: float | None
    combined: float | None


class Probabilities(NamedTuple):
    """Geometric mean probability of a token of the same parts: -1 for no tokens.

    `thinking` is 0 for a model without an end mark.
    """

    thinking: float
    answer: float
    combined: float


def segment_means(tokens: Sequence[str], logprobs: Sequence[float], end_mark: str | None) -> Means:
    """Return the means of a response's parts, in nats per token.

    The first token whose text equals the end mark is the last one of the reasoning. A mark that takes several tokens is
    never found, and then all of the response is reasoning.

    Args:
        tokens: text of each token.
        logprobs: natural logarithm of each token's probability.
        end_mark: the mark; None for a model that does not reason.
    """
    begin = 0 if end_mark is None else answer_begin(tokens, end_mark)
    values = np.asarray(logprobs, dtype=np.float32)
    return Means(_mean(values[:begin]), _mean(values[begin:]), _mean(values))


def answer_begin(tokens: Sequence[str], end_mark: str) -> int:
    """Return the index of the answer's first token; the number of tokens where there is no answer."""
    return next((index + 1 for index, token in enumerate(tokens) if token == end_mark), len(tokens))


def probabilities(means: Sequence[Means], end_mark: str | None, elementary: Elementary = EXACT) -> list[Probabilities]:
    """Return the probabilities of the parts of several responses.

    Args:
        means: of each response.
        end_mark: the model's mark.
        elementary: what computes the exponential.
    """
    given = [mean for row in means for mean in row if mean is not None]
    powers = iter(elementary.exp(np.array(given, dtype=np.float32)).tolist())
    rows = [Probabilities(*(NO_TOKENS if mean is None else next(powers) for mean in row)) for row in means]
    return rows if end_mark is not None else [row._replace(thinking=NO_MARK) for row in rows]


def _mean(logprobs: np.typing.NDArray[np.float32]) -> float | None:
    # Added exactly and rounded once, to what float32 can hold; torch's own sum differs by its last digit at most.
    return float(np.float32(logprobs.astype(np.float64).mean())) if len(logprobs) else None
