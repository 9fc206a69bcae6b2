"""Reading a model's responses as answers, with its tokenizer where the marks of its reasoning need it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.ask.answers import answer_of, answer_of_text
from refusal_eval.ask.reasoning import Reasoning, marks_in_text, reasoning_of
from refusal_eval.ask.render import Renderer
from refusal_eval.ask.requests import Request


class AnswerReader:
    """Turns the responses of one model into the fields of answers.

    Args:
        tokenizer_folder: folder with the model's tokenizer; None for an engine that tells texts only.
        reasoning: how the model's reasoning is told (see `reasoning_of`), None for a model that does not reason.
        trust_remote_code: run tokenizer code that the model repository ships.
    """

    def __init__(
        self, tokenizer_folder: str | None, reasoning: Mapping[str, Any] | None, trust_remote_code: bool
    ) -> None:
        self._renderer: Renderer | None = None
        # Only reasoning models need their tokens decoded again; the others are spared loading the tokenizer.
        if reasoning and tokenizer_folder is not None:
            self._renderer = Renderer(tokenizer_folder, template="none", trust_remote_code=trust_remote_code)
        tokenizer = self._renderer.tokenizer if self._renderer else None
        if reasoning and tokenizer is None:
            self._reasoning: Reasoning = marks_in_text(reasoning)
        else:
            self._reasoning = reasoning_of(reasoning, tokenizer, self._decode)

    def fields(self, request: Request, response: Mapping[str, Any]) -> dict[str, Any]:
        """Return an answer's fields without its place (see `refusal_eval.ask.answers.answer_of`)."""
        if response["logprobs"] is None:
            return answer_of_text(response, self._reasoning)
        return answer_of(response, request.token_ids, self._reasoning, self._decode)

    def _decode(self, token_ids: Sequence[int]) -> str:
        assert self._renderer is not None
        return self._renderer.decode(token_ids)
