"""Does a model's entry name the marks of reasoning that the model writes? Asked before GPU hours are spent on it."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from refusal_eval.ask.answers import AnswerReader
from refusal_eval.ask.requests import Request
from refusal_eval.core.errors import UserError
from refusal_eval.core.recorded_files import CHANNEL_ENDS
from refusal_eval.core.states import COMPLETE, EMPTY, TRUNCATED, TRUNCATED_REASONING

LOG = logging.getLogger(__name__)
ENOUGH = 4  # responses of a model that ended by themselves: one may be odd, four in a row are not
MOST = 0.75  # share of answers with an end mark that makes them a reasoning model's; fewer may be about such marks
SEEN_STATES = (COMPLETE, TRUNCATED, TRUNCATED_REASONING, EMPTY)
AGAIN = "nothing has to be executed again, except later turns of dialogues"  # the cut reply stands in their history
CHANNELS = CHANNEL_ENDS[:2]  # what texts show of the channels of gpt-oss
# Marks that end the reasoning of published families. One in an answer says that the entry names another.
END_MARKS = ("</think>", "[/THINK]", "</thinking>", "</thought>", "</reasoning>", "<|end_of_thought|>", *CHANNELS)


class ReasoningCheck:
    """Looks at the first responses of each model.

    Args:
        readers: how the answers of each model are read, by the model's name.
    """

    def __init__(self, readers: Mapping[str, AnswerReader]) -> None:
        self._readers = dict(readers)
        self._ended: dict[str, list[dict[str, Any]]] = {}  # the first answers that ended by themselves, by model

    def look(self, cell: str, request: Request, response: Mapping[str, Any]) -> None:
        """Look at a response to a request of a cell (`model/split`); do nothing once its model is known to be right.

        Raises:
            UserError: if the first responses of a model all end without an answer behind the reasoning, or all hold
                an end mark that the entry does not name.
        """
        model = cell.split("/")[0]
        reader = self._readers.get(model)
        if reader is None or response["finish_reason"] != "stop":
            return
        ended = self._ended.setdefault(model, [])
        if not reader.reasons and any(one["prompt_id"] == request.prompt_id for one in ended):
            return  # a prompt may be about such marks, and so all of its samples
        answer = {"prompt_id": request.prompt_id, **reader.fields(request, response)}
        ended.append(answer)
        right = _has("answer", answer) and _has("reasoning", answer)
        if len(ended) < ENOUGH and not right:
            return
        del self._readers[model], self._ended[model]
        if right:
            return
        if not reader.reasons:
            refuse_judged_reasoning(model, ended)
            return
        if len({_has("answer", one) for one in ended}) == 1:
            refuse_no_answers(model, ended)
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
        f"entry name the marks that it writes? They can be changed; {AGAIN}"
    )


def another_mark(model: str, mark: str, held: int, count: int) -> str:
    """Return what to say of a model of whose answers all, or most, hold the end mark of another entry."""
    write = f"`end: {mark!r}` there, with the mark that opens it as `start`"
    if mark in CHANNELS:
        write = f"`format: harmony` there or, for answers without token ids, `end: {mark}`"
    return (
        f"{held} of {count} responses of `{model}` have `{mark}` in what counts as the answer: `reasoning` in the "
        f"model's entry names other marks, or there is none. Write {write}; {AGAIN}"
    )


def refuse_judged_reasoning(model: str, answers: Iterable[Mapping[str, Any]]) -> None:
    """Check answers of a model without `reasoning` in its entry, which are judged whole.

    Raises:
        UserError: if most of them, to enough prompts, hold an end mark of reasoning.
    """
    complete = [answer for answer in answers if answer["state"] == COMPLETE]
    ended = [answer["answer"] for answer in complete]
    held = {mark: sum(mark in answer for answer in ended) for mark in END_MARKS}
    mark = max(held, key=held.__getitem__)
    prompts = {answer["prompt_id"] for answer in complete if mark in answer["answer"]}  # one may be about such marks
    if len(prompts) >= ENOUGH and held[mark] >= MOST * len(ended):
        raise UserError(another_mark(model, mark, held[mark], len(ended)))
    if held[mark]:
        LOG.warning(
            "%d of %d answers of `%s`, judged whole, hold `%s`: if it ends a reasoning, the model's entry lacks "
            "`reasoning`",
            held[mark],
            len(ended),
            model,
            mark,
        )


def refuse_no_answers(model: str, answers: Iterable[Mapping[str, Any]]) -> None:
    """Check answers of a reasoning model.

    Responses that were all cut off in their reasoning are a result: whether the marks are right, they do not say.

    Raises:
        UserError: if responses ended by themselves, and not one of all has an answer; or if none of them has
            reasoning, and all hold an end mark that the entry does not name.
    """
    seen = [answer for answer in answers if answer["state"] in SEEN_STATES]
    answered = [answer for answer in seen if _has("answer", answer)]
    if any(_has("reasoning", answer) for answer in answered) or not seen:
        return
    if answered:
        ended = [answer["answer"] for answer in answered if answer["state"] != TRUNCATED]
        if mark := next((mark for mark in END_MARKS if ended and all(mark in text for text in ended)), None):
            raise UserError(another_mark(model, mark, len(ended), len(ended)))
        return
    cut = sum(answer["state"] == TRUNCATED_REASONING for answer in seen)
    length = f". {cut} of them were cut off: is `max_tokens` enough?" if cut else ""
    message = no_answers(model, len(seen)) + length
    if cut < len(seen):
        raise UserError(message)
    LOG.warning("%s", message)


def _has(part: str, answer: Mapping[str, Any]) -> bool:
    """Tell whether an answer has this part; where nobody counted its tokens, its text tells."""
    tokens = answer[f"{part}_tokens"]
    return bool(answer[part]) if tokens is None else bool(tokens)
