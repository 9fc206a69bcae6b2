"""Answers: what a stored response says, read with the marks of the model's reasoning."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from refusal_eval.ask.reasoning import Decode, ReasoningFormat, Segments, letters_text, marks_in_text, reasoning_of
from refusal_eval.ask.render import Renderer
from refusal_eval.ask.requests import Request
from refusal_eval.core.packing import pack_floats, unpack_floats
from refusal_eval.core.states import BLOCKED, COMPLETE, EMPTY, FAILED, TOO_LONG, TRUNCATED, TRUNCATED_REASONING
from refusal_eval.core.texts import is_blank

STOP, LENGTH, CONTENT_FILTER = "stop", "length", "content_filter"
UNUSABLE = "failed"  # how a response ended that is no answer and would come again
# The state of an answer without text, by how its response ended.
WITHOUT_TEXT: Mapping[str, str] = {CONTENT_FILTER: BLOCKED, UNUSABLE: FAILED, "too_long": TOO_LONG}


class AnswerReader:
    """Turns the responses of one model into the fields of answers.

    Without a tokenizer's folder the engine returns only text; `reasoning` is None for a model that does not reason.
    """

    def __init__(
        self, tokenizer_folder: str | None, reasoning: Mapping[str, Any] | None, trust_remote_code: bool
    ) -> None:
        self._renderer: Renderer | None = None
        # Only reasoning models need their tokens decoded again; the others are spared loading the tokenizer.
        if reasoning and tokenizer_folder is not None:
            self._renderer = Renderer(tokenizer_folder, template="none", trust_remote_code=trust_remote_code)
        # Without tokens, or with tokens that cannot be decoded here, marks are searched in the text.
        self._in_text = marks_in_text(reasoning) if reasoning and reasoning.get("format") != "harmony" else None
        self._reasoning: ReasoningFormat | None = self._in_text
        if self._renderer is not None or not reasoning:
            self._reasoning = reasoning_of(reasoning, self._renderer and self._renderer.tokenizer, self._decode)

    @property
    def reasons(self) -> bool:
        """Whether the model's entry says how to separate reasoning from answers."""
        return self._reasoning is not None

    def fields(self, request: Request, response: Mapping[str, Any]) -> dict[str, Any]:
        """Return an answer's fields without its place (see `answer_of`), and what a provider says of it."""
        if response["logprobs"] is None or (self.reasons and self._renderer is None):
            return answer_of_text(response, self._in_text) | said_beside(response)
        return answer_of(response, request.token_ids, self._reasoning, self._decode) | said_beside(response)

    def _decode(self, token_ids: Sequence[int]) -> str:
        assert self._renderer is not None
        return self._renderer.decode(token_ids)


def answer_of(
    response: Mapping[str, Any], prompt_ids: Sequence[int], reasoning: ReasoningFormat | None, decode: Decode
) -> dict[str, Any]:
    """Return an answer's fields (without its prompt, sample and key) from a response.

    Without `reasoning` all is answer. The token that stopped it belongs to no segment: it is not part of the text.
    `answer_logprob` and `reasoning_logprob` are means over a segment's tokens of their raw log-probability, in nats;
    None for an empty segment.
    """
    if (ended := response["finish_reason"]) in WITHOUT_TEXT:
        return blank(WITHOUT_TEXT[ended], ended)
    token_ids = list(response["token_ids"])
    stopped_by_token = response["finish_reason"] == STOP and isinstance(response["stop_reason"], int)
    written = token_ids[:-1] if stopped_by_token else token_ids
    segments = reasoning.segments(prompt_ids, written) if reasoning else Segments(0, len(written))
    begin = segments.end if segments.begin is None else segments.begin
    if begin == 0 and segments.end == len(written):
        answer = response["text"]  # all is answer: the engine's own detokenisation is the reference
    else:
        answer = segments.text if segments.text is not None else decode(written[begin : segments.end])
        if isinstance(stop := response["stop_reason"], str) and stop:
            answer = answer.split(stop, 1)[0]
    logprobs = unpack_floats(response["logprobs"]).astype(np.float64)
    return {
        "state": _state(response["finish_reason"], segments, answer),
        "answer": answer,
        "reasoning": decode(written[:begin]) if begin else None,
        "answer_tokens": segments.end - begin,
        "reasoning_tokens": begin,
        "answer_logprob": _mean(logprobs[begin : segments.end]),
        "reasoning_logprob": _mean(logprobs[:begin]),
        "finish_reason": response["finish_reason"],
    }


def answer_of_text(response: Mapping[str, Any], reasoning: ReasoningFormat | None) -> dict[str, Any]:
    """Return an answer's fields from a response without token ids.

    Token counts and log-probabilities are None, unless the response has `text_logprobs` and its text is all answer:
    whose the log-probabilities are of a text with reasoning in it, nothing here can tell.
    """
    if (ended := response["finish_reason"]) in WITHOUT_TEXT:
        return blank(WITHOUT_TEXT[ended], ended)
    unknown = dict.fromkeys(("answer_tokens", "reasoning_tokens", "answer_logprob", "reasoning_logprob"))
    as_tokens = {
        **response,
        "token_ids": list(map(ord, response["text"])),
        "logprobs": pack_floats([]),
        "stop_reason": "",
    }
    found = answer_of(as_tokens, [], reasoning, letters_text) | unknown
    apart = response.get("reasoning")  # text of its own: the server has taken it out of the answer
    if "text_logprobs" in response and found["reasoning"] is None and not apart:
        logprobs = unpack_floats(response["text_logprobs"]).astype(np.float64)
        found |= {"answer_tokens": len(logprobs), "reasoning_tokens": 0, "answer_logprob": _mean(logprobs)}
    if apart:
        found["reasoning"] = apart + (found["reasoning"] or "")
    # Empty at the limit: its tokens went into hidden reasoning.
    hidden = found["state"] == EMPTY and found["finish_reason"] == LENGTH
    return found | {"state": TRUNCATED_REASONING} if hidden else found


def said_beside(response: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an answer that only servers of other parties give: what there is of them.

    blocked     who stopped the answer (`store.Block`)
    declared    true for a refusal that the model wrote into a field of its own
    reason      why there is no answer
    marks       such as `unfiltered`
    usage       the tokens that are billed (`store.TokenUsage`)
    """
    return {name: response[name] for name in ("blocked", "declared", "reason", "marks", "usage") if response.get(name)}


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


def _state(finish_reason: str, segments: Segments, answer: str) -> str:
    if segments.begin is None:
        return TRUNCATED_REASONING if finish_reason == LENGTH else EMPTY
    if is_blank(answer):
        # Cut off right behind the reasoning, the answer had no chance to begin.
        return TRUNCATED_REASONING if finish_reason == LENGTH and segments.begin > 0 else EMPTY
    return TRUNCATED if finish_reason == LENGTH else COMPLETE


def _mean(values: Any) -> float | None:
    return float(np.mean(values)) if len(values) else None
