"""How high the words that are to be found stand among the words of a prompt, by a value for each word.

Words of equal value are in any order with equal probability: each number is its expectation over these orders. So a
random order is the case in which all values are equal, in closed form: with G of N words to be found, top-1 and
R-precision are G / N, and top-3 is 1 - C(N - G, 3) / C(N, 3).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple


class Hits(NamedTuple):
    """What an order of words finds in one prompt; all 0 where there is no word to be found."""

    top1: float  # probability that the first word is one that is to be found
    top3: float  # that one of the first three is
    reciprocal_rank: float  # mean of 1 / rank of the first one
    r_precision: float  # share of such words among the first G


class _Tied(NamedTuple):
    """Words of one value: how many come before them, how many they are, and how many of these are to be found."""

    before: int
    size: int
    wanted: int


def hits(values: Sequence[float], wanted: Sequence[bool]) -> Hits:
    """Return what words in the order of their values, the greatest first, find.

    Args:
        values: one for each word.
        wanted: whether the word is to be found.
    """
    groups, count = _groups(values, wanted), sum(wanted)
    if not count:
        return Hits(0.0, 0.0, 0.0, 0.0)
    return Hits(_top(groups, 1), _top(groups, 3), _reciprocal_rank(groups), _found_in(groups, count) / count)


def mean_ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value, 1 for the greatest; equal values have the mean of their ranks."""
    return [sum(other > value for other in values) + (1 + values.count(value)) / 2 for value in list(values)]


def _groups(values: Sequence[float], wanted: Sequence[bool]) -> list[_Tied]:
    found, before = list[_Tied](), 0
    for value in sorted(set(values), reverse=True):
        own = [want for other, want in zip(values, wanted, strict=True) if other == value]
        found.append(_Tied(before, len(own), sum(own)))
        before += len(own)
    return found


def _top(groups: Sequence[_Tied], number: int) -> float:
    """Return the probability that one of the first `number` words is to be found."""
    for group in groups:
        left = number - group.before
        if left <= 0:
            break
        if group.wanted:
            drawn = min(left, group.size)
            return 1 - math.comb(group.size - group.wanted, drawn) / math.comb(group.size, drawn)
    return 0.0


def _reciprocal_rank(groups: Sequence[_Tied]) -> float:
    """Return the mean of 1 / rank of the first word that is to be found; it is in the first group that has one."""
    before, size, wanted = next(group for group in groups if group.wanted)
    orders = math.comb(size, wanted)
    # Its place in the group is `place` where the others that are to be found are among the words behind it.
    places = range(1, size - wanted + 2)
    return math.fsum(math.comb(size - place, wanted - 1) / orders / (before + place) for place in places)


def _found_in(groups: Sequence[_Tied], number: int) -> float:
    """Return the mean number of words to be found among the first `number`."""
    return math.fsum(group.wanted * min(group.size, max(0, number - group.before)) / group.size for group in groups)
