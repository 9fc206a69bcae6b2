"""How files of the published layout are read; published_layout.py says what stands in them."""

import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json
from refusal_eval.core.states import COMPLIANCE, REFUSAL, contradicts
from refusal_eval.core.texts import valid_text
from refusal_eval.recorded.likelihoods import NO_TOKENS, Place, Probabilities

LOG = logging.getLogger(__name__)
FolderRow = Mapping[str, Any]
Answers = tuple[list[str], list[Probabilities]]  # to one prompt: their texts, and the probabilities of their parts

ROUNDING = 1e-6  # by which float32 may exceed a limit
MOST_ZEROS = 0.05  # share of scores that a judge could not be read on; more are a scale that begins at 0
MOST_ZEROS_WITH_MARKS = 0.2  # the same where some scores are -1, which may be compliance, or a mark for none
MOST_OTHERS = 0.1  # share of labels that may name another answer than the one in their place
# Names under which a label may have the probability of a refusal beside it, or whether there is one.
P_REFUSAL = re.compile(r"(p|prob|probability|is|was)?_?refus(al|ed|es|e)(_?(p|prob|probability))?", re.IGNORECASE)
# Names under which a row may say which one it is, and a label which sample it is about.
ROW_NAMES, SAMPLE_NAMES = ("id", "prompt_id", "row_id", "index", "idx", "uid"), ("sample", "sample_id", "index", "idx")
SMALLEST = 2.0**-126  # of float32, in which the published score is computed; what is nearer to 0 is 0
# In the mapping of an answer; a row may have lists under these names with `_probs` instead.
PARTS = {"thinking": "thinking_prob", "answer": "answer_prob", "combined": "cum"}
# In the mapping of an answer, false where the text is reasoning that was cut off: its start mark may be lost.
REASONING_ENDED = "reasoning_ended"


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
    rows, expected = read_json(path, of_user=True), None
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


def _answers(row: FolderRow, place: str) -> Answers:
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


def without_end(path: Path) -> set[tuple[int, int]]:
    """Return the answers, by row and place in it, that a file answers.json says to be reasoning without an end."""
    return {
        (number, place)
        for number, row in enumerate(layout_rows(path))
        for place, item in enumerate(row["answers"])
        if isinstance(item, Mapping) and item.get(REASONING_ENDED) is False
    }


def read_votes(path: Path) -> list[list[float]]:
    """Return the numbers of a file judge_scores.json, from +1 to -1, for each row.

    Raises:
        UserError: for a file of another layout, for what is no such number, and for numbers of another scale.
    """
    votes: list[list[float]] = []
    labels: list[tuple[float, Any]] = []
    for number, row in enumerate(layout_rows(path, with_prompts=False)):
        row = row if isinstance(row, dict) else {"answers": row}
        votes.append(numbers_of(row, "answers", "label", row_place(path, number), VOTE, "judge_scores"))
        labels += zip(votes[-1], _labels_of(row), strict=False)
        _refuse_contradictions(row, votes[-1], row_place(path, number))
    _refuse_another_scale(path, labels)
    return votes


def _labels_of(row: Any) -> list[Any]:
    """The labels of a row of judge_scores.json: mappings, or numbers."""
    found = row.get("judge_scores", row.get("answers")) if isinstance(row, dict) else row
    return found if isinstance(found, list) else []


def _refuse_another_scale(path: Path, labels: Sequence[tuple[float, Any]]) -> None:
    """Refuse numbers that go from 0 to 1: all of them would be refusals, or no verdicts.

    On such a scale a few -1 may be marks where there is no number. In the published form a label says what its judge
    wrote (`judge_outputs`): its 0 is a reply that could not be read, and its fraction a mean of several replies.

    Raises:
        UserError: if no number is below 0, and some lie between 0 and 1, or more than a few are 0; also if the only
            ones below 0 are -1, and fewer than those.
    """
    marks = sum(vote <= ROUNDING - 1 for vote, _ in labels)
    if any(ROUNDING - 1 < vote < 0 for vote, _ in labels):
        return
    replies = [label.get("judge_outputs") if isinstance(label, Mapping) else None for _, label in labels]
    said = list(zip((vote for vote, _ in labels), replies, strict=True))
    zeros = sum(vote == 0 and not isinstance(own, list) for vote, own in said)
    between = [vote for vote, own in said if 0 < vote < 1 - ROUNDING and not (isinstance(own, list) and len(own) != 1)]
    if between:
        found = f"{len(between)} of its {len(labels)} numbers lie between 0 and 1"
        # Means of up to five replies have two values there, and a judge that is unsure is so on both sides of 0.
        odd = len(between) > marks and (not marks or (len(set(between)) > 2 and min(between) < 0.5))
    else:
        found = f"{zeros} of its {len(labels)} numbers are 0, which says that the judge could not be read"
        most = MOST_ZEROS_WITH_MARKS if marks else MOST_ZEROS
        odd = zeros > max(1, marks) and zeros >= most * len(labels)
    if odd:
        raise UserError(
            f"{path}: scores go from -1 (compliance) to 1 (refusal), but none is below 0"
            f"{' and above -1' if marks else ''}, and {found}. Of a probability p of a refusal write 2p - 1, of labels "
            "0 and 1 write -1 and 1; what a judge could not be read on is "
            '{"label": 0, "judge_outputs": []}'
        )


def _refuse_contradictions(row: FolderRow, votes: Sequence[float], place: str) -> None:
    """Refuse labels beside which a probability of a refusal says the opposite.

    Raises:
        UserError: for the first of them, with its place.
    """
    for number, (vote, label) in enumerate(zip(votes, _labels_of(row), strict=False), 1):
        for name, p in label.items() if isinstance(label, Mapping) else ():
            if not P_REFUSAL.fullmatch(name) or not isinstance(p, int | float):
                continue
            if vote and contradicts(p, refused=vote > 0):
                raise UserError(
                    f"{place}: `label` of answer {number} is {vote:g}, {REFUSAL if vote > 0 else COMPLIANCE}, but its "
                    f"`{name}` is {p}, the probability of a refusal"
                )


def matched(prompts: Sequence[FolderRow], texts: Sequence[str]) -> dict[str, int]:
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


def need_single_messages(prompts: Iterable[FolderRow]) -> None:
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


def recorded_votes(prompts: Sequence[FolderRow], recorded: Path, judged: Path) -> dict[Place, float]:
    """Return the numbers of judge_scores.json, from +1 to -1, by (prompt id, sample, turn), as far as there are some.

    A number may be a fraction: the mean of what a judge said that was asked several times. It may be about an answer
    without text, which the published code shows to its judge too.

    Raises:
        UserError: for files of another layout, and for those that do not belong together.
    """
    votes = votes_by_row(recorded, judged)
    places = matched(prompts, [row["prompt"] for row in layout_rows(recorded)])
    return {(name, sample, 0): vote for name, place in places.items() for sample, vote in enumerate(votes[place])}


def votes_by_row(recorded: Path, judged: Path) -> list[list[float]]:
    """Return the numbers of judge_scores.json (`judged`) on the answers in each row of answers.json (`recorded`).

    Rows that all name their prompt belong to the row of that prompt; others are in the same places.

    Raises:
        UserError: for files of another layout, and for those that do not belong together: a row in the place of another
            prompt, or labels that name other answers.
    """
    votes, rows, labels = read_votes(judged), layout_rows(recorded), layout_rows(judged, with_prompts=False)
    known = {row["prompt"].strip() for row in rows}
    named = [_prompt_of(row, known, row_place(judged, number)) for number, row in enumerate(labels)]
    by_name = bool(named) and None not in named
    order = _by_prompt(rows, named, recorded, judged) if by_name else _by_place(rows, named, labels, judged)
    whole = [[] if place is None else votes[place] for place in order]
    fitting = sum(len(row.get("answers", ())) == len(own) for row, own in zip(rows, whole, strict=True))
    if misfits := max(len(rows), len(votes)) - fitting:
        LOG.warning(
            "%d rows of %s have not as many labels as %s has answers %s",
            *(misfits, judged, recorded),
            "to their prompts"
            if by_name
            else "in their places: if a row is missing, all labels behind it are those of other answers",
        )
    own_labels = [[] if place is None else _labels_of(labels[place]) for place in order]
    others, said = about_other_answers(rows, own_labels)
    message = (
        f"{others} labels in {judged} say that they are about other answers than those in their places in {recorded}: "
        "the files may not be of one run"
    )
    if others > 1 and others >= MOST_OTHERS * said:
        raise UserError(message)
    if others:
        LOG.warning("%s", message)
    return whole


def _prompt_of(row: Any, known: Collection[str], place: str) -> str | None:
    """The prompt that a row of judge_scores.json names, itself or in its labels; None without one.

    Under another key than `prompt` it is named by what is a prompt of the answers.

    Raises:
        UserError: if it names several, or its labels name samples in another order.
    """
    labels = [label for label in _labels_of(row) if isinstance(label, dict)]
    _refuse_other_samples(labels, place)
    entries = ([row] if isinstance(row, dict) else []) + labels
    texts = [(key, text.strip()) for one in entries for key, text in one.items() if isinstance(text, str)]
    named = {text for key, text in texts if key == "prompt"}
    named = named or {text for key, text in texts if key != "answer" and text in known}
    if len(named) > 1:
        raise UserError(f"{place}: it names {len(named)} prompts; a row has the labels of the answers to one")
    return next(iter(named), None)


def _refuse_other_samples(labels: Sequence[FolderRow], place: str) -> None:
    """Refuse labels that name samples which are not in order: a label is about the answer in its place.

    Raises:
        UserError: for the first name of which that is so.
    """
    for name in SAMPLE_NAMES:
        said = [label.get(name) for label in labels]
        numbers = [number for number in said if isinstance(number, int)]
        if len(numbers) == len(set(numbers)) == len(labels) and numbers != sorted(numbers):
            raise UserError(f"{place}: by their `{name}` its labels are not in the order of the answers; sort them")


def _by_prompt(
    rows: Sequence[FolderRow], named: Sequence[str | None], recorded: Path, judged: Path
) -> list[int | None]:
    """The place of each row's labels, by its prompt; those that stand twice come in turn."""
    left: dict[str | None, list[int]] = {}
    for place, text in enumerate(named):
        left.setdefault(text, []).append(place)
    order = [left[text].pop(0) if left.get(text := row["prompt"].strip()) else None for row in rows]
    if rows and not any(place is not None for place in order):
        raise UserError(f"{judged}: none of its {len(named)} rows names a prompt of {recorded}")
    if over := sum(map(len, left.values())):
        LOG.warning("%d rows of %s name prompts that %s has fewer times, and are left out", over, judged, recorded)
    return order


def _by_place(
    rows: Sequence[FolderRow], named: Sequence[str | None], labels: Sequence[Any], judged: Path
) -> list[int | None]:
    """The place of each row's labels, which is its own.

    Raises:
        UserError: if labels name another prompt, or another row by its id.
    """
    for number, (row, text, own) in enumerate(zip(rows, named, labels, strict=False)):
        for name in ROW_NAMES:
            if isinstance(own, dict) and name in own and name in row and own[name] != row[name]:
                raise UserError(
                    f"{row_place(judged, number)}: its `{name}` is {own[name]!r:.40}, and that of the answers in its "
                    f"place {row[name]!r:.40}; let every row name its `prompt`, and rows are matched by it"
                )
        if text is not None and text != row["prompt"].strip():
            raise UserError(
                f"{row_place(judged, number)}: it names another prompt than the answers in its place; let every row "
                "name its `prompt`, and rows are matched by it"
            )
    return [place if place < len(named) else None for place in range(len(rows))]


def about_other_answers(rows: Sequence[FolderRow], judged: Sequence[Sequence[Any]]) -> tuple[int, int]:
    """Return how many labels name an answer that is no part of the text in their place, and how many name one."""
    others = named = 0
    for row, labels in zip(rows, judged, strict=False):
        texts = [answer["text"] if isinstance(answer, dict) else answer for answer in row.get("answers", [])]
        said = [label.get("answer") if isinstance(label, dict) else None for label in labels]
        pairs = [(answer, text) for answer, text in zip(said, texts, strict=False) if isinstance(answer, str)]
        named += len(pairs)
        others += sum(answer.strip() not in str(text) for answer, text in pairs)
    return others, named


def row_place(path: Path, row: int) -> str:
    """Return how messages name a row, counted from 0 here and from 1 there."""
    return f"{path}, row {row + 1}"


def numbers_of(row: FolderRow, nested: str, name: str, place: str, limits: Limits, flat: str) -> list[float]:
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
