"""What can be labelled: the texts of a study's answers, each once, with the answers behind it and what judges say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

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
