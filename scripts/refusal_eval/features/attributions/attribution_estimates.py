"""How well attributions find the words that are to be found, next to orders of words that look at no model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refusal_eval.features.attributions.focus_words import RULES
from refusal_eval.features.attributions.ranking import Hits, hits
from refusal_eval.features.attributions.word_rules import WORD_RULES, frequencies, unit_texts
from refusal_eval.stats.estimates.estimate import Estimate, NumberInterval, estimate_from, mean
from refusal_eval.stats.estimates.flags import derived_flags, few_flags
from refusal_eval.stats.estimates.intervals import Floats, cluster_wilson, effective_of, seed_of
from refusal_eval.stats.estimates.resampling import (
    WHOLE,
    cluster_codes,
    cluster_sums,
    resample_sums,
    resamples_for,
    whole,
    with_interval,
)

OWN = "attribution"
ORDERS = (OWN, *WORD_RULES)
MEASURES = tuple(f"{OWN}_{name}" for name in Hits._fields)
DIFFERENCES = tuple(f"{name}_difference" for name in MEASURES)


@dataclass(frozen=True)
class Ranked:
    """The prompts of one attribution that have words to be found, and a value for each of their words."""

    prompts: list[str]
    clusters: list[str]
    categories: list[str | None]
    # prompts x orders x measures, by the rule that says which words are to be found
    found: Mapping[str, Floats]

    def of(self, kept: Collection[int]) -> Ranked:
        """Return some of the prompts, by their places."""
        rows = sorted(kept)
        return Ranked(
            [self.prompts[row] for row in rows],
            [self.clusters[row] for row in rows],
            [self.categories[row] for row in rows],
            {rule: found[rows] for rule, found in self.found.items()},
        )


def ranked(rows: Sequence[Mapping[str, Any]], prompts: Mapping[str, Mapping[str, Any]]) -> Ranked:
    """Return what each order finds in each prompt that has a focus and a value for each word.

    A prompt in which no word matches the focus counts with 0 for all orders.

    Args:
        rows: of attributions/{name}.jsonl: all of them, as words are counted in all.
        prompts: of the split, by id.
    """
    units = [unit_texts(one["word"] for one in row["units"]) for row in rows]
    known = frequencies(units)
    there = [
        (row, own)
        for row, own in zip(rows, units, strict=True)
        if row["focus"] is not None and row["units"] and all(one["value"] is not None for one in row["units"])
    ]
    found = {rule: np.zeros((len(there), len(ORDERS), len(MEASURES))) for rule in RULES}
    for place, (row, own) in enumerate(there):
        orders = [[one["value"] for one in row["units"]], *(order(own, known) for order in WORD_RULES.values())]
        for rule, numbers in found.items():
            wanted = [one[rule] for one in row["units"]]
            numbers[place] = [hits(values, wanted) for values in orders]
    about = [prompts[row["prompt_id"]] for row, _ in there]
    return Ranked(
        [prompt["id"] for prompt in about],
        [prompt["cluster"] for prompt in about],
        [prompt["category"] for prompt in about],
        found,
    )


def attribution_estimates(
    own: Ranked, name: str, level: float, about: Mapping[str, Any], flags: tuple[str, ...] = ()
) -> Iterator[Estimate]:
    """Yield what each order finds, in all prompts and by category, and the difference to the best rule of words.

    Args:
        own: the prompts that count.
        name: of the attribution; with rule and order it is the parameter.
        about: what all rows have: `model`, `split`, and `judge`, `reading` and `samples` where verdicts choose prompts.
        flags: of the verdicts.
    """
    names = sorted({category for category in own.categories if category})
    for category in (None, *names) if len(own.prompts) else ():
        places = [place for place, one in enumerate(own.categories) if category in (None, one)]
        for rule in RULES:
            yield from _of_prompts(own.of(places), rule, name, level, {**about, "category": category}, flags)


def _of_prompts(
    own: Ranked, rule: str, name: str, level: float, about: Mapping[str, Any], flags: tuple[str, ...]
) -> Iterator[Estimate]:
    found = own.found[rule]
    sums = cluster_sums(cluster_codes(own.clusters), np.append(whole(found), np.ones_like(found[:, :1]), axis=1))
    groups = len(sums)
    # One draw for all orders: differences are of the same prompts.
    drawn = resample_sums(sums, seed_of(OWN, name), resamples_for(groups))
    drawn = drawn[:, :-1] / drawn[:, -1:] / WHOLE  # resamples x orders x measures
    values = [[mean(numbers) or 0.0 for numbers in found[:, order].T.tolist()] for order in range(len(ORDERS))]
    known = {
        **about,
        "n_prompts": len(own.prompts),
        "n_clusters": groups,
        "flags": derived_flags([flags], few_flags(effective_of(own.clusters))),
    }
    for place, measure in enumerate(MEASURES):
        for order, called in enumerate(ORDERS):
            number = with_interval(values[order][place], drawn[:, order, place], groups, level)
            if number.low is None and values[order][place] in (0, 1):
                number = _at_limit(values[order][place], own.clusters, level)
            yield estimate_from(measure, number, level, **known, parameter=parameter(name, rule, called))
        others = [values[order][place] for order in range(1, len(ORDERS))]
        best = 1 + others.index(max(others))
        # The best rule is chosen again in each resample: that it is the best of several is a part of the doubt.
        differences = drawn[:, 0, place] - drawn[:, 1:, place].max(axis=1)
        number = with_interval(values[0][place] - values[best][place], differences, groups, level)
        yield estimate_from(DIFFERENCES[place], number, level, **known, parameter=parameter(name, rule, ORDERS[best]))


def _at_limit(value: float, clusters: Sequence[str], level: float) -> NumberInterval:
    """Return the interval of a number that is 0, or 1, in every prompt, which no resample moves."""
    ends = cluster_wilson([value] * len(clusters), clusters, level)
    return NumberInterval(value, ends.low, ends.high, ends.method)


def parameter(name: str, rule: str, order: str) -> str:
    """Return the parameter of a row: attribution, rule for what is found, and by which order."""
    return f"{name}, {rule}, {order}"
