"""What the judge that learns says of gold by fits that have not seen the like of an answer.

There are three degrees of it (`states.LEFT_OUT`): a fit without the answer's prompt, one without its prompt and its
answering model, and one without its whole source: the gold set that it is from, with every other that shares a prompt
with it. Only the last shows how the judge does on kinds of prompts that it never saw.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import sha256_of
from refusal_eval.core.states import LABELS
from refusal_eval.judges.learning_judge import GoldRow
from refusal_eval.judges.trained.model import Examples, TrainedModel, fit, predict

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Probabilities = NDArray[np.float64]  # answers x three labels, as `predict` returns them

FOLDS = 5  # groups of clusters of the out-of-fold predictions


class Unseen(NamedTuple):
    """What is said of each row without having seen its like."""

    prompt_out: Probabilities  # by fits that saw other answers of its answering model
    model_out: Probabilities  # by fits that saw none of these either, but for rows of `saw_model`
    saw_model: list[bool]  # where nothing can be fitted without the answering model, although the gold has several


def sources(files: Mapping[str, Sequence[GoldRow]]) -> dict[str, str]:
    """Return the source of each gold set: the first of those that share prompts with it, directly or through others."""
    source = {name: name for name in files}
    prompts = {name: {sha256_of(row["messages"]) for row in rows} for name, rows in files.items()}
    names = list(files)
    for number, one in enumerate(names):
        for other in names[number + 1 :]:
            if source[one] != source[other] and prompts[one] & prompts[other]:
                old, new = source[other], source[one]
                source = {name: new if own == old else own for name, own in source.items()}
    return source


def prompt_groups(files: Iterable[Sequence[GoldRow]]) -> dict[str, str]:
    """Return the group of each prompt, by the hash of its messages, named after the first of its clusters.

    A group has all prompts that share a cluster of some gold, and all clusters that share a prompt. So a prompt is in
    one group, whatever each gold calls its clusters.

    Args:
        files: rows of each gold; the name of a cluster has a meaning only within it.
    """
    group_of: dict[str, set[str]] = {}  # the prompts of the group that a prompt is in
    clusters: dict[tuple[int, str], set[str]] = defaultdict(set)
    names: dict[str, str] = {}
    for number, rows in enumerate(files):
        for row in rows:
            prompt, cluster = sha256_of(row["messages"]), str(row["cluster"])
            clusters[number, cluster].add(prompt)
            names[prompt] = min(cluster, names.get(prompt, cluster))
    for prompts in clusters.values():
        together = prompts.union(*(group_of.get(prompt, ()) for prompt in prompts))
        group_of |= dict.fromkeys(together, together)
    return {prompt: min(names[other] for other in group) for prompt, group in group_of.items()}


def unseen(gold: Examples, others: Sequence[GoldRow] = ()) -> Unseen:
    """Return for each row of the examples, in their order, what models say that have not seen its like.

    Clusters are dealt to FOLDS groups by a hash of their name. Where the gold has a single answering model (or names
    none), `model_out` keeps only clusters apart; so it does for an answering model without whose answers nothing can be
    fitted, as those of the others have a single label.

    Args:
        gold: the rows that are learned from, with `answering_model` too.
        others: rows to be read likewise that no fit learns from; they come behind those of the gold.

    Raises:
        UserError: when some fold leaves too little gold to fit on.
    """
    import numpy as np

    rows, learned = [*gold.rows, *others], np.arange(len(gold.rows) + len(others)) < len(gold.rows)
    makers = np.array([str(row.get("answering_model")) for row in rows])
    hashes = [hashlib.sha256(str(row["cluster"]).encode()).hexdigest() for row in rows]
    folds = np.array([int(digits, 16) % FOLDS for digits in hashes])
    several = len(set(makers[learned].tolist())) > 1

    @functools.cache
    def without_fold(fold: int) -> TrainedModel:
        try:
            return fit(gold.only((folds != fold)[learned]))
        except UserError as error:
            raise UserError(f"without one of {FOLDS} folds of clusters: {error}") from error

    def said(model: TrainedModel, left_out: Sequence[int]) -> Probabilities:
        return predict(model, [rows[i]["seen"] for i in left_out])

    prompt_out, model_out = (np.zeros((len(rows), len(LABELS))) for _ in range(2))
    saw_model = np.zeros(len(rows), dtype=bool)
    for fold in sorted(set(folds.tolist())):
        left_out = np.flatnonzero(folds == fold)
        prompt_out[left_out] = said(without_fold(fold), left_out.tolist())
    model_out[:] = prompt_out
    for maker in sorted(set(makers.tolist())) if several else ():
        own = makers == maker
        held = sorted(set(folds[own].tolist()))
        try:
            models = {fold: fit(gold.only(((folds != fold) & ~own)[learned])) for fold in held}
        except UserError:
            saw_model[own] = True
            continue
        for fold in held:
            left_out = np.flatnonzero(own & (folds == fold))
            model_out[left_out] = said(models[fold], left_out.tolist())
    return Unseen(prompt_out, model_out, saw_model.tolist())


def source_models(gold: Examples) -> dict[str, TrainedModel]:
    """Return for each source a model fitted on the others; none for one whose others have a single label."""
    import numpy as np

    of_source = np.array([row["source"] for row in gold.rows])
    names = sorted(set(of_source.tolist()))
    found = {}
    for source in names if len(names) > 1 else ():
        with contextlib.suppress(UserError):
            found[source] = fit(gold.only(of_source != source))
    return found
