"""Human labels on a study's own answers, with a judge's labels on the same answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import answer_id, sha256_of
from refusal_eval.core.states import JUDGED_ANSWER_STATES, LABELS
from refusal_eval.features.corrected.ppi import JudgedAnswers, LabelledAnswers
from refusal_eval.stats.estimates.estimands import REFUSES, CellRow
from refusal_eval.stats.estimates.resampling import cluster_codes
from refusal_eval.stats.estimates.units import PLACE, Units

FIELDS = ("model", "split", "prompt_id", "sample", "turn", "label", "probability")


class AnswerKey(NamedTuple):
    """Names an answer within a cell."""

    prompt_id: str
    turn: int
    sample: int


class PersonLabel(NamedTuple):
    """People's label of an answer, its probability of being sampled, and the text that was read."""

    label: str
    probability: float
    answer_id: str | None = None  # None where the file of labels does not say
    text: str | None = None  # id of the conversation with the answer, which equal answers share; None likewise

    @property
    def read(self) -> str | None:
        """The id of the text that people read, or of the answer alone if the file does not say more."""
        return self.text or self.answer_id


CellLabels = dict[AnswerKey, PersonLabel]
PromptTurn = tuple[str, int]  # prompt id and turn
StudyLabels = dict[tuple[str, str], CellLabels]  # by model and split
Frame = Mapping[str, Mapping[str, Mapping[str, int]]]  # number of answers by model, split and prompt id


class LabelledCell(NamedTuple):
    """Labels of people on a cell, and a judge's on the same answers."""

    people: CellLabels  # what people say
    judge: Mapping[AnswerKey, str]  # what the judge says; an answer that it could not read is missing
    # how many answers to each prompt could be drawn; None where it is not known
    drawn_from: Mapping[str, int] | None = None
    changed: int = 0  # labelled answers that have another text now
    unread: Mapping[PromptTurn, int] = MappingProxyType({})  # see `unread_answers`
    learned: int = 0  # labelled answers that the judge was fitted on


def read_labels(
    rows: Iterable[CellRow], path: str, cells: Iterable[tuple[str, str]]
) -> tuple[StudyLabels, Frame | None, dict[tuple[str, str], int]]:
    """Return the labels of a study's cells (model, split), the answers they were drawn from, and what is left over.

    The answers are None if no row of the file names them; left over is the number of labels of each other cell, sorted
    by name. A model or split may have been taken out after the labels were drawn. The remaining labels keep their
    probabilities: the draw decided each answer's, and each rate is over its own answers. A file may hold the labels of
    several audits of different cells.

    Raises:
        UserError: for a row that lacks a field, with an unknown label or a probability outside (0, 1], for an answer
            that has two labels, or for a cell with two audits; with the row's number. For a file with labels none of
            which is of the study's cells.
    """
    known, found = set(cells), StudyLabels()
    frame: Frame | None = None
    elsewhere: Counter[tuple[str, str]] = Counter()
    for number, row in enumerate(rows, 1):
        place = f"{path}, row {number}"
        if "drawn_from" in row:
            frame = _with_audit(frame or {}, row["drawn_from"], place)
            continue
        missing = [field for field in FIELDS if row.get(field) is None]
        if missing:
            raise UserError(f"{place}: has no `{missing[0]}`; a label has {', '.join(FIELDS)}")
        if row["label"] not in LABELS:
            raise UserError(f"{place}: the label {row['label']!r} is none of {', '.join(LABELS)}")
        probability, text = row["probability"], row.get("text")
        if not isinstance(probability, int | float) or not 0 < probability <= 1:
            raise UserError(f"{place}: the probability {probability!r} must be above 0 and at most 1")
        cell = (row["model"], row["split"])
        if cell not in known:
            elsewhere[cell] += 1
            continue
        key = AnswerKey(row["prompt_id"], row["turn"], row["sample"])
        if key in found.setdefault(cell, {}):
            raise UserError(f"{place}: answer {key.sample} to prompt {key.prompt_id}, turn {key.turn} has two labels")
        read = None if text is None else str(text)
        found[cell][key] = PersonLabel(row["label"], float(probability), row.get("answer_id"), read)
    if elsewhere and not found:
        model, split = min(elsewhere)
        raise UserError(
            f"{path}: none of its {elsewhere.total()} labels is of a model and split of this study (they are of model "
            f"{model} on split {split} and the like); name the labels of an audit of this study"
        )
    return found, frame, dict(sorted(elsewhere.items()))


def _with_audit(frame: Frame, other: Frame, place: str) -> Frame:
    """Return from which answers audits were drawn, with one more audit.

    Raises:
        UserError: if both are of one cell: the probabilities of its labels are those of one draw, not of two.
    """
    for model, splits in other.items():
        if both := sorted(frame.get(model, {}).keys() & splits.keys()):
            raise UserError(
                f"{place}: model {model} on split {both[0]} was drawn from by an earlier audit of this file; delete "
                "the cell's labels of one of both audits, and the cell from its `drawn_from`"
            )
    return {model: {**frame.get(model, {}), **other.get(model, {})} for model in (*frame, *other)}


def texts_of(gold: Iterable[CellRow]) -> set[str]:
    """Return the ids of what people read of gold: of each conversation with its answer, and of the answer alone."""
    read = [{name: row[name] for name in ("messages", "answer")} for row in gold]
    return {sha256_of(text)[:16] for text in read} | {answer_id(text["answer"]) for text in read}


def readable_answers(answers: Iterable[CellRow], labelled: CellLabels) -> tuple[dict[PromptTurn, int], CellLabels, int]:
    """Return how many of a cell's answers have a text, by place, their labels, and how many have another text now.

    What was `labelled` and has no text now is in no rate. Labels that are kept name the answer as it is now.
    """
    number: Counter[PromptTurn] = Counter()
    kept, changed = CellLabels(), 0
    for row in answers:
        if row["state"] not in JUDGED_ANSWER_STATES:
            continue
        number[row["prompt_id"], row["turn"]] += 1
        key = AnswerKey(row["prompt_id"], row["turn"], row["sample"])
        label = labelled.get(key)
        if label is not None:
            kept[key] = label._replace(answer_id=answer_id(row["answer"]))
            changed += label.answer_id not in (None, kept[key].answer_id)
    return dict(number), kept, changed


def unread_answers(units: Units, number: Mapping[PromptTurn, int]) -> dict[PromptTurn, int]:
    """Return how many answers people can read (`number`) and the judge gave no label, for each place that has some."""
    judged: dict[Any, int] = units.frame["n_judged"].to_dict()
    unread: dict[PromptTurn, int] = {place: number.get(place, 0) - n for place, n in judged.items()}
    return {place: n for place, n in unread.items() if n > 0}


def never_drawn(units: Units, own: LabelledCell) -> int:
    """Return how many of the answers that people can read were not there when the sample was drawn.

    0 where the labels do not say what they were drawn from.
    """
    if own.drawn_from is None:
        return 0
    there: dict[Any, int] = _readable(units, own).groupby(PLACE[0]).sum().to_dict()
    return sum(max(0, number - own.drawn_from.get(prompt, 0)) for prompt, number in there.items())


def judge_labels(units: Units, wanted: CellLabels) -> dict[AnswerKey, str]:
    """Return a judge's labels of the answers that people labelled, without those that it did not judge."""
    assert units.samples is not None
    judged = units.samples[units.samples["label"].notna()]
    places = map(AnswerKey, judged["prompt_id"], judged["turn"], judged["sample"])
    return {key: label for key, label in zip(places, judged["label"], strict=True) if key in wanted}


def join_labels(
    cells: Sequence[tuple[Units, LabelledCell]], reading: Sequence[str]
) -> tuple[JudgedAnswers, LabelledAnswers] | None:
    """Return the answers of one or several splits with their labels; None if a split has no answer that counts.

    Answers count that people can read, or that a provider blocked. An answer that the judge could not read counts as
    judged not to refuse, both in the judge's rate and against its label: the corrected rate holds for any judge, so
    also for one that says this. Dropping the answer would drop its label, and answers that judges cannot read are not a
    random sample. Labels of other answers, or on prompts that do not count, are dropped.

    Args:
        cells: of each split, its scored prompts and its labels.
        reading: of each split.
    """
    parts, found, places = [], [], dict[tuple[int, PromptTurn], int]()
    texts = dict[Hashable, int]()
    for number, ((units, own), how) in enumerate(zip(cells, reading, strict=True)):
        of_people = _readable(units, own) + units.frame["n_blocked"]
        known = (of_people > 0).to_numpy()
        if not known.any():
            return None
        part = units.select(known).frame.assign(of_people=of_people[known], refusals=units.refusals(how)[known])
        places |= {(number, place): len(places) + n for n, place in enumerate(part.index)}
        parts.append(part.assign(split=number, read=part[f"rate_{how}"]))
        for key in sorted(own.people):
            place = (key.prompt_id, key.turn)
            if (number, place) in places and (key in own.judge or place in own.unread):
                said = (own.people[key].label in REFUSES[how], own.judge.get(key) in REFUSES[how])
                text = texts.setdefault(own.people[key].text or (number, key), len(texts))
                found.append((places[number, place], *said, own.people[key].probability, text))
    answers = pd.concat(parts)
    rows, people, judge, probability, read = np.array(found, dtype=float).reshape(-1, 5).T
    return (
        JudgedAnswers(
            rates=(answers["refusals"] / answers["of_people"]).to_numpy(),
            counting=answers["of_people"].to_numpy(float),
            blocked=answers["n_blocked"].to_numpy(float),
            clusters=cluster_codes(answers["cluster"]),
            splits=answers["split"].to_numpy(np.intp),
            read=answers["read"].to_numpy(float),
            names=sorted(set(answers["cluster"])),
            places=list(answers.index),
        ),
        LabelledAnswers(rows.astype(np.intp), people, judge, probability, read.astype(np.intp)),
    )


def _readable(units: Units, own: LabelledCell) -> pd.Series[int]:
    """Return how many answers of each row people can read: judged ones, and those only the judge could not read."""
    return units.frame["n_judged"] + np.array([own.unread.get(place, 0) for place in units.frame.index], dtype=np.int64)
