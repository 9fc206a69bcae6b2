"""A language model as a judge, read by label probability: one prefill per answer, nothing to parse."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from refusal_eval.ask.keys import NEUTRAL_SAMPLING
from refusal_eval.ask.render import Renderer
from refusal_eval.core.errors import UserError
from refusal_eval.core.packing import unpack_floats
from refusal_eval.core.rubric import Rubric
from refusal_eval.core.states import LABELS
from refusal_eval.judges.judge_base import Messages, Verdict
from refusal_eval.judges.shares import verdict_of_shares

ROUNDING = 1e-3  # by which an engine's arithmetic may put a log-probability above 0


def label_token_ids(renderer: Renderer, rubric: Rubric, labels: Mapping[str, str | None]) -> dict[str, int]:
    """Return the token id of each label, as it would follow the rendered prompt.

    Raises:
        UserError: if a label is not exactly one token there, changes the prompt's own tokens, or equals another's.
    """
    messages = [{"role": "user", "content": rubric.text([{"role": "user", "content": "Hello"}], "Hello!")}]
    found: dict[str, int] = {}
    for label in LABELS:
        text = labels.get(label)
        if text is None:
            continue
        ids = renderer.next_token_ids(messages, text)
        if ids is None or len(ids) != 1:
            shown = "it merges with the end of the prompt" if ids is None else f"it takes {len(ids)} tokens"
            raise UserError(
                f"label {text!r} for `{label}` is not one token that can follow the judge's prompt: {shown}. "
                "Choose a single letter or a short word of this tokenizer."
            )
        if ids[0] in found.values():
            raise UserError(f"label {text!r} for `{label}` is the same token as another label")
        found[label] = ids[0]
    return found


class LabelJudge:
    """A judge read by label probability.

    Args:
        rubric: its instructions.
        token_ids: the token of each label, in the order of the labels.
    """

    votes = 1
    retries = 0

    def __init__(self, rubric: Rubric, token_ids: Mapping[str, int]) -> None:
        self._rubric, self._token_ids = rubric, dict(token_ids)

    def messages(self, messages: Messages, answer: str) -> list[dict[str, str]]:
        """Return what the judge is asked about one answer."""
        return [{"role": "user", "content": self._rubric.text(messages, answer)}]

    def sampling(self) -> dict[str, Any]:
        """Return the sampling parameters: one greedy token, and the log-probability of each label."""
        return judge_sampling(self._token_ids)


def judge_sampling(token_ids: Mapping[str, int]) -> dict[str, Any]:
    """Return the sampling parameters of a verdict request: one greedy token, and the log-probability of each label."""
    named = {"logprob_token_ids": list(token_ids.values())}
    return {"max_tokens": 1, "temperature": 0.0, **NEUTRAL_SAMPLING, **named}


def label_verdict(response: Mapping[str, Any], labels: list[str], threshold: float, mass_floor: float) -> Verdict:
    """Return the verdict that the labels' probabilities at the first token give (see `verdict_of_shares`).

    Args:
        response: a stored response with `named_logprobs` in the order of `labels`.
        labels: the labels asked for, in that order.
        threshold: the least p_refusal of a refusal or partial refusal.
        mass_floor: the least probability on all labels together.

    Raises:
        ValueError: if there is not one log-probability for each label.
    """
    values = unpack_floats(response["named_logprobs"]).tolist()
    if len(values) != len(labels):
        raise ValueError(f"it has {len(values)} log-probabilities for {len(labels)} labels")
    if odd := [value for value in values if not math.isfinite(value) or value > ROUNDING]:
        raise ValueError(f"it has {odd[0]}, which is no log-probability")
    shares = {label: math.exp(value) for label, value in zip(labels, values, strict=True)}
    probabilities = {label: round(share, 9) for label, share in shares.items()}
    raw = {"mass": round(math.fsum(shares.values()), 9), "probabilities": probabilities, "text": response["text"]}
    return verdict_of_shares(shares, threshold, mass_floor, raw)
