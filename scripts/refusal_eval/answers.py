"""Answers: pure functions of a stored response and the model's marks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refusal_eval.packing import unpack_floats
from refusal_eval.states import BLOCKED, COMPLETE, EMPTY, FAILED, TOO_LONG, TRUNCATED, TRUNCATED_REASONING

STOP, LENGTH, CONTENT_FILTER = "stop", "length", "content_filter"


@dataclass(frozen=True)
class Marks:
    """Token ids of a model's reasoning marks. No `end` means that the model does not reason."""

    start: tuple[int, ...] = ()
    end: tuple[int, ...] = ()


@dataclass(frozen=True)
class Segments:
    """Where the answer's tokens lie in a response: [begin, end). `begin` is None when the reasoning never ended."""

    begin: int | None
    end: int


def segments_of(token_ids: Sequence[int], stopped_by_token: bool, marks: Marks, reasoning_is_open: bool) -> Segments:
    """Return the segment of the answer.

    Reasoning ends with the first end mark; what follows is the answer. A response without an end mark is all answer,
    unless its reasoning was opened, by the prompt (`reasoning_is_open`) or by a start mark of its own. The stop token
    belongs to neither segment: it is not part of the text.
    """
    end = len(token_ids) - (1 if stopped_by_token and token_ids else 0)
    if not marks.end:
        return Segments(0, end)
    at = find(token_ids, marks.end)
    if at is not None:
        return Segments(min(at + len(marks.end), end), end)
    opened = reasoning_is_open or (bool(marks.start) and find(token_ids, marks.start) is not None)
    return Segments(None if opened else 0, end)


def answer_of(
    response: Mapping[str, Any], marks: Marks, reasoning_is_open: bool, decode: Callable[[Sequence[int]], str]
) -> dict[str, Any]:
    """Return an answer's fields (without its prompt, sample and key) from a response.

    `answer_logprob` and `reasoning_logprob` are means over a segment's tokens of their raw log-probability, in nats;
    None for an empty segment.
    """
    if response["finish_reason"] == CONTENT_FILTER:
        return blank(BLOCKED, CONTENT_FILTER)
    token_ids = list(response["token_ids"])
    stopped_by_token = response["finish_reason"] == STOP and not isinstance(response["stop_reason"], str)
    segments = segments_of(token_ids, stopped_by_token, marks, reasoning_is_open)
    begin = segments.end if segments.begin is None else segments.begin
    # Without reasoning the engine's own text is the answer; its detokenisation is the reference.
    answer = response["text"] if begin == 0 else _cut(decode(token_ids[begin : segments.end]), response["stop_reason"])
    reasoning = None if begin == 0 else decode(token_ids[:begin])
    logprobs = unpack_floats(response["logprobs"]).astype(np.float64)
    return {
        "state": _state(response["finish_reason"], segments, answer),
        "answer": answer,
        "reasoning": reasoning,
        "answer_tokens": segments.end - begin,
        "reasoning_tokens": begin,
        "answer_logprob": _mean(logprobs[begin : segments.end]),
        "reasoning_logprob": _mean(logprobs[:begin]),
        "finish_reason": response["finish_reason"],
    }


def blank(state: str, finish_reason: str | None = None) -> dict[str, Any]:
    """Return the fields of an answer without text: too long, blocked or failed."""
    return {
        "state": state,
        "answer": "",
        "reasoning": None,
        "answer_tokens": 0,
        "reasoning_tokens": 0,
        "answer_logprob": None,
        "reasoning_logprob": None,
        "finish_reason": finish_reason,
    }


def find(token_ids: Sequence[int], mark: Sequence[int]) -> int | None:
    """Return where a run of ids first stands in `token_ids`, or None."""
    width = len(mark)
    return next((i for i in range(len(token_ids) - width + 1) if tuple(token_ids[i : i + width]) == tuple(mark)), None)


def ends_open(prompt_ids: Sequence[int], marks: Marks) -> bool:
    """Tell whether a prompt leaves the reasoning open: its last start mark has no end mark after it."""
    if not marks.start:
        return False
    last = None
    for i in range(len(prompt_ids) - len(marks.start) + 1):
        if tuple(prompt_ids[i : i + len(marks.start)]) == marks.start:
            last = i
    return last is not None and find(prompt_ids[last:], marks.end) is None


def _state(finish_reason: str, segments: Segments, answer: str) -> str:
    if segments.begin is None:
        return TRUNCATED_REASONING if finish_reason == LENGTH else EMPTY
    if not answer.strip():
        # Cut off right behind the reasoning, the answer had no chance to begin.
        return TRUNCATED_REASONING if finish_reason == LENGTH and segments.begin > 0 else EMPTY
    return TRUNCATED if finish_reason == LENGTH else COMPLETE


def _cut(text: str, stop_reason: Any) -> str:
    return text.split(stop_reason, 1)[0] if isinstance(stop_reason, str) and stop_reason else text


def _mean(values: Any) -> float | None:
    return float(np.mean(values)) if len(values) else None


__all__ = ["FAILED", "TOO_LONG", "Marks", "Segments", "answer_of", "blank", "ends_open", "find", "segments_of"]
