"""Which prompts are on which side of a direction, and their activations."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from refusal_eval.activations.groups import Group, States, refuse_not_finite
from refusal_eval.activations.tensor_files import StateFile, read_states, widened
from refusal_eval.core.cluster_names import names_apart
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_jsonl, sha256_of
from refusal_eval.core.side_names import SideFiles, groups_of, part_names
from refusal_eval.core.texts import nfkc

LOG = logging.getLogger(__name__)
SIDES = ("positive", "negative")


@dataclass(frozen=True, eq=False)
class SidePrompts:
    """The prompts of one side, in order of their ids, with one row of states each."""

    group: Group
    prompts: list[str]  # ids
    contents: list[str]  # of each its `content_sha256`
    asked: set[str]  # `asked_of` all of them
    categories: list[str | None]
    scores: list[float | None]  # c(x) of each, where a judge chose it
    facts: list[dict[str, Any]]  # what of each decides the direction: activation keys, cluster, weight
    left_out_by_part: list[int]  # prompts that would be on this side too, but for the splits that it leaves out
    repeated_by_part: list[int]  # prompts of each part that an earlier one has

    @property
    def left_out(self) -> int:
        """The number of prompts that all parts leave out."""
        return sum(self.left_out_by_part)


def content_sha256(messages: Sequence[Mapping[str, str]]) -> str:
    """Return the SHA-256 (64 hex digits) of messages: of their text without Unicode's forms, case and white space."""
    texts = [" ".join(nfkc(nfkc(message["content"]).casefold()).split()) for message in messages]
    return sha256_of([[message["role"], text] for message, text in zip(messages, texts, strict=True)])


def contents_of(prompt: Mapping[str, Any]) -> set[str]:
    """Return the `content_sha256` of a prompt, and of each turn of the user in it as a prompt of its own."""
    messages = prompt["messages"]
    turns = ([message] for message in messages if message["role"] == "user")
    return {content_sha256(part) for part in (messages, *turns)}


def asked_of(prompt: Mapping[str, Any]) -> set[str]:
    """Return the `content_sha256` of a prompt, and of what its user asks last, whatever comes before."""
    messages = prompt["messages"]
    return {content_sha256(messages), content_sha256(messages[-1:])}


@dataclass(frozen=True, eq=False)
class SidePart:
    """A group of prompts of a side as its files have it: its whole split, and what chooses among it."""

    name: str  # `positive`, of a list also `positive 2` ..., for messages
    entry: Mapping[str, Any]
    prompts: Sequence[Mapping[str, Any]]
    states: StateFile
    scores: Mapping[str, float] | None  # c(x) by prompt id, with a judge
    left_out: Collection[str] = ()  # contents of prompts that it leaves out


def read_parts(
    entry: Mapping[str, Any], files: SideFiles, read_scores: Callable[[str], Mapping[str, float]]
) -> dict[str, list[SidePart]]:
    """Return the groups of prompts of each side, with clusters that mean the same in all of them.

    Args:
        entry: a direction or a separation, with the `sources` of its sides: a word for that of each part's split.
        files: of each side the paths of its files.
        read_scores: returns c(x) by prompt id of a scored cell.
    """
    states: dict[str, StateFile] = {}
    found: dict[str, list[SidePart]] = {}
    for side, said in files.items():
        own = zip(part_names(side, said), groups_of(entry[side]), groups_of(said), strict=True)
        found[side] = [
            SidePart(
                name,
                part,
                list(read_jsonl(paths["prompts"])),
                states.setdefault(paths["activations"], read_states(paths["activations"])),
                read_scores(paths["scores"]) if "scores" in paths else None,
                left_out(paths),
            )
            for name, part, paths in own
        ]
    parts = [part for side in found.values() for part in side]
    names = names_apart({part.name: [row["cluster"] for row in part.prompts] for part in parts}, entry["sources"])
    return {
        side: [
            replace(part, prompts=[{**row, "cluster": names[part.name][row["cluster"]]} for row in part.prompts])
            for part in own
        ]
        for side, own in found.items()
    }


def left_out(files: Mapping[str, str]) -> set[str]:
    """Return the contents of the prompts that a side leaves out, and of their turns.

    Args:
        files: of the side; `without ...` are the prompts of splits that are left out.
    """
    paths = [path for name, path in files.items() if name.startswith("without ")]
    return {content for path in paths for prompt in read_jsonl(path) for content in contents_of(prompt)}


def side_prompts(
    name: str, parts: Sequence[SidePart], layers: Sequence[int], weighted: bool, least: int = 2
) -> SidePrompts:
    """Return the prompts of one side that have activations, those of all its parts in order of their ids.

    A prompt that several parts have, by its content, counts once, in the first of them.

    Args:
        name: `positive` or `negative`, for messages.
        weighted: whether prompts are weighted by |c(x)|.
        least: how many there must be.

    Raises:
        UserError: if a side has fewer.
    """
    seen: set[str] = set()
    chosen: list[tuple[int, Mapping[str, Any]]] = []
    left, repeated = [0] * len(parts), [0] * len(parts)
    for number, part in enumerate(parts):
        captured = set(part.states.metadata["prompts"])
        there = [row for row in part.prompts if row["id"] in captured and is_on(part.entry, row, part.scores)]
        kept = [row for row in there if asked_of(row).isdisjoint(part.left_out)]
        new = [row for row in kept if content_sha256(row["messages"]) not in seen] if number else kept
        seen |= {content_sha256(row["messages"]) for row in new}
        chosen += [(number, row) for row in new]
        left[number], repeated[number] = len(there) - len(kept), len(kept) - len(new)
        _say_of_part(part, len(there), left[number], repeated[number], alone=len(parts) == 1)
    chosen.sort(key=lambda pair: str(pair[1]["id"]))
    if len(chosen) < least:
        raise UserError(
            f"the {name} side has {len(chosen)} prompt{'s' if len(chosen) != 1 else ''} "
            f"({'; '.join(_in_words(part.entry) for part in parts)}); "
            + ("at least two prompts are needed on each side" if least == 2 else "at least one is needed")
        )
    scores = [_score(parts[number], row) for number, row in chosen]
    weights = np.array([1.0 if not weighted or c is None else abs(c) for c in scores])
    states, keys = _states_of(parts, chosen, layers)
    facts = [
        {"keys": own, "cluster": row["cluster"], "weight": float(weight)}
        for (_, row), own, weight in zip(chosen, keys, weights, strict=True)
    ]
    numbers = [number for number, _ in chosen] if len(parts) > 1 else []
    rows = [row for _, row in chosen]
    return SidePrompts(
        Group(states, [str(row["cluster"]) for row in rows], weights, numbers),
        [row["id"] for row in rows],
        [content_sha256(row["messages"]) for row in rows],
        {content for row in rows for content in asked_of(row)},
        [row["category"] for row in rows],
        scores,
        facts,
        left,
        repeated,
    )


def _score(part: SidePart, row: Mapping[str, Any]) -> float | None:
    return None if part.scores is None else float(part.scores[row["id"]])


def _states_of(
    parts: Sequence[SidePart], chosen: Sequence[tuple[int, Mapping[str, Any]]], layers: Sequence[int]
) -> tuple[States, list[list[str]]]:
    """Return the states of prompts, [prompts, layers, width], and the activation keys of each.

    Args:
        chosen: of each prompt the number of its part, and itself.
    """
    states = np.empty((len(chosen), len(layers), parts[0].states.bits.shape[2]), np.float32)
    keys: list[list[str]] = [[] for _ in chosen]
    for number, part in enumerate(parts):
        metadata, rows = part.states.metadata, dict[str, list[int]]()
        for row, prompt_id in enumerate(metadata["prompts"]):
            rows.setdefault(prompt_id, []).append(row)
        own = [(place, rows[prompt["id"]]) for place, (of, prompt) in enumerate(chosen) if of == number]
        for place, numbers in own:
            keys[place] = [metadata["keys"][row] for row in numbers]
        columns = [metadata["layers"].index(layer) for layer in layers]
        for at, column in enumerate(columns):  # one at a time: all layers of a large model fill the memory
            layer_states = widened(part.states.bits[:, column], part.states.kind)
            for place, numbers in own:
                states[place, at] = _mean(layer_states, numbers)
    return states, keys


def _say_of_part(part: SidePart, there: int, left: int, repeated: int, alone: bool) -> None:
    words = _in_words(part.entry)
    if part.left_out:
        LOG.info("%d of %d prompts of the %s side are left out (%s)", left, there, part.name, words)
    if repeated:
        LOG.warning("%d prompts of the %s side are in one of its other groups already (%s)", repeated, part.name, words)
    if there == 0 and part.scores is None and not alone:
        raise UserError(f"no prompt is in a group of the {part.name} side ({words})")
    if there == 0 and not alone:
        LOG.warning("no prompt is in a group of the %s side (%s)", part.name, words)
    if lacking := len(part.prompts) - len(set(part.states.metadata["prompts"])):
        LOG.warning("%d prompts of split %s have no activations", lacking, part.entry["split"])


def both_sides(
    parts: Mapping[str, Sequence[SidePart]], layers: Sequence[int], weighted: bool = False
) -> tuple[SidePrompts, SidePrompts]:
    """Return the prompts of the positive and of the negative side of one model.

    Args:
        parts: of each side, see `read_parts`.
        weighted: whether prompts are weighted by |c(x)|.

    Raises:
        UserError: if a side has too few prompts, or both have some in common, or a layer is not finite.
    """
    positive, negative = (side_prompts(side, parts[side], layers, weighted) for side in SIDES)
    refuse_shared(positive, negative)
    for place, layer in enumerate(layers):
        refuse_not_finite(layer, *(side.group.states[:, place] for side in (positive, negative)))
    return positive, negative


def is_on(side: Mapping[str, Any], prompt: Mapping[str, Any], scores: Mapping[str, float] | None) -> bool:
    """Tell whether a prompt of the split is on a side."""
    if side.get("category") is not None and prompt["category"] != side["category"]:
        return False
    if scores is None:
        return True
    c = scores.get(prompt["id"])
    if c is None:
        return False
    if side.get("within") is not None:
        return abs(c) <= float(side["within"])
    return bool(c > side["above"] if side.get("above") is not None else c < side["below"])


def refuse_shared(one: SidePrompts, other: SidePrompts, names: str = "both sides") -> None:
    """Raise `UserError` if a prompt is on both sides, by its content."""
    pairs, others = zip(one.prompts, one.contents, strict=True), set(other.contents)
    shared = [prompt for prompt, content in pairs if content in others]
    if shared:
        raise UserError(
            f"{names} have {len(shared)} prompt{'s' if len(shared) != 1 else ''} in common (the first: "
            f"{shared[0]}); a prompt can be on one side only"
        )


def _mean(states: States, rows: Sequence[int]) -> States:
    """Return the mean over the samples of one prompt, [width]; of one sample its states, to the last bit."""
    if len(rows) == 1:
        return np.asarray(states[rows[0]])
    return np.asarray(states[list(rows)].astype(np.float64).mean(axis=0).astype(np.float32))


def _in_words(side: Mapping[str, Any]) -> str:
    words = [f"split {side['split']}"]
    if side.get("category") is not None:
        words.append(f"category {side['category']}")
    if side.get("without"):
        words.append(f"without {' and '.join(side['without'])}")
    for bound, sign in (("above", ">"), ("below", "<")):
        if side.get(bound) is not None:
            words.append(f"c(x) {sign} {side[bound]:g} under judge {side['judge']}")
    if side.get("within") is not None:
        words.append(f"|c(x)| \u2264 {side['within']:g} under judge {side['judge']}")
    return ", ".join(words)
