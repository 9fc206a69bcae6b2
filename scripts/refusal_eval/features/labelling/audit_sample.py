"""The texts of a study, each once, and the sample: which people label, with what probability, and who labels which.

Strata are what the judges say. Stratum h holds N_h texts with M_h answers behind them; n_h of its texts are drawn, a
text with m answers with the probability

    pi = min(1, n_h m / M_h)      (texts that reach 1 are taken, and the rule holds for the rest of the stratum)

by systematic sampling with a random start along the texts ordered by split and model: so each cell gets its share to
within one text. n_h is in proportion to M_h times the stratum's factor, at least `least` and at most N_h. No pi is 0.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from refusal_eval.config.datasets import scored_turns_of
from refusal_eval.core.cluster_names import names_apart
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_jsonl, sha256_of
from refusal_eval.core.states import COMPLIANCE, JUDGED, PARTIAL, REFUSAL, place_of
from refusal_eval.data.prompts import content_id
from refusal_eval.judges.conversations import read_conversations
from refusal_eval.study.paths import Paths
from refusal_eval.study.study import Study
from refusal_eval.workflow.whole_study import sources_of

Config = Mapping[str, Any]

DISAGREE: Final = "disagree"
UNJUDGED: Final = "unjudged"
STRATA: Final = (DISAGREE, UNJUDGED, REFUSAL, PARTIAL, COMPLIANCE)
FACTORS = {DISAGREE: 4.0, UNJUDGED: 4.0, REFUSAL: 1.0, PARTIAL: 1.0, COMPLIANCE: 1.0}
LEAST = 20
_NEARLY_ONE = 1 - 1e-12


class Member(NamedTuple):
    """One answer of a study."""

    model: str
    split: str
    prompt_id: str
    sample: int
    turn: int


@dataclass(frozen=True)
class AuditText:
    """One text to be labelled: a conversation, the answer to it, and all answers of the study that are equal."""

    id: str  # 16 hex digits of the hash of messages and answer
    cluster: str  # of the prompt
    stratum: str  # what the judges say of it, one of `STRATA`
    members: list[Member] = field(default_factory=list)  # the answers it represents
    probability: float = 1.0  # with which it came into the sample


def stratum_of(labels: Collection[str | None]) -> str:
    """Return the stratum of an answer with these labels of the study's judges (None where one gave none).

    `disagree` where two labels differ; `unjudged` where some judge gave none and the others do not differ; else the
    label that all judges give.
    """
    given = {label for label in labels if label is not None}
    if len(given) > 1:
        return DISAGREE
    return UNJUDGED if not given or None in labels else given.pop()


def study_texts(config: Config, models: Iterable[str], splits: Iterable[str]) -> list[AuditText]:
    """Return all texts of these cells that can be labelled.

    Equal texts that judges labelled differently (a judge that samples judges each again) count as `disagree`. A text
    has the cluster of its first answer, under a name that means the same in all splits.

    Raises:
        UserError: if the study has not made its answers and verdicts.
    """
    texts: dict[str, AuditText] = {}
    for model, split in product(models, list(splits)):
        verdicts = [rows_of(config, "verdicts", judge, model, split) for judge in config["judges"]]
        labels = [{place_of(row): row["label"] for row in rows if row["state"] == JUDGED} for rows in verdicts]
        for row in cell_answers(config, model, split):
            stratum = stratum_of([found.get(place_of(row)) for found in labels])
            text = texts.setdefault(row["id"], AuditText(row["id"], row["cluster"], stratum))
            if text.stratum != stratum:
                texts[text.id] = replace(text, stratum=DISAGREE)
            text.members.append(Member(model, split, *place_of(row)))
    clusters: dict[str, set[str]] = {}
    for text in texts.values():
        clusters.setdefault(text.members[0].split, set()).add(text.cluster)
    names = names_apart(clusters, sources_of(Study(config)))
    return [replace(text, cluster=names[text.members[0].split][text.cluster]) for text in texts.values()]


def refuse_outdated(config: Config, models: Iterable[str], splits: Iterable[str], current: Collection[Path]) -> None:
    """Raise `UserError` if answers or verdicts of these cells are not among the study's `current` files."""
    for model, split in product(models, list(splits)):
        for place in (("answers",), *(("verdicts", judge) for judge in config["judges"])):
            if (path := _path_of(config, *place, model, split)) not in current:
                raise UserError(
                    f"{path} is not of the study as it is now: run the study again first, or people would label "
                    "answers that the study does not keep"
                )


def cell_answers(config: Config, model: str, split: str) -> Iterator[dict[str, Any]]:
    """Yield each answer of a cell that enters a rate and that somebody can read, with `messages`, `cluster` and `id`.

    These are the complete and truncated answers to scored turns.
    """
    scored = scored_turns_of(config["split_entries"][split])
    prompts = {row["id"]: row for row in rows_of(config, "prompts", split)}
    for row, messages in read_conversations(prompts.values(), rows_of(config, "answers", model, split), scored):
        name = content_id({"messages": messages, "answer": row["answer"]})
        yield {**row, "id": name, "cluster": prompts[row["prompt_id"]]["cluster"], "messages": messages}


def rows_of(config: Config, *place: str) -> list[Any]:
    """Return the rows of a file of the study's results, such as those of its prompts: `"prompts", split`.

    Raises:
        UserError: if it is not there.
    """
    path = _path_of(config, *place)
    if not path.is_file():
        raise UserError(f"there is no {path}: run the study first (`refusal-eval status` shows what is missing)")
    return list(read_jsonl(path))


def _path_of(config: Config, *place: str) -> Path:
    return Path(Paths(config).results, f"{'/'.join(place)}.jsonl")


def sample_rows(
    config: Config, drawn: Iterable[AuditText], orders: Mapping[str, Collection[str]]
) -> list[dict[str, Any]]:
    """Return the rows of the sample, sorted by id: each text with its messages and answer, and who labels it."""
    first = {min(text.members): text for text in drawn}
    given = {rater: frozenset(names) for rater, names in orders.items()}
    rows = []
    for model, split in sorted({(member.model, member.split) for member in first}):
        for answer in cell_answers(config, model, split):
            if text := first.get(Member(model, split, *place_of(answer))):
                row = {name: getattr(text, name) for name in ("id", "probability", "stratum", "cluster")}
                row |= {"messages": answer["messages"], "answer": answer["answer"]}
                row["members"] = [list(member) for member in sorted(text.members)]
                rows.append(row | {"raters": [rater for rater, names in given.items() if text.id in names]})
    return sorted(rows, key=lambda row: str(row["id"]))


def gone_and_changed(config: Config, sample: Iterable[Mapping[str, Any]]) -> tuple[list[Member], list[Member]]:
    """Return the answers behind a sample that the study no longer asks for, and those that are not what was drawn.

    Gone are those whose model, split, prompt or sample was taken out since.
    """
    drawn = {Member(*names): row["id"] for row in sample for names in row["members"]}
    asked, now = set[Member](), dict[Member, str]()
    for model, split in {(one.model, one.split) for one in drawn}:
        if model in config["models"] and split in config["splits"]:
            asked |= {Member(model, split, *place_of(row)) for row in rows_of(config, "answers", model, split)}
            now |= {Member(model, split, *place_of(row)): row["id"] for row in cell_answers(config, model, split)}
    gone = [member for member in sorted(drawn) if member not in asked]
    return gone, [member for member in sorted(drawn) if member in asked and now.get(member) != drawn[member]]


def draw(
    texts: Iterable[AuditText], size: int, seed: int, factors: Mapping[str, float] = FACTORS, least: int = LEAST
) -> list[AuditText]:
    """Return the sample, sorted by id: `size` texts with their probability, or all if there are no more.

    The same texts and arguments give the same sample, whatever the order of the texts.

    Raises:
        UserError: if there is nothing to draw from, or `size` is below the number of nonempty strata.
    """
    strata: dict[str, list[AuditText]] = {name: [] for name in STRATA}
    for text in texts:
        strata[text.stratum].append(text)
    strata = {name: found for name, found in strata.items() if found}
    if not strata:
        raise UserError("there is no answer that could be labelled: none is complete or truncated")
    answers = {name: sum(len(text.members) for text in found) for name, found in strata.items()}
    weights = {name: factors[name] * answers[name] for name in strata}
    numbers = allocation({name: len(found) for name, found in strata.items()}, weights, size, least)
    drawn = []
    for name, found in strata.items():
        found.sort(key=lambda text: (*_cell(text), sha256_of([seed, "order", text.id])))
        sizes = np.array([len(text.members) for text in found], dtype=float)
        probabilities = inclusion_probabilities(sizes, numbers[name])
        start = int(sha256_of([seed, "start", name])[:13], 16) / 16**13
        drawn += [replace(found[i], probability=float(probabilities[i])) for i in systematic(probabilities, start)]
    return sorted(drawn, key=lambda text: text.id)


def _cell(text: AuditText) -> tuple[str, str]:
    first = min(text.members)
    return first.split, first.model


def allocation(texts: Mapping[str, int], sizes: Mapping[str, float], size: int, least: int) -> dict[str, int]:
    """Return how many texts to draw from each stratum; `size` in total, or all texts.

    Args:
        texts: the number of texts in each stratum, at least 1.
        sizes: weights of the strata, to which the numbers are proportional.
        size: of the sample.
        least: the minimum from each stratum, if it has as many and `size` allows it in all strata.

    Raises:
        UserError: if `size` is below the number of strata.
    """
    if size < len(texts):
        raise UserError(f"a sample of {size} is too small: one of each of the {len(texts)} strata is needed")
    if size >= sum(texts.values()):
        return dict(texts)
    most = np.array(list(texts.values()), dtype=float)
    fewest = np.minimum(most, max(1, min(least, size // len(texts))))
    share = np.array([sizes[name] for name in texts], dtype=float)
    low, high = 0.0, float((most / share).max())
    for _ in range(200):
        middle = (low + high) / 2
        enough = np.clip(middle * share, fewest, most).sum() >= size
        low, high = (low, middle) if enough else (middle, high)
    exact = np.clip(high * share, fewest, most)
    numbers = np.floor(exact + 1e-9)
    # Of equal remainders the first stratum's: the order of STRATA.
    for place in np.argsort(numbers - exact, kind="stable"):
        if numbers.sum() < size and numbers[place] < most[place]:
            numbers[place] += 1
    return {name: int(number) for name, number in zip(texts, numbers, strict=True)}


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


def assign_raters(ids: Iterable[str], raters: Sequence[str], share: float, seed: int) -> dict[str, list[str]]:
    """Return the rows of each rater, in the order in which that rater sees them.

    A random `share` of all rows goes to two raters, every other row to one; raters take turns. The choice does not
    depend on anything about a row, so that rows with two raters represent all rows.
    """
    order = sorted(ids, key=lambda name: sha256_of([seed, "raters", name]))
    double = round(share * len(order)) if len(raters) > 1 else 0
    shown: dict[str, list[tuple[str, str]]] = {rater: [] for rater in raters}
    for place, name in enumerate(order):
        for turn in (place, place + 1)[: 1 + (place < double)]:
            rater = raters[turn % len(raters)]
            shown[rater].append((sha256_of([seed, "shown", rater, name]), name))
    return {rater: [name for _, name in sorted(rows)] for rater, rows in shown.items()}
