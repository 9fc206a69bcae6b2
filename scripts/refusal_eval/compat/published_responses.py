"""Stored responses as the published code takes them: the probabilities of their parts, by (prompt, sample, turn)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refusal_eval.compat.float32 import EXACT, Elementary
from refusal_eval.compat.published_score import logarithms
from refusal_eval.compat.published_segments import Probabilities, probabilities, segment_means
from refusal_eval.core.packing import unpack_floats

Place = tuple[str, int, int]  # prompt id, sample, turn


@dataclass(frozen=True)
class Likelihood:
    """Probabilities of one response's parts, and the logarithm of the answer's; None where it has no answer tokens."""

    probabilities: Probabilities
    log: float | None


def response_rows(
    responses: Iterable[tuple[Place, Mapping[str, Any]]],
    end_mark: str | None,
    token_text: Callable[[int], str],
    elementary: Elementary = EXACT,
) -> list[dict[str, Any]]:
    """Return one row per response: its place, `thinking_prob`, `answer_prob`, `combined_prob` and `answer_log`.

    Every token that the engine returned counts, the one that ended the answer included. A response without a single
    token (a provider blocked it) has no probability at all.

    Args:
        responses: stored responses with their places.
        end_mark: text of the mark that ends the reasoning; None for a model that does not reason.
        token_text: text of one token.
        elementary: what computes exponentials and logarithms.
    """
    places, means = [], []
    for place, response in responses:
        texts = [token_text(token) for token in response["token_ids"]] if end_mark is not None else []
        places.append(place)
        means.append(segment_means(texts, unpack_floats(response["logprobs"]).tolist(), end_mark))
    found = probabilities(means, end_mark, elementary)
    logs = logarithms([[row.answer for row in found]], elementary)[0]
    return [
        {
            **dict(zip(("prompt_id", "sample", "turn"), place, strict=True)),
            **{f"{name}_prob": value for name, value in row._asdict().items()},
            "answer_log": log if row.answer > 0 else None,
        }
        for place, row, log in zip(places, found, logs, strict=True)
    ]


def likelihoods(rows: Iterable[Mapping[str, Any]]) -> dict[Place, Likelihood]:
    """Return the rows of `response_rows` by place."""
    names: Sequence[str] = [f"{name}_prob" for name in Probabilities._fields]
    return {
        (row["prompt_id"], row["sample"], row["turn"]): Likelihood(
            Probabilities(*(row[name] for name in names)), row["answer_log"]
        )
        for row in rows
    }
