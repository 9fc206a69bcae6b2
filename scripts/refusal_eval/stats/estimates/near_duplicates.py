"""Prompts that occur in several splits, exactly or nearly, so that pooled numbers count them once.

Splits borrow from each other: JailbreakBench from AdvBench and HarmBench, many sets from XSTest. The rule, as published
beside the list (`RULE`), is made to leave out copies and never two prompts that ask for different things: contrast
pairs differ in one word, and forms such as "how do I make a ..." in little more.
"""

import functools
import itertools
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from refusal_eval.core.cluster_names import names_apart
from refusal_eval.core.texts import nfkc
from refusal_eval.stats.estimates.units import JudgedCell, Units

THRESHOLD = 0.7

RULE = (
    "A prompt's text is that of all its messages, after NFKC, case folding and without punctuation. Its features are "
    "its words without the commonest function words, and all pairs of consecutive ones. A frame, such as a jailbreak, "
    "examples or a system prompt, does not count where both prompts have it: features that stand in more than a third "
    "of the prompts of both splits, and in five or more, and passages of eight words or more that stand in three "
    "clusters or more of both splits. Prompts of two splits "
    "with the same expectation are near-duplicates if their texts are equal, or if they are in different clusters and "
    "the Jaccard similarity of their features reaches the threshold; both must hold the same numbers, negations, "
    "characters of scripts without spaces, in their order, and "
    "signs such as `+`, `<` and, between numbers, `*` and `/`. Dashes do not count. Clusters of different sources are "
    "different. Splits are taken in alphabetical order: a prompt that is a near-duplicate of a prompt that counts, in "
    "an earlier split, is left out and joins the group of the most similar one. Prompts of one split are never "
    "merged. If only some splits are pooled, the rule is applied to these alone."
)

# Function words and the words of asking. A word that changes what is asked for (to, from, for, with, without, my,
# you, not) is none of them.
_ASIDE = """
    a an the is are was were be been being do does did can could would should will shall may might must i me and or of
    in on at that this these those it its as by please kindly tell give write how what which who when where why there
    here so just some any if then than into about
"""
_NEGATIONS = "no not never without nor none cannot cant dont doesnt isnt arent wont shouldnt against"
STOP_WORDS, NEGATIONS = frozenset(_ASIDE.split()), frozenset(_NEGATIONS.split())

# "don't" is one word; and a variation selector says how an emoji is drawn.
_NO_LETTERS = re.compile(r"['\u2019\u02bc\ufe00-\ufe0f]")
_ONE_SIGN = str.maketrans({"\xd7": "*", "\xf7": "/"})
# With the end of what it stands behind, as order matters. A hyphen is as often one of a range, a date or a word; a star
# or a stroke that is no bullet, no emphasis and no date stands between numbers.
_SIGNS = re.compile(r"\w?\s{0,3}[+<>=^%\xb1\u2260\u2264\u2265]|\d\s{0,3}\*(?=\s{0,3}\d)|\d\s{1,3}/(?=\s{1,3}\d)")
_UNSPACED = r"\u0e00-\u0e7f\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
# A script without spaces: its characters are the words, runs of other letters stay whole.
_PART = re.compile(rf"[{_UNSPACED}]|[^{_UNSPACED}]+")
_UNSPACED_CHARACTER = re.compile(rf"[{_UNSPACED}]")
PASSAGE_WORDS, PASSAGE_CLUSTERS = 8, 3


class PromptText(NamedTuple):
    """Compared parts of a prompt: `words` in order, `features`, and `marks`, which duplicates share exactly."""

    words: tuple[str, ...]
    features: frozenset[str]
    marks: frozenset[str]


class PromptPlace(NamedTuple):
    """A prompt of a split."""

    split: str
    prompt_id: str


Passage = tuple[str, ...]  # words that follow each other
NearPair = tuple[PromptPlace, PromptPlace]  # near-duplicates, the one of the earlier split first


def text_of(prompt: Mapping[str, Any]) -> PromptText:
    """Return what is compared of a prompt, the text of all its messages."""
    text = "\n".join(message["content"] for message in prompt["messages"])
    folded = nfkc(nfkc(text).casefold())
    words = tuple(_words(_NO_LETTERS.sub("", folded)))
    features = {feature for feature, _ in _features(words)}
    marks = {word for word in words if word in NEGATIONS or any(c.isdigit() for c in word)}
    signs = "".join(_SIGNS.findall(folded.translate(_ONE_SIGN)))
    # One character may change what is asked for, or be a negation, and the words of such a script are not known here.
    unspaced = "".join(word for word in words if _UNSPACED_CHARACTER.fullmatch(word))
    return PromptText(words, frozenset(features), frozenset({*marks, "".join(signs.split()), unspaced}))


def _features(words: Sequence[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield each feature with the places of its words."""
    content = [place for place, word in enumerate(words) if word not in STOP_WORDS] or range(len(words))
    for place in content:
        yield words[place], (place,)
    for one, two in itertools.pairwise(content):
        yield f"{words[one]} {words[two]}", (one, two)


def similarity(one: PromptText, two: PromptText, frame: frozenset[str] = frozenset()) -> float:
    """Return the Jaccard similarity of two texts' features, without those of a frame that both have, from 0 to 1."""
    both = one.features & two.features
    union = len((one.features | two.features) - (both & frame))
    return len(both - frame) / union if union else float(bool(both))


def near_pairs(
    prompts: Mapping[str, Sequence[Mapping[str, Any]]],
    expectations: Mapping[str, str],
    sources: Mapping[str, str],
    threshold: float = THRESHOLD,
) -> dict[NearPair, float]:
    """Return all pairs of near-duplicates, sorted, the prompt of the earlier split first, with their similarity.

    It is infinite where the words of both texts are equal.

    Args:
        expectations: the expectation of each split; splits with different ones are never compared.
        sources: a word for the source of each split; clusters of different sources are different.
        threshold: least similarity of near-duplicates, above 0.
    """
    found: dict[NearPair, float] = {}
    for expectation in sorted(set(expectations.values())):
        of_these = sorted(split for split in prompts if expectations[split] == expectation)
        if len(of_these) > 1:
            found |= _pairs({split: prompts[split] for split in of_these}, sources, threshold)
    return dict(sorted(found.items()))


def copies(pairs: Iterable[NearPair]) -> dict[PromptPlace, list[PromptPlace]]:
    """Return the prompts that do not count, each with those of earlier splits that count and that it is near to.

    Splits are taken in alphabetical order. So what does not count depends on the splits: of some splits only, it
    follows from the pairs within these. Of each pair the prompt of the earlier split comes first.
    """
    before: dict[PromptPlace, list[PromptPlace]] = defaultdict(list)
    for first, second in pairs:
        before[second].append(first)
    found: dict[PromptPlace, list[PromptPlace]] = {}
    for place in sorted(before):
        counting = [other for other in before[place] if other not in found]
        if counting:
            found[place] = counting
    return found


def duplicate_groups(pairs: Mapping[NearPair, float]) -> list[list[PromptPlace]]:
    """Return the groups of `near_pairs`, sorted; of each group the first place counts and the others do not.

    A prompt joins the group of an equal one, else of the most similar one.
    """
    groups: dict[PromptPlace, list[PromptPlace]] = defaultdict(list)
    for place, counting in copies(pairs).items():
        kept = min(counting, key=lambda other: (-pairs[other, place], other))
        groups[kept].append(place)
    return sorted([kept, *sorted(others)] for kept, others in groups.items())


def without_duplicates(units: Mapping[JudgedCell, Units], left_out: Collection[PromptPlace]) -> dict[JudgedCell, Units]:
    """Return the cells without the prompts that pooled numbers leave out, and none that has no others."""
    found = {}
    for (judge, model, split), own in units.items():
        counts = np.array([(split, prompt) not in left_out for prompt in own["prompt_id"]], dtype=bool)
        if counts.any():
            found[judge, model, split] = own if counts.all() else own.select(counts)
    return found


def _pairs(
    prompts: Mapping[str, Sequence[Mapping[str, Any]]], sources: Mapping[str, str], threshold: float
) -> dict[NearPair, float]:
    names = names_apart({split: [row["cluster"] for row in rows] for split, rows in prompts.items()}, sources)
    rows_of = {PromptPlace(split, row["id"]): row for split in sorted(prompts) for row in prompts[split]}
    texts = {place: text_of(row) for place, row in rows_of.items()}
    clusters = {place: names[place.split][row["cluster"]] for place, row in rows_of.items()}
    rarest = _rarest(texts, threshold)
    index: dict[str, list[PromptPlace]] = defaultdict(list)
    found: dict[NearPair, float] = {}
    for _, group in itertools.groupby(rows_of, key=lambda place: place.split):
        places = list(group)
        for place in places:
            for other in {other for feature in rarest[place] for other in index.get(feature, ())}:
                one, two = texts[other], texts[place]
                if one.marks != two.marks:
                    continue
                apart = clusters[other] != clusters[place]
                near = math.inf if one.words == two.words else similarity(one, two) if apart else 0.0
                if near >= threshold:
                    found[other, place] = near
        for place in places:  # only now: prompts of one split are not compared
            for feature in rarest[place]:
                index[feature].append(place)
    frames = {split: _frame([texts[place] for place in texts if place.split == split]) for split in prompts}
    # Similarities become less, so that the index has found all, and what is below the threshold stays there.
    for pair in [pair for pair, near in found.items() if near < math.inf]:
        if frame := frames[pair[0].split] & frames[pair[1].split]:
            found[pair] = similarity(texts[pair[0]], texts[pair[1]], frame)
    unequal = [pair for pair, near in found.items() if threshold <= near < math.inf]
    passages = _passages(texts, clusters, unequal)

    @functools.cache
    def framed(place: PromptPlace, other: str) -> frozenset[str]:
        return _frame_features(texts[place], passages[place.split] & passages[other])

    for first, second in unequal:
        if passage := framed(first, second.split) & framed(second, first.split):
            frame = passage | frames[first.split] & frames[second.split]
            found[first, second] = similarity(texts[first], texts[second], frame)
    return {pair: near for pair, near in found.items() if near >= threshold}


def _passages(
    texts: Mapping[PromptPlace, PromptText], clusters: Mapping[PromptPlace, str], pairs: Collection[NearPair]
) -> dict[str, set[Passage]]:
    """Return, for each split, the passages shared by pairs that occur in enough of its clusters."""
    runs = {place: frozenset(_runs(texts[place])) for place in {place for pair in pairs for place in pair}}
    wanted = {passage for one, two in pairs for passage in runs[one] & runs[two]}
    found: dict[str, dict[Passage, set[str]]] = defaultdict(lambda: defaultdict(set))
    for place, text in texts.items() if wanted else ():
        for passage in wanted.intersection(_runs(text)):
            found[place.split][passage].add(clusters[place])
    return defaultdict(
        set,
        {
            split: {passage for passage, those in of_split.items() if len(those) >= PASSAGE_CLUSTERS}
            for split, of_split in found.items()
        },
    )


def _runs(text: PromptText) -> Iterator[Passage]:
    """Yield all runs of `PASSAGE_WORDS` words."""
    return (text.words[first : first + PASSAGE_WORDS] for first in range(len(text.words) - PASSAGE_WORDS + 1))


def _frame_features(text: PromptText, passages: Collection[Passage]) -> frozenset[str]:
    """Return the features that occur only within these passages."""
    if not passages:
        return frozenset()
    starts = [first for first, run in enumerate(_runs(text)) if run in passages]
    inside = {place for first in starts for place in range(first, first + PASSAGE_WORDS)}
    outside = {feature for feature, places in _features(text.words) if not inside.issuperset(places)}
    return text.features - outside


def _frame(texts: Sequence[PromptText]) -> frozenset[str]:
    """Return the features that occur in so many prompts of a split that they do not characterize any."""
    counts = Counter(feature for text in texts for feature in text.features)
    return frozenset(feature for feature, count in counts.items() if count > max(4, len(texts) / 3))


def _rarest(texts: Mapping[PromptPlace, PromptText], threshold: float) -> dict[PromptPlace, list[str]]:
    """The features by which texts that can reach a similarity are found, without comparing all with all.

    Two sets whose Jaccard similarity reaches t share a feature among the n - ceil(t n) + 1 rarest of each, n being
    the size of the set ("prefix filtering", Chaudhuri, Ganti & Kaushik 2006).
    """
    counts = Counter(feature for text in texts.values() for feature in text.features)
    return {
        place: sorted(text.features, key=lambda feature: (counts[feature], feature))[
            : len(text.features) - math.ceil(threshold * len(text.features) - 1e-9) + 1
        ]
        for place, text in texts.items()
    }


def _words(text: str) -> Iterator[str]:
    for inside, characters in itertools.groupby(text, key=_in_word):
        if inside:
            yield from _PART.findall("".join(characters))


@functools.cache
def _in_word(character: str) -> bool:
    """Tell whether a character belongs to a word; combining marks do, being vowels or tones in many scripts."""
    return character.isalnum() or character == "_" or unicodedata.category(character).startswith("M")
