"""How much texts repeat each other: Self-BLEU and distinct-2.

Words are those of `data.text_units`, in lower case; a Chinese character is a word, punctuation is none.
"""

import itertools
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from refusal_eval.data.text_units import words

ORDERS = 4  # of the n-grams of BLEU
EPSILON = 0.1  # what stands in for no n-gram in common
TextWords = Sequence[str]
TextMeasure = Callable[[Sequence[TextWords]], float | None]


def words_in(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return [text[span.begin : span.end].lower() for span in words(text)]


def distinct_2(texts: Sequence[TextWords]) -> float | None:
    """Return the distinct pairs of adjacent words in texts divided by all such pairs; None where there is no pair.

    Distinct-2 (Li et al. 2016, arXiv 1510.03055), there divided by the number of words. It falls with the number of
    texts.
    """
    pairs = [pair for text in texts for pair in itertools.pairwise(text)]
    return len(set(pairs)) / len(pairs) if pairs else None


def self_bleu(texts: Sequence[TextWords]) -> float | None:
    """Return the mean BLEU of each text with all others as references, 0 to 1; None of fewer than two texts.

    Self-BLEU (Zhu et al. 2018, arXiv 1802.01886), of BLEU-4 (Papineni et al. 2002): the geometric mean of the
    precisions of 1- to 4-grams, each n-gram counted at most as often as the one reference has it that has it most,
    times exp(1 - r / c) for a text of c words that is shorter than the reference closest in length, r words. A
    precision without a match is EPSILON over the number of n-grams (Chen & Cherry 2014, method 1, as there), a text
    without a word in common with another has 0. High where texts are alike. It rises with the number of texts.
    """
    if len(texts) < 2:
        return None
    lengths = sorted(map(len, texts))
    matches = list(zip(*(_matches(texts, order) for order in range(1, ORDERS + 1)), strict=True))
    scores = [_bleu(text, own, _closest(lengths, len(text))) for text, own in zip(texts, matches, strict=True)]
    return math.fsum(scores) / len(scores)


def at_size(measure: TextMeasure, texts: Sequence[TextWords], size: int, draws: int, seed: int) -> float | None:
    """Return the mean of a measure over random subsets of so many texts; the measure itself where there are no more."""
    if size >= len(texts):
        return measure(texts) if size == len(texts) else None
    rng = np.random.default_rng(seed)
    drawn = [rng.choice(len(texts), size, replace=False) for _ in range(draws)]
    found = [measure([texts[place] for place in sorted(places.tolist())]) for places in drawn]
    known = [value for value in found if value is not None]
    return math.fsum(known) / len(known) if known else None


def _grams(text: TextWords, order: int) -> Iterator[tuple[str, ...]]:
    return zip(*(text[place:] for place in range(order)), strict=False)


def _matches(texts: Sequence[TextWords], order: int) -> list[int]:
    """Return how many n-grams of each text another text has, each at most as often as the one that has it most."""
    counts = [Counter(_grams(text, order)) for text in texts]
    most: dict[tuple[str, ...], tuple[int, int, int]] = {}  # most often, in which text, and most often in others
    for place, own in enumerate(counts):
        for gram, count in own.items():
            first, where, second = most.get(gram, (0, -1, 0))
            most[gram] = (count, place, first) if count > first else (first, where, max(second, count))
    found = []
    for place, own in enumerate(counts):
        others = ((count, *most[gram]) for gram, count in own.items())
        found.append(sum(min(count, second if where == place else first) for count, first, where, second in others))
    return found


def _closest(lengths: Sequence[int], own: int) -> int:
    """Return the length closest to that of one of the texts among those of the others, the shorter of two."""
    place = bisect_left(lengths, own)
    others = [*lengths[max(0, place - 1) : place], *lengths[place + 1 : place + 2]]
    return min(others, key=lambda length: (abs(length - own), length))


def _bleu(text: TextWords, matches: Sequence[int], closest: int) -> float:
    if not matches[0]:
        return 0.0
    totals = [max(1, len(text) - order + 1) for order in range(1, ORDERS + 1)]
    precisions = [(match or EPSILON) / total for match, total in zip(matches, totals, strict=True)]
    shorter = 1.0 if len(text) > closest else math.exp(1 - closest / len(text))
    return shorter * math.exp(math.fsum(map(math.log, precisions)) / ORDERS)
