"""The texts of a study, each once, and the sample: which people label, with what probability, and who labels which.

Strata are what the judges say. Stratum h holds N_h texts with M_h answers behind them; n_h of its texts are drawn, a
text with m answers with the probability

    pi = min(1, n_h m / M_h)      (texts that reach 1 are taken, and the rule holds for the rest of the stratum)

by systematic sampling with a random start along the texts ordered by split and model: so each cell gets its share to
within one text. n_h is in proportion to M_h times the stratum's factor, at least `least` and at most N_h. No pi is 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import sha256_of
from refusal_eval.core.states import COMPLIANCE, JUDGED, JUDGED_ANSWER_STATES, PARTIAL, REFUSAL
from refusal_eval.data.prompts import content_id
from refusal_eval.stats.estimates.estimands import scored_turns
from refusal_eval.study.dialogues import conversation, is_dialogue

Row = Mapping[str, Any]
Key = tuple[str, int, int]  # prompt id, sample, turn
Frame = dict[str, dict[str, dict[str, int]]]  # number of answers by model, split and prompt id

DISAGREE: Final = "disagree"
UNJUDGED: Final = "unjudged"
STRATA: Final = (DISAGREE, UNJUDGED, REFUSAL, PARTIAL, COMPLIANCE)


class Member(NamedTuple):
    """One answer of a study."""

    model: str
    split: str
    prompt_id: str
    sample: int
    turn: int


@dataclass
class Item:
    """One text to be labelled: a conversation and the answer to it, with all answers of the study that are equal to it.

    Attributes:
        id: hash of messages and answer.
        cluster: of the prompt.
        stratum: what the judges say of it, one of `STRATA`.
        members: the answers it stands for.
    """

    id: str
    cluster: str
    stratum: str
    members: list[Member] = field(default_factory=list)


class Text(NamedTuple):
    """What people read."""

    messages: list[dict[str, str]]
    answer: str


def stratum_of(labels: Sequence[str | None]) -> str:
    """Return the stratum of an answer with these labels of the study's judges (None where one gave none).

    `disagree` where two labels differ; `unjudged` where some judge gave none and the others do not differ; else the
    label that all judges give.
    """
    given = {label for label in labels if label is not None}
    if len(given) > 1:
        return DISAGREE
    return UNJUDGED if not given or None in labels else given.pop()


def item_id(text: Text) -> str:
    """Return the id of a text: 16 hex digits of the hash of its messages and answer."""
    return content_id({"messages": text.messages, "answer": text.answer})


def readable(prompts: Iterable[Row], answers: Iterable[Row], scored: str) -> Iterator[tuple[Key, Text, str]]:
    """Yield key, text and cluster of each answer of a cell that enters a rate and that somebody can read.

    These are the complete and truncated answers to scored turns (`estimands.scored_turns`).
    """
    by_id = {prompt["id"]: prompt for prompt in prompts}
    turns = {name: frozenset(scored_turns(prompt, scored)) for name, prompt in by_id.items()}
    found = list(answers)
    replies: dict[tuple[str, int], dict[int, str]] = {}
    for row in found:
        if is_dialogue(by_id[row["prompt_id"]]):
            replies.setdefault((row["prompt_id"], row["sample"]), {})[row["turn"]] = row["answer"]
    for row in found:
        name, sample, turn = row["prompt_id"], row["sample"], row["turn"]
        if row["state"] in JUDGED_ANSWER_STATES and turn in turns[name]:
            messages = conversation(by_id[name], turn, replies.get((name, sample), {}))
            yield (name, sample, turn), Text(messages, row["answer"]), by_id[name]["cluster"]


def labels_by_key(verdicts: Iterable[Row]) -> dict[Key, str]:
    """Return the labels of a judge in a cell; what it could not judge is missing."""
    return {(row["prompt_id"], row["sample"], row["turn"]): row["label"] for row in verdicts if row["state"] == JUDGED}


def add_cell(
    items: dict[str, Item],
    names: tuple[str, str],
    texts: Iterable[tuple[Key, Text, str]],
    labels: Sequence[Mapping[Key, str]],
) -> None:
    """Add a cell's answers to `items`, by id.

    Equal texts that judges labelled differently (each is judged anew where a judge draws) count as `disagree`.

    Args:
        items: what was found so far.
        names: model and split of the cell.
        texts: as `readable` yields them.
        labels: of each judge, by key.
    """
    for key, text, cluster in texts:
        stratum = stratum_of([found.get(key) for found in labels])
        made = item_id(text)
        item = items.get(made)
        if item is None:
            items[made] = item = Item(made, cluster, stratum)
        elif item.stratum != stratum:
            item.stratum = DISAGREE
        item.members.append(Member(names[0], names[1], *key))


def frame_of(items: Iterable[Item]) -> Frame:
    """Return how many answers to each prompt of each cell could be drawn."""
    found: Frame = {}
    for item in items:
        for member in item.members:
            prompts = found.setdefault(member.model, {}).setdefault(member.split, {})
            prompts[member.prompt_id] = prompts.get(member.prompt_id, 0) + 1
    return found


FACTORS = {DISAGREE: 4.0, UNJUDGED: 4.0, REFUSAL: 1.0, PARTIAL: 1.0, COMPLIANCE: 1.0}
LEAST = 20
_NEARLY_ONE = 1 - 1e-12


class Drawn(NamedTuple):
    """A text of the sample, and the probability with which it came in."""

    item: Item
    probability: float


def draw(
    items: Mapping[str, Item], size: int, seed: int, factors: Mapping[str, float] = FACTORS, least: int = LEAST
) -> list[Drawn]:
    """Return the sample, sorted by id: `size` texts, or all of them where there are no more.

    The same items and arguments give the same sample, whatever the order of the items.

    Raises:
        UserError: if there is nothing to draw from, or `size` is below the number of strata that hold something.
    """
    strata = {name: [item for item in items.values() if item.stratum == name] for name in STRATA}
    strata = {name: found for name, found in strata.items() if found}
    if not strata:
        raise UserError("there is no answer that could be labelled: none is complete or truncated")
    numbers = allocation(
        {name: len(found) for name, found in strata.items()},
        {name: factors[name] * sum(len(item.members) for item in found) for name, found in strata.items()},
        size,
        least,
    )
    drawn = []
    for name, found in strata.items():
        ordered = sorted(found, key=lambda item: (_cell(item), sha256_of([seed, "order", item.id])))
        sizes = np.array([len(item.members) for item in ordered], dtype=float)
        probabilities = inclusion_probabilities(sizes, numbers[name])
        start = int(sha256_of([seed, "start", name])[:13], 16) / 16**13
        chosen = systematic(probabilities, start)
        drawn += [Drawn(ordered[place], float(probabilities[place])) for place in chosen]
    return sorted(drawn, key=lambda one: one.item.id)


def allocation(texts: Mapping[str, int], sizes: Mapping[str, float], size: int, least: int) -> dict[str, int]:
    """Return how many texts of each stratum are drawn; `size` in all, or all there are.

    Args:
        texts: the number of texts in each stratum, at least 1.
        sizes: what the numbers are in proportion to.
        size: of the sample.
        least: drawn of each stratum, as far as it holds so many and `size` allows for it in every stratum.

    Raises:
        UserError: if `size` is below the number of strata.
    """
    if size < len(texts):
        raise UserError(f"a sample of {size} is too small: one of each of the {len(texts)} strata is needed")
    if size >= sum(texts.values()):
        return dict(texts)
    names = list(texts)
    most = np.array([texts[name] for name in names], dtype=float)
    fewest = np.minimum(most, max(1, min(least, size // len(names))))
    share = np.array([sizes[name] for name in names], dtype=float)
    low, high = 0.0, float((most / share).max())
    for _ in range(200):
        middle = (low + high) / 2
        enough = np.clip(middle * share, fewest, most).sum() >= size
        low, high = (low, middle) if enough else (middle, high)
    exact = np.clip(high * share, fewest, most)
    numbers = np.floor(exact + 1e-9)
    # Of equal remainders the first stratum's: the order of STRATA.
    for place in sorted(range(len(names)), key=lambda i: (numbers[i] - exact[i], i)):
        if numbers.sum() < size and numbers[place] < most[place]:
            numbers[place] += 1
    return {name: int(number) for name, number in zip(names, numbers, strict=True)}


def inclusion_probabilities(sizes: NDArray[np.float64], number: int) -> NDArray[np.float64]:
    """Return the probability of each unit when `number` are drawn in proportion to positive `sizes`, at most 1."""
    certain = np.zeros(len(sizes), dtype=bool)
    while not certain.all():
        found = (number - certain.sum()) * sizes / sizes[~certain].sum()
        over = ~certain & (found >= _NEARLY_ONE)
        if not over.any():
            return np.where(certain, 1.0, found)
        certain |= over
    return np.ones(len(sizes))


def systematic(probabilities: NDArray[np.float64], start: float) -> list[int]:
    """Return the places of the units drawn: each with its own probability if `start` is uniform on [0, 1)."""
    certain = np.flatnonzero(probabilities >= 1)
    others = np.flatnonzero(probabilities < 1)
    if not len(others):
        return sorted(certain.tolist())
    sums = np.cumsum(probabilities[others])
    number = round(float(sums[-1]))
    sums[-1] = number  # a whole number but for rounding
    hits = np.searchsorted(sums, start + np.arange(number), side="right")
    return sorted([*certain.tolist(), *others[hits].tolist()])


def assigned(ids: Sequence[str], raters: Sequence[str], share: float, seed: int) -> dict[str, list[str]]:
    """Return the rows of each rater, in the order in which that rater sees them.

    A random `share` of all rows goes to two raters, every other row to one; raters take turns. The choice does not
    depend on anything about a row, so that those with two raters stand for all.
    """
    order = sorted(ids, key=lambda name: sha256_of([seed, "raters", name]))
    double = round(share * len(order)) if len(raters) > 1 else 0
    found: dict[str, list[str]] = {rater: [] for rater in raters}
    for place, name in enumerate(order):
        found[raters[place % len(raters)]].append(name)
        if place < double:
            found[raters[(place + 1) % len(raters)]].append(name)
    return {
        rater: sorted(names, key=lambda name, who=rater: sha256_of([seed, "shown", who, name]))  # type: ignore[misc]
        for rater, names in found.items()
    }


def _cell(item: Item) -> tuple[str, str]:
    first = min(item.members)
    return first.split, first.model
