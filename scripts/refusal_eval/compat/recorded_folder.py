"""How files of the published layout are read; published_layout.py says what stands in them."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from refusal_eval.compat.published_score import NO_TOKENS, Place, Probabilities
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json
from refusal_eval.core.texts import valid_text

LOG = logging.getLogger(__name__)
Row = Mapping[str, Any]
Answers = tuple[list[str], list[Probabilities]]  # to one prompt: their texts, and the probabilities of their parts

ROUNDING = 1e-6  # by which float32 may exceed a limit
SMALLEST = 2.0**-126  # of float32, in which the published score is computed; what is nearer to 0 is 0
# In the mapping of an answer; a row may have lists under these names with `_probs` instead.
PARTS = {"thinking": "thinking_prob", "answer": "answer_prob", "combined": "cum"}


class Limits(NamedTuple):
    """What a number of a file can be: from `least` to `most`, or `none` where there is none."""

    least: float
    most: float
    none: float | None = None

    def __str__(self) -> str:
        return f"from {self.least:g} to {self.most:g}" + ("" if self.none is None else f", or {self.none:g} for none")


PROBABILITY, VOTE, PERCENTAGE = Limits(0, 1, -1), Limits(-1, 1), Limits(0, 100)


def layout_rows(path: Path, with_prompts: bool = True) -> list[Any]:
    """Return the rows of a file over the prompts; `with_prompts` if each has to be a mapping that says its prompt.

    Raises:
        UserError: if it is missing or not of this layout.
    """
    if not path.is_file():
        raise UserError(f"there is no {path}")
    rows, expected = read_json(path), None
    if not isinstance(rows, list):
        expected = "a list over the prompts"
    elif with_prompts and not all(isinstance(row, dict) and isinstance(row.get("prompt"), str) for row in rows):
        expected = "a list of mappings with `prompt`, a text,"
    if expected:
        raise UserError(f"{path} is not of the published layout: {expected} was expected")
    return list(rows)


def read_answers(path: Path) -> tuple[list[str], list[Answers]]:
    """Return the prompts of a file answers.json, and the answers to each; probabilities that it lacks are -1.

    Raises:
        UserError: for a file of another layout, and for what is no text or no probability.
    """
    rows = layout_rows(path)
    return [row["prompt"] for row in rows], [_answers(row, row_place(path, n)) for n, row in enumerate(rows)]


def _answers(row: Row, place: str) -> Answers:
    answers = row.get("answers")
    items = answers if isinstance(answers, list) else []
    texts = [item.get("text") if isinstance(item, Mapping) else item for item in items]
    if not isinstance(answers, list) or not all(isinstance(text, str) for text in texts):
        raise UserError(f"{place}: it has to have a list of `answers`, each with its `text`")
    parts = []
    for part, name in PARTS.items():
        values = [NO_TOKENS] * len(texts)
        if f"{part}_probs" in row or all(isinstance(item, Mapping) and name in item for item in items):
            values = numbers_of(row, "answers", name, place, PROBABILITY, f"{part}_probs")
        if len(values) != len(texts):
            raise UserError(f"{place}: it has {len(texts)} answers and {len(values)} `{part}_probs`")
        parts.append(values)
    whole = [valid_text(str(text), f"{place}, answer {number}") for number, text in enumerate(texts, 1)]
    return whole, [Probabilities(*one) for one in zip(*parts, strict=True)]


def read_votes(path: Path) -> list[list[float]]:
    """Return the numbers of a file judge_scores.json, from +1 to -1, for each row.

    Raises:
        UserError: for a file of another layout, and for what is no such number.
    """
    votes = []
    for number, row in enumerate(layout_rows(path, with_prompts=False)):
        row = row if isinstance(row, dict) else {"answers": row}
        votes.append(numbers_of(row, "answers", "label", row_place(path, number), VOTE, "judge_scores"))
    return votes


def matched(prompts: Sequence[Row], texts: Sequence[str]) -> dict[str, int]:
    """Return the place of each prompt among the prompts of a file, by its id, as far as there is one; those that stand
    twice come in turn.

    Prompts are the same where their texts are, without the white space around them, which the published code takes
    away.

    Raises:
        UserError: for a prompt of several messages, see `need_single_messages`.
    """
    need_single_messages(prompts)
    left: dict[str, list[int]] = {}
    for place, text in enumerate(texts):
        left.setdefault(text.strip(), []).append(place)
    found = {}
    for prompt in prompts:
        if own := left.get(prompt["messages"][-1]["content"].strip()):
            found[prompt["id"]] = own.pop(0) if len(own) > 1 else own[0]
    return found


def need_single_messages(prompts: Iterable[Row]) -> None:
    """Refuse prompts that the published layout cannot tell apart: it has the text of the last message alone.

    Raises:
        UserError: for a prompt with a system message or earlier turns.
    """
    for prompt in prompts:
        if len(prompt["messages"]) > 1:
            raise UserError(
                f"the published layout has one text for each prompt, and prompt {prompt['id']} has "
                f"{len(prompt['messages'])} messages; leave its split out"
            )


def recorded_votes(prompts: Sequence[Row], recorded: Path, judged: Path) -> dict[Place, float]:
    """Return the numbers of judge_scores.json, from +1 to -1, by (prompt id, sample, turn), as far as there are some.

    A number may be a fraction: the mean of what a judge said that was asked several times. It may be about an answer
    without text, which the published code shows to its judge too.

    The rows of judge_scores.json (`judged`) are in the same places as those of answers.json (`recorded`).

    Raises:
        UserError: for files of another layout.
    """
    votes, rows = read_votes(judged), layout_rows(recorded)
    if others := about_other_answers(rows, layout_rows(judged, with_prompts=False)):
        LOG.warning(
            "%d labels in %s say that they are about other answers than those in their places in %s: the files may not "
            "be of one run",
            *(others, judged, recorded),
        )
    fitting = sum(len(row.get("answers", ())) == len(own) for row, own in zip(rows, votes, strict=False))
    if misfits := max(len(rows), len(votes)) - fitting:
        LOG.warning(
            "%d rows of %s have not as many labels as %s has answers in their places: if a row is missing, all labels "
            "behind it are those of other answers",
            *(misfits, judged, recorded),
        )
    places = matched(prompts, [row["prompt"] for row in rows])
    return {
        (name, sample, 0): vote
        for name, place in places.items()
        if place < len(votes)
        for sample, vote in enumerate(votes[place])
    }


def about_other_answers(rows: Sequence[Row], judged: Sequence[Any]) -> int:
    """Return how many labels name an answer that is no part of the text in their place."""
    count = 0
    for row, labels in zip(rows, judged, strict=False):
        labels = labels.get("answers", []) if isinstance(labels, dict) else labels
        texts = [answer["text"] if isinstance(answer, dict) else answer for answer in row.get("answers", [])]
        said = [label.get("answer") if isinstance(label, dict) else None for label in labels]
        pairs = zip(said, texts, strict=False)
        count += sum(isinstance(answer, str) and answer.strip() not in str(text) for answer, text in pairs)
    return count


def row_place(path: Path, row: int) -> str:
    """Return how messages name a row, counted from 0 here and from 1 there."""
    return f"{path}, row {row + 1}"


def numbers_of(row: Row, nested: str, name: str, place: str, limits: Limits, flat: str) -> list[float]:
    """Return a row's numbers: `name` of the mappings in its list `nested`, or its list `flat`.

    Raises:
        UserError: if they are no numbers, or outside of the limits; it begins with `place`.
    """
    values, shown = row.get(flat, row.get(nested)), flat
    if isinstance(values, list) and values and all(isinstance(value, dict) and name in value for value in values):
        values, shown = [value[name] for value in values], name
    if not isinstance(values, list) or any(isinstance(value, dict | list | str) for value in values if shown == flat):
        raise UserError(f"{place}: it has to have a list of answers with `{name}` (or `{flat}`, a list of numbers)")
    return [
        number_of(value, f"{place}: `{shown}` of answer {number}", limits) for number, value in enumerate(values, 1)
    ]


def number_of(value: Any, what: str, limits: Limits) -> float:
    """Return a number of a file.

    Raises:
        UserError: if it is none, or outside of the limits; it begins with `what`.
    """
    found = isinstance(value, int | float) and not isinstance(value, bool)
    if not found or not (value == limits.none or limits.least - ROUNDING <= value <= limits.most + ROUNDING):
        raise UserError(f"{what} is {value!r:.60}; it has to be a number {limits}")
    return float(value) if abs(value) >= SMALLEST else 0.0
