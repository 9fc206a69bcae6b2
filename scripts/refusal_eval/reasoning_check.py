"""Does a reasoning model's entry name the marks that the model writes? Asked before GPU hours are spent on it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from refusal_eval.answer_reader import AnswerReader
from refusal_eval.errors import UserError
from refusal_eval.requests import Request
from refusal_eval.states import COMPLETE, EMPTY, TRUNCATED, TRUNCATED_REASONING

LOG = logging.getLogger(__name__)
ENOUGH = 4  # responses of a model that ended by themselves: one may be odd, four in a row are not
SEEN_STATES = (COMPLETE, TRUNCATED, TRUNCATED_REASONING, EMPTY)


class ReasoningCheck:
    """Looks at the first responses of each reasoning model.

    Args:
        readers: how the answers of each reasoning model are read, by the model's name.
    """

    def __init__(self, readers: Mapping[str, AnswerReader]) -> None:
        self._readers = dict(readers)
        self._ended: Counter[str] = Counter()
        self._reasoned: set[str] = set()

    def look(self, cell: str, request: Request, response: Mapping[str, Any]) -> None:
        """Look at a response to a request of a cell (`model/split`); do nothing once its model is known to be right.

        Raises:
            UserError: if the first responses of a model all end without an answer behind the reasoning.
        """
        model = cell.split("/")[0]
        reader = self._readers.get(model)
        if reader is None or response["finish_reason"] != "stop":
            return
        answer = reader.fields(request, response)
        if answer["answer_tokens"] and answer["reasoning_tokens"]:
            del self._readers[model]
            return
        if answer["answer_tokens"]:
            self._reasoned.add(model)  # all of it counts as answer
        self._ended[model] += 1
        if self._ended[model] < ENOUGH:
            return
        del self._readers[model]
        if model not in self._reasoned:
            raise UserError(no_answers(model, ENOUGH))
        LOG.warning(
            "the first %d responses of `%s` hold no end of a reasoning and count as answers: is `reasoning` in the "
            "model's entry right?",
            ENOUGH,
            model,
        )


def no_answers(model: str, count: int) -> str:
    """Return what to say of a model whose responses have no answer."""
    return (
        f"none of {count} responses of `{model}` has an answer behind the reasoning: does `reasoning` in the model's "
        "entry name the marks that it writes? They can be changed without executing anything again"
    )


def refuse_no_answers(model: str, answers: Iterable[Mapping[str, Any]]) -> None:
    """Check the answers of one cell of a reasoning model.

    Raises:
        UserError: if there are responses, and not one of them has an answer.
    """
    seen = [answer for answer in answers if answer["state"] in SEEN_STATES]
    if not seen or any(answer["answer_tokens"] for answer in seen):
        return
    cut = sum(answer["state"] == TRUNCATED_REASONING for answer in seen)
    length = f". {cut} of them were cut off: is `max_tokens` enough?" if cut else ""
    raise UserError(no_answers(model, len(seen)) + length)
