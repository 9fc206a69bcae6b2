"""Does a model's entry name the marks of reasoning that the model writes? Asked before GPU hours are spent on it."""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from refusal_eval.ask.answers import AnswerReader
from refusal_eval.ask.hidden_marks import hidden_marks
from refusal_eval.ask.reasoning_marks import CHANNEL_START, CHANNELS, ENDS, ReasoningMark, marks_in
from refusal_eval.ask.requests import Request
from refusal_eval.core.errors import UserError
from refusal_eval.core.states import COMPLETE, EMPTY, JUDGED_ANSWER_STATES, TRUNCATED, TRUNCATED_REASONING

LOG = logging.getLogger(__name__)
ENOUGH = 4  # responses of a model that ended by themselves: one may be odd, four in a row are not
MOST = 0.75  # share of answers with a mark that makes them a reasoning model's; fewer may be about such marks
SEEN_STATES = (COMPLETE, TRUNCATED, TRUNCATED_REASONING, EMPTY)
AGAIN = "nothing has to be executed again, except later turns of dialogues"  # the cut reply is in their history
HALF = 0.5  # share of answers that begin with a start mark: no other answer begins with one


class ReasoningCheck:
    """Looks at the first responses of each model.

    Args:
        readers: how the answers of each model are read, by the model's name.
        added: the tokens that were added to the vocabulary of their engine, by id.
    """

    def __init__(self, readers: Mapping[str, AnswerReader], added: Mapping[int, str] | None = None) -> None:
        self._readers, self._added = dict(readers), added or {}
        self._ended: dict[str, list[dict[str, Any]]] = {}  # the first answers that ended by themselves, by model

    def look(self, cell: str, request: Request, response: Mapping[str, Any]) -> None:
        """Look at a response to a request of a cell (`model/split`); do nothing once its model is known to be right.

        Raises:
            UserError: if the first responses of a model all end without an answer behind the reasoning, or most hold
                a mark of reasoning that the entry does not name.
        """
        model = cell.split("/")[0]
        reader = self._readers.get(model)
        if reader is None:
            return
        hidden = set() if reader.reasons else hidden_marks(response["token_ids"], self._added)
        if response["finish_reason"] != "stop" and (reader.reasons or not _opens(response, hidden)):
            return
        ended = self._ended.setdefault(model, [])
        if not reader.reasons and any(one["prompt_id"] == request.prompt_id for one in ended):
            return  # a prompt may be about such marks, and so all of its samples
        answer = {"prompt_id": request.prompt_id, "hidden_marks": hidden, **reader.fields(request, response)}
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


def another_mark(model: str, mark: ReasoningMark, held: int, count: int) -> str:
    """Return the warning for a model most of whose answers hold a mark that another entry names."""
    write = f"`end: {mark.text!r}` there, with the mark that opens it as `start`"
    if mark.opens:
        end = ENDS.get(mark.text)
        write = f"`start: {mark.text!r}` there, with {f'`end: {end!r}`' if end else 'the mark that ends it as `end`'}"
    if mark.text in CHANNELS:
        write = f"`format: harmony` there or, for answers without token ids, `end: {mark.text}`"
    elif mark.text in (CHANNEL_START, "<|channel|>", "analysis"):
        write = f"`format: harmony` there or, for answers without token ids, `end: {CHANNELS[1]}`"
    return (
        f"{held} of {count} responses of `{model}` have `{mark.text}` in what counts as the answer: `reasoning` in the "
        f"model's entry names other marks, or there is none. Write {write}; {AGAIN}. If these are no marks of "
        "reasoning, as where prompts ask for such tags, write `judged_whole: true` in its place"
    )


def refuse_judged_reasoning(model: str, answers: Iterable[Mapping[str, Any]]) -> None:
    """Check answers of a model without `reasoning` in its entry, which are judged whole.

    Args:
        answers: with `hidden_marks` where their tokens hold some that their text does not show.

    Raises:
        UserError: if most of them, to enough prompts, hold a mark of reasoning, or half of them begin with one.
    """
    judged = [answer for answer in answers if answer["state"] in JUDGED_ANSWER_STATES]
    found = [marks_in(answer["answer"]) | answer.get("hidden_marks", set()) for answer in judged]
    for mark, held, count in _most_held(judged, found):
        prompts = {answer["prompt_id"] for answer, own in zip(judged, found, strict=True) if mark in own}
        if len(prompts) >= ENOUGH and held >= (HALF if mark.first else MOST) * count:
            raise UserError(another_mark(model, mark, held, count))  # else a prompt may be about such marks
    for mark, held, count in _most_held(judged, found)[:1]:
        LOG.warning(
            "%d of %d answers of `%s`, judged whole, hold `%s`: if it is a mark of reasoning, the model's entry lacks "
            "`reasoning`",
            *(held, count, model, mark.text),
        )


def _most_held(
    answers: Sequence[Mapping[str, Any]], found: Sequence[set[ReasoningMark]]
) -> list[tuple[ReasoningMark, int, int]]:
    """Each mark with how many answers hold it, and of how many: those that most hold first, of these the end marks.

    Only a complete answer has to hold the end of a reasoning.
    """
    held = Counter(mark for own in found for mark in own)
    complete = [own for answer, own in zip(answers, found, strict=True) if answer["state"] == COMPLETE]
    ended = Counter(mark for own in complete for mark in own)
    counts = [
        (mark, held[mark], len(found)) if mark.opens else (mark, ended[mark], len(complete)) for mark in sorted(held)
    ]
    return sorted((one for one in counts if one[1]), key=lambda one: (-one[1] / one[2], one[0].opens))


def _opens(response: Mapping[str, Any], hidden: Set[ReasoningMark]) -> bool:
    """Tell whether a truncated response begins with a start mark."""
    return any(mark.first for mark in marks_in(str(response["text"])) | hidden)


def refuse_no_answers(model: str, answers: Iterable[Mapping[str, Any]]) -> None:
    """Check answers of a reasoning model.

    If all responses were truncated in their reasoning, that is a result, and says nothing about the marks.

    Raises:
        UserError: if some responses ended by themselves and none has an answer; or if none has reasoning and most hold
            a mark that the entry does not name.
    """
    seen = [answer for answer in answers if answer["state"] in SEEN_STATES]
    answered = [answer for answer in seen if _has("answer", answer)]
    if any(_has("reasoning", answer) for answer in answered):
        _warn_of_more_reasoning(model, answered)
        return
    if not seen:
        return
    if answered:
        found = [marks_in(answer["answer"]) for answer in answered]
        for mark, held, count in _most_held(answered, found)[:1]:
            if held >= MOST * count:
                raise UserError(
                    f"none of {len(seen)} responses of `{model}` has an answer behind the reasoning, and "
                    + another_mark(model, mark, held, count)
                )
        return
    cut = sum(answer["state"] == TRUNCATED_REASONING for answer in seen)
    length = f". {cut} of them were cut off: is `max_tokens` enough?" if cut else ""
    message = no_answers(model, len(seen)) + length
    if cut < len(seen):
        raise UserError(message)
    LOG.warning("%s", message)


def _warn_of_more_reasoning(model: str, answered: Sequence[Mapping[str, Any]]) -> None:
    """Say how many answers hold marks of reasoning behind the first, which is all that is taken away."""
    found = [{mark for mark in marks_in(one["answer"]) if mark.named_after_thought} for one in answered]
    more = [min(own) for own in found if any(mark.first or not mark.opens for mark in own)]
    if more:
        LOG.warning(
            "%d of %d answers of `%s` hold further marks of reasoning, such as `%s`: they are judged with what these "
            "enclose, as only the first end mark counts",
            *(len(more), len(answered), model, more[0].text),
        )


def _has(part: str, answer: Mapping[str, Any]) -> bool:
    """Tell whether an answer has this part: by its token count, or by its text if tokens were not counted."""
    tokens = answer[f"{part}_tokens"]
    return bool(answer[part]) if tokens is None else bool(tokens)
