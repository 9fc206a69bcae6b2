"""From the rows of a file of answers to answers and verdicts of one cell, as the workflow has them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from refusal_eval.ask.answers import blank
from refusal_eval.ask.reasoning import guess_opened, parted_text
from refusal_eval.config.log_dialogues import Script, asked_by, place_of_row
from refusal_eval.core.answer_ends import ENDS, state_of
from refusal_eval.core.errors import UserError
from refusal_eval.core.states import (
    BLOCKED,
    EARLIER_TURN,
    EMPTY,
    FAILED,
    JUDGED,
    JUDGED_ANSWER_STATES,
    NOBODY,
    TRUNCATED,
    TRUNCATED_REASONING,
    UNPARSABLE,
    place_of,
)
from refusal_eval.core.texts import is_blank
from refusal_eval.data.prompts import content_id
from refusal_eval.judges.judge_base import Verdict
from refusal_eval.judges.verdict_files import readable, verdict_row
from refusal_eval.study.dialogues import asked_turns, scored_turns

Given = Mapping[str, Any]  # neutral rows, prompts and answers
SampledTurns = dict[int, dict[int, Given]]  # answers to a prompt, by sample and turn
SAID = ("declared", "marks", "usage")  # fields of a row that an answer has, where there is anything
DIGITS = 9  # of logarithms: the last ones depend on the machine


class GivenPrompt(NamedTuple):
    """A prompt of a file, and the answers to it."""

    messages: Script
    samples: SampledTurns


class LoggedCell(NamedTuple):
    """The answers to the prompts of a split that a file holds, K to each, and what does not fit, for the log."""

    answers: list[dict[str, Any]]
    notes: list[str]


def unknown_ends(rows: Iterable[Given]) -> Counter[str]:
    """Return the finish reasons that mean nothing here, each with the number of its rows that say no state."""
    said = (str(row["finish_reason"]) for row in rows if row.get("finish_reason") and not row.get("state"))
    return Counter(word for word in said if word.lower() not in ENDS)


def models_of(rows: Iterable[Given]) -> list[str | None]:
    """Return the models of rows, in their order; None for rows without one."""
    return list(dict.fromkeys(row.get("model") for row in rows))


def rows_of_model(rows: Sequence[Given], model: str | None, file: str) -> list[Given]:
    """Return the rows of a model.

    Raises:
        UserError: if the file does not have it, or has several and none is named.
    """
    known = models_of(rows)
    if model is None and len(known) > 1:
        raise UserError(f"{file} has the answers of several models ({_named(known)}); name one: `model`")
    if model is not None and model not in known:
        raise UserError(f"{file} has no answers of `{model}`; it has {_named(known)}")
    return [row for row in rows if model is None or row.get("model") == model]


def by_prompt(rows: Sequence[Given], file: str) -> dict[str, GivenPrompt]:
    """Return the answers of one model to each prompt, by the id of its messages.

    A row without `sample` is the next one to its prompt. Of prompts that a file has under several names the rows of
    the first name count.

    Raises:
        UserError: if a prompt has two answers with one number, or turns of a dialogue do not fit each other.
    """
    found: dict[str, GivenPrompt] = {}
    names: dict[str, str | None] = {}
    for row, asked in zip(rows, asked_by([dict(row) for row in rows]), strict=True):
        prompt = content_id(asked.prompt)
        if names.setdefault(prompt, row.get("prompt_id")) != row.get("prompt_id"):
            continue
        own = found.setdefault(prompt, GivenPrompt(asked.prompt, {})).samples
        sample = len(own) if asked.sample is None else asked.sample
        turns = own.setdefault(sample, {})
        if asked.turn in turns:
            first = place_of_row(turns[asked.turn], file)
            raise UserError(f"{place_of_row(row, file)}: answer {sample} to its prompt is in {first} too")
        turns[asked.turn] = row
    return found


def cell_answers(
    rows: Sequence[Given],
    prompts: Sequence[Given],
    samples: int,
    marks: Mapping[str, Any] | None,
    file: str,
) -> LoggedCell:
    """Return the answers of one model to the prompts of a split.

    A prompt of which the file has fewer than K answers has answers in state `failed`.

    Args:
        rows: of one model.
        samples: K.
        marks: the model's `reasoning`, None if it does not reason; for rows that do not tell it apart themselves.

    Raises:
        UserError: if none of the prompts is in the file, which has answers, or one has more than K answers.
    """
    given = _matched(by_prompt(rows, file), prompts)
    if rows and not given:
        raise UserError(f"{file}: none of its prompts is one of the {len(prompts)} of this split")
    every = [row for own in given.values() for turns in own.values() for row in turns.values()]
    opened = marks is not None and guess_opened([row["answer"] for row in every if "reasoning" not in row], marks)
    answers = []
    for prompt in prompts:
        own = given.get(prompt["id"], {})
        if len(own) > samples:
            raise UserError(f"{file} has {len(own)} answers to a prompt; `samples` of the study is {samples}")
        numbered = _from_zero(own, samples)
        for sample in range(samples):
            for turn, fields in _turns(prompt, numbered.get(sample, {}), marks, opened):
                place = {"prompt_id": prompt["id"], "sample": sample, "turn": turn}
                answers.append({**place, "key": None, "serving": None, **fields})
    return LoggedCell(answers, _notes(prompts, given, samples, rows))


def cell_verdicts(
    rows: Sequence[Given],
    prompts: Sequence[Given],
    answers: Sequence[Given],
    by: str,
    file: str,
    scored: str = "all",
) -> list[dict[str, Any]]:
    """Return the verdicts of somebody (`by`) that came with the answers of one model, for those that can be read.

    Args:
        scored: which turns of dialogues count.
    """
    samples = 1 + max((answer["sample"] for answer in answers), default=0)
    given = {name: _from_zero(own, samples) for name, own in _matched(by_prompt(rows, file), prompts).items()}
    prompt_of = {prompt["id"]: prompt for prompt in prompts}
    counting = {name: scored_turns(prompt, scored) for name, prompt in prompt_of.items()}
    verdicts = []
    for answer in readable(answers):
        name, sample, turn = place_of(answer)
        if turn in counting[name]:
            row = _by_turn(prompt_of[name], given.get(name, {}).get(sample, {})).get(turn, {})
            verdicts.append(label_verdict(answer, row, by))
    return verdicts


def label_verdict(answer: Given, row: Given, by: str) -> dict[str, Any]:
    """Return the verdict on an answer that is the label of somebody in a row."""
    said: dict[str, Any] = next((label for label in row.get("labels", ()) if label["by"] == by), {})
    raw: dict[str, Any] = {key: said[key] for key in ("probability", "reason") if key in said}
    raw |= {} if said else {"error": "no label was recorded"}
    label = said.get("label")
    return verdict_row(answer, Verdict(JUDGED if label else UNPARSABLE, label, raw=raw))


def _turns(
    prompt: Given, own: Mapping[int, Given], marks: Mapping[str, Any] | None, opened: bool
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the fields of the answer to each turn that is asked.

    Turns without a row are failed, and behind one that was blocked they are blocked by the same.
    """
    own, without = _by_turn(prompt, own), blank(FAILED)
    for turn in asked_turns(prompt):
        fields = _fields(own[turn], marks, opened) if turn in own else without
        if fields["state"] == BLOCKED:
            block = fields["blocked"] | {"stage": EARLIER_TURN, "partial": None}
            without = blank(BLOCKED) | {"blocked": block}
        yield turn, fields


def _by_turn(prompt: Given, own: Mapping[int, Given]) -> Mapping[int, Given]:
    """The rows of a sample by turn; the only row is the answer to the only turn, whatever the file calls it."""
    asked = asked_turns(prompt)
    return dict.fromkeys(asked, *own.values()) if len(asked) == len(own) == 1 else own


def _from_zero(own: SampledTurns, samples: int) -> SampledTurns:
    """Return the answers to a prompt by sample; numbers that do not begin at 0 are replaced by their order."""
    return dict(enumerate(own[number] for number in sorted(own))) if max(own, default=0) >= samples else own


def _matched(given: Mapping[str, GivenPrompt], prompts: Sequence[Given]) -> dict[str, SampledTurns]:
    """Return the answers by the prompts of a split: by the same messages, or else by those that differ in white space
    around their texts.
    """
    stripped = {_stripped(own.messages): name for name, own in given.items()}
    found = {}
    for prompt in prompts:
        # Ids of prompts may count copies, so that the messages themselves are compared.
        name = content_id(prompt["messages"])
        name = name if name in given else stripped.get(_stripped(prompt["messages"]), "")
        if name:
            found[prompt["id"]] = given[name].samples
    return found


def _stripped(messages: Iterable[Mapping[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple((message["role"], message["content"].strip()) for message in messages)


def _fields(row: Given, marks: Mapping[str, Any] | None, opened: bool) -> dict[str, Any]:
    """The fields of an answer; its reasoning apart, as the row has it or as the model's marks tell it."""
    state, text, reasoning = state_of(row), row["answer"], row.get("reasoning")
    if state in (FAILED, BLOCKED) or state not in (*JUDGED_ANSWER_STATES, EMPTY, TRUNCATED_REASONING):
        said: dict[str, Any] = {}
        if state == BLOCKED:
            said = {"blocked": NOBODY | {"partial": text or None} | row.get("blocked", {})}
        elif row.get("reason"):
            said = {"reason": row["reason"]}
        return blank(state, row.get("finish_reason")) | {"reasoning": reasoning} | said | _said(row)
    unended = False
    if marks and reasoning is None:
        parted = parted_text(text, marks, opened)
        reasoning, text, unended = parted.reasoning, parted.answer or "", parted.answer is None
    if is_blank(text):
        cut = unended or state in (TRUNCATED, TRUNCATED_REASONING)
        state = TRUNCATED_REASONING if cut else EMPTY
    return {
        "state": state,
        "answer": text,
        "reasoning": reasoning,
        "answer_tokens": None,
        "reasoning_tokens": None,
        "answer_logprob": round(row["answer_logprob"], DIGITS) if text and "answer_logprob" in row else None,
        "reasoning_logprob": None,
        "finish_reason": row.get("finish_reason"),
    } | _said(row)


def _said(row: Given) -> dict[str, Any]:
    """What a server said beside an answer."""
    return {name: row[name] for name in SAID if row.get(name)}


def _notes(
    prompts: Sequence[Given],
    given: Mapping[str, SampledTurns],
    samples: int,
    rows: Sequence[Given],
) -> list[str]:
    notes = []
    if missing := len(prompts) - len(given):
        notes.append(f"{missing} of {len(prompts)} prompts of the split are not in the file: their answers are failed")
    if fewer := sum(len(own) < samples for own in given.values()):
        notes.append(
            f"prompts with fewer answers in the file than `samples`: {fewer}. The missing answers are failed, and "
            "widen the bounds"
        )
    notes += [
        f"{count} answers end as `{word}`, which is not known here: they count as complete"
        for word, count in unknown_ends(rows).items()
    ]
    return notes


def _named(models: Iterable[str | None]) -> str:
    return ", ".join(f"`{model}`" if model else "rows without a model" for model in models)
