"""Which prompts are on which side of a direction, and their activations."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refusal_eval.activations.groups import Group, States, refuse_not_finite
from refusal_eval.activations.tensor_files import StateFile, widened
from refusal_eval.core.cluster_names import names_apart
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_jsonl, sha256_of
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
    facts: list[dict[str, Any]]  # the parts of each that decide the direction: activation keys, cluster, weight
    left_out: int  # prompts that would be on this side too, but for the splits that it leaves out


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


def read_prompts(
    files: Mapping[str, Mapping[str, str]], sources: Mapping[str, str]
) -> dict[str, list[Mapping[str, Any]]]:
    """Return the prompts of each side's split, with clusters that mean the same on both sides.

    Args:
        files: of each side the paths of its files.
        sources: of each side a word for the source of its split (see `names_apart`).
    """
    prompts = {side: list(read_jsonl(files[side]["prompts"])) for side in SIDES}
    names = names_apart({side: [prompt["cluster"] for prompt in own] for side, own in prompts.items()}, sources)
    return {
        side: [prompt | {"cluster": names[side][prompt["cluster"]]} for prompt in own] for side, own in prompts.items()
    }


def left_out(files: Mapping[str, str]) -> set[str]:
    """Return the contents of the prompts that a side leaves out, and of their turns.

    Args:
        files: of the side; `without ...` are the prompts of splits that are left out.
    """
    paths = [path for name, path in files.items() if name.startswith("without ")]
    return {content for path in paths for prompt in read_jsonl(path) for content in contents_of(prompt)}


def side_prompts(
    name: str,
    side: Mapping[str, Any],
    prompts: Sequence[Mapping[str, Any]],
    file: StateFile,
    layers: Sequence[int],
    scores: Mapping[str, float] | None,
    weighted: bool,
    left_out: Collection[str] = (),
) -> SidePrompts:
    """Return the prompts of one side that have activations.

    Args:
        name: `positive` or `negative`, for messages.
        side: its entry.
        file: the activations of its split.
        scores: c(x) by prompt id, where the side names a judge; prompts without one are on no side.
        weighted: whether prompts are weighted by |c(x)|.
        left_out: contents (`content_sha256`) of prompts that are on no side.

    Raises:
        UserError: if a side has fewer than two prompts.
    """
    rows: dict[str, list[int]] = {}
    for row, prompt_id in enumerate(file.metadata["prompts"]):
        rows.setdefault(prompt_id, []).append(row)
    there = [prompt for prompt in prompts if prompt["id"] in rows and is_on(side, prompt, scores)]
    kept = [prompt for prompt in there if asked_of(prompt).isdisjoint(left_out)]
    chosen = sorted(kept, key=lambda prompt: str(prompt["id"]))
    if left_out:
        counts = len(there) - len(kept), len(there)
        LOG.info("%d of %d prompts of the %s side are left out (%s)", *counts, name, _in_words(side))
    if len(chosen) < 2:
        raise UserError(
            f"the {name} side has {len(chosen)} prompt{'s' if len(chosen) != 1 else ''} ({_in_words(side)}); "
            "at least two prompts are needed on each side"
        )
    columns = [file.metadata["layers"].index(layer) for layer in layers]
    weights = np.array([abs(scores[prompt["id"]]) if weighted and scores else 1.0 for prompt in chosen])
    keys = file.metadata["keys"]
    facts = [
        {"keys": [keys[row] for row in rows[prompt["id"]]], "cluster": prompt["cluster"], "weight": float(weight)}
        for prompt, weight in zip(chosen, weights, strict=True)
    ]
    states = np.empty((len(chosen), len(columns), file.bits.shape[2]), np.float32)
    for place, column in enumerate(columns):  # one at a time: all layers of a large model fill the memory
        layer = widened(file.bits[:, column], file.kind)
        for row, prompt in enumerate(chosen):
            states[row, place] = _mean(layer, rows[prompt["id"]])
    group = Group(states, [str(prompt["cluster"]) for prompt in chosen], weights)
    return SidePrompts(
        group,
        [prompt["id"] for prompt in chosen],
        [content_sha256(prompt["messages"]) for prompt in chosen],
        {content for prompt in chosen for content in asked_of(prompt)},
        [prompt["category"] for prompt in chosen],
        facts,
        len(there) - len(kept),
    )


def both_sides(
    entry: Mapping[str, Any],
    files: Mapping[str, Mapping[str, str]],
    states: Mapping[str, StateFile],
    layers: Sequence[int],
    scores: Mapping[str, Mapping[str, float]],
    weighted: bool = False,
) -> tuple[SidePrompts, SidePrompts]:
    """Return the prompts of the positive and of the negative side of one model.

    Args:
        entry: a direction or a separation, with the `sources` of its sides.
        files: of each side the paths of its files.
        states: the activations of each side's split.
        scores: c(x) by prompt id of each side that names a judge.
        weighted: whether prompts are weighted by |c(x)|.

    Raises:
        UserError: if a side has too few prompts, or both have some in common, or a layer is not finite.
    """
    prompts, sides = read_prompts(files, entry["sources"]), []
    for side in SIDES:
        own, away = (prompts[side], states[side], layers, scores.get(side)), left_out(files[side])
        sides.append(side_prompts(side, entry[side], *own, weighted, away))
        if lacking := len(prompts[side]) - len(set(states[side].metadata["prompts"])):
            LOG.warning("%d prompts of split %s have no activations", lacking, entry[side]["split"])
    positive, negative = sides
    refuse_shared(positive, negative)
    for place, layer in enumerate(layers):
        refuse_not_finite(layer, *(side.group.states[:, place] for side in sides))
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
    return bool(c > side["above"] if side.get("above") is not None else c < side["below"])


def refuse_shared(positive: SidePrompts, negative: SidePrompts) -> None:
    """Raise `UserError` if a prompt is on both sides, by its content."""
    pairs, others = zip(positive.prompts, positive.contents, strict=True), set(negative.contents)
    shared = [prompt for prompt, content in pairs if content in others]
    if shared:
        raise UserError(
            f"both sides have {len(shared)} prompt{'s' if len(shared) != 1 else ''} in common (the first: "
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
    return ", ".join(words)
