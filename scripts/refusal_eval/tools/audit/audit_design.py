"""The sample: which texts people label, with what probability each came in, and who labels which.

Strata are what the judges say. Stratum h holds N_h texts with M_h answers behind them; n_h of its texts are drawn, a
text with m answers with the probability

    pi = min(1, n_h m / M_h)      (texts that reach 1 are taken, and the rule holds for the rest of the stratum)

by systematic sampling with a random start along the texts ordered by split and model: so each cell gets its share to
within one text. n_h is in proportion to M_h times the stratum's factor, at least `least` and at most N_h. No pi is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import sha256_of
from refusal_eval.core.states import COMPLIANCE, PARTIAL, REFUSAL
from refusal_eval.tools.audit.audit_items import DISAGREE, STRATA, UNJUDGED, Item

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
