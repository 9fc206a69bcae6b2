"""Contrasts of prompts for one model: safe and unsafe ones that look alike, topics, languages."""

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from refusal_eval.stats.comparisons.paired import Paired, Panel, paired_differences
from refusal_eval.stats.estimates.estimate import Number
from refusal_eval.stats.estimates.intervals import Floats, cluster_wilson, effective_of
from refusal_eval.stats.estimates.pooled_rates import SplitRates, difference_part, rate_part
from refusal_eval.stats.estimates.resampling import WHOLE, cluster_sums, numbered
from refusal_eval.stats.estimates.units import independent_within

# What happens to the safe prompt of a pair, and to the unsafe one.
CELLS: Mapping[str, tuple[bool, bool]] = {
    "both_right": (False, True),
    "refuses_both": (True, True),
    "answers_both": (False, False),
    "both_wrong": (True, False),
}
GAP_METHOD = "variances recovered from the Wilson intervals of both rates, cluster-robust effective size"
TOPIC_PROMPTS = 2  # at least, of a topic and of the rest
LANGUAGE_PROMPTS = 5  # at least, of a language
MIN_TWINS = 10


def pair_shares(safe: SplitRates, unsafe: SplitRates, model: int, level: float) -> dict[str, Any] | None:
    """Return the four shares of pairs of one model, which sum to 1; None where the splits share no cluster.

    A pair is a cluster with prompts in both splits. With r the rate of refusals over the samples of a prompt (the mean
    where a cluster has several on a side), the share of `both_right` in a pair is (1 - r of the safe one) * r of the
    unsafe one, and so on: the probability that an answer to each, drawn independently, falls so. At K = 1 these are
    counts of pairs. An interval is no narrower than as many pairs of one answer each allow as the pairs have.

    Returns:
        `n_pairs`, the `n_prompts` with a rate that they have, and for each name of `CELLS` the share, `low` and `high`.
    """
    sides = (safe, unsafe)
    codes, groups = numbered([side.clusters for side in sides])
    means, prompts, answers = [], [], []
    for side, code in zip(sides, codes, strict=True):
        rates, known = side.rates[model], ~np.isnan(side.rates[model])
        sums = cluster_sums(code, np.stack([np.where(known, rates, 0.0), known, side.draws[model]], axis=1), groups)
        means.append(np.where(sums[:, 1] > 0, sums[:, 0] / np.maximum(sums[:, 1], 1), np.nan))
        prompts.append(sums[:, 1])
        answers.append(sums[:, 2])
    paired = np.isfinite(means).all(axis=0)
    count, draws = int(paired.sum()), int(np.min(answers, axis=0)[paired].sum())
    if not count:
        return None
    found: dict[str, Any] = {"n_pairs": count, "n_prompts": int(np.sum(prompts, axis=0)[paired].sum())}
    for name, refuses in CELLS.items():
        a, b = (own[paired] if refused else 1 - own[paired] for own, refused in zip(means, refuses, strict=True))
        values = np.clip(a * b, 0.0, 1.0)
        ends = cluster_wilson(values.tolist(), list(range(count)), level, draws)
        found[name] = {"share": math.fsum(values) / count, "low": ends.low, "high": ends.high}
    return found


def topics(rates: SplitRates, model: int, level: float) -> list[dict[str, Any]]:
    """Return each topic of a split (a category of it) for one model, sorted by name; none for a split without several.

    `topic`, `n_prompts`, `n_clusters`, `rate` with its interval, `rest` (the rate on the other topics), `difference`
    from it with its interval (variances recovered from both intervals), and `effective_clusters`, of the topic or of
    the rest, whichever has fewer.

    Where all prompts of a topic are one cluster, they are taken as independent, as for the rate of a category
    (`units.independent_within`), and counted as the one cluster that they are.
    """
    names = sorted({name for name in rates.categories if name})
    if len(names) < 2:
        return []
    values, draws = rates.rates[model], rates.draws[model]
    found = []
    for name in names:
        sides = [side & ~np.isnan(values) for side in (rates.categories == name, rates.categories != name)]
        if min(side.sum() for side in sides) < TOPIC_PROMPTS:
            continue
        mine, rest = sides
        units = independent_within(rates.clusters[mine].tolist(), rates.prompts[mine].tolist())
        topic = rate_part(values[mine], units, level, int(draws[mine].sum()))
        others = rate_part(values[rest], rates.clusters[rest].tolist(), level, int(draws[rest].sum()))
        found.append(
            {
                "topic": name,
                "n_prompts": int(mine.sum()),
                "n_clusters": len(set(rates.clusters[mine])),
                "effective_clusters": min(effective_of(rates.clusters[side]) for side in sides),
                "rate": topic._asdict(),
                "rest": others.value,
                "difference": difference_part(topic, others, 0.0, GAP_METHOD)._asdict(),
            }
        )
    return found


def spoken_in(languages: Mapping[str, Mapping[str, str | None]]) -> dict[str, list[str]]:
    """Return the languages of each split that at least five of its prompts are in; nothing unless there are several.

    Names out of columns and scripts are counted apart: both may be of one language.

    Args:
        languages: of each split, the language of each prompt.
    """
    counts = {split: Counter(lang for lang in own.values() if lang) for split, own in languages.items()}
    found = {split: sorted(lang for lang, n in own.items() if n >= LANGUAGE_PROMPTS) for split, own in counts.items()}
    every = {lang for own in found.values() for lang in own}
    scripts = {lang for lang in every if lang.endswith(" script")}
    return found if max(len(scripts), len(every - scripts)) > 1 else {}


def differences(
    rates: Floats,
    clusters: Sequence[str],
    languages: Sequence[str | None],
    level: float,
    name: str,
    draws: NDArray[np.int64] | None = None,
) -> list[dict[str, Any]]:
    """Return the difference in the rate of refusals between every two languages with at least five prompts each.

    Twins are clusters with prompts in both languages, such as translations. With ten of them or more the difference is
    that of the twins: the mean over them of the difference of their rates, with the interval and the test of a
    comparison of models. Else it is that of all prompts, which may differ in more than their language, without a test.

    Of two languages the one with more prompts is subtracted, of equally many the one that sorts first, whatever the
    rates are: so the sign means the same for all models and judges of a study.

    Returns:
        For each pair of languages `first` and `second`, which is subtracted; of both in this order `n_prompts` with a
        rate, their `n_clusters` and `rates`; `n_twins`, `paired`, `difference`, `p`; `n_compared` prompts behind the
        difference, and `n_compared_clusters`, the number that its interval rests on: of the twins, or of the language
        that has fewer.

    Args:
        rates: of each prompt, NaN where unknown.
        languages: of each prompt, None where unknown.
        name: decides the random draws.
        draws: answers behind each rate; without them intervals may be narrower than so many answers allow.
    """
    known, tongue, group = ~np.isnan(rates), np.array(languages, dtype=object), np.array(clusters, dtype=object)
    asked, rated = (Counter(lang for lang in own if lang is not None) for own in (tongue, tongue[known]))
    common = sorted((lang for lang, n in rated.items() if n >= LANGUAGE_PROMPTS), key=lambda lang: (-asked[lang], lang))
    return [
        _difference(
            rates, group, [known & (tongue == lang) for lang in (first, second)], (first, second), level, name, draws
        )
        for second, first in itertools.combinations(common, 2)
    ]


def _difference(
    rates: Floats,
    group: NDArray[Any],
    sides: Sequence[NDArray[np.bool_]],
    pair: tuple[str, str],
    level: float,
    name: str,
    draws: NDArray[np.int64] | None,
) -> dict[str, Any]:
    means = [_cluster_means(rates[side], group[side].tolist()) for side in sides]
    twins = sorted(set(means[0]) & set(means[1]))
    parts = [
        rate_part(rates[side], group[side].tolist(), level, None if draws is None else int(draws[side].sum()))
        for side in sides
    ]
    found: dict[str, Any] = {
        "first": pair[0],
        "second": pair[1],
        "n_prompts": [int(side.sum()) for side in sides],
        "n_clusters": [len(own) for own in means],
        "effective_clusters": [effective_of(group[side]) for side in sides],
        "rates": [part._asdict() for part in parts],
        "n_twins": len(twins),
    }
    if len(twins) < MIN_TWINS:
        found |= {"n_compared": sum(found["n_prompts"]), "n_compared_clusters": min(found["n_clusters"])}
        gap = difference_part(parts[0], parts[1], 0.0, GAP_METHOD)
        return found | {"paired": False, "difference": gap._asdict(), "p": None}
    both = np.array([[own[twin] for own in means] for twin in twins])
    denominators = [_denominator(group[side], None if draws is None else draws[side]) for side in sides]
    compared = _compared(both, denominators, [f"languages {name}", *pair], level)
    assert compared.difference is not None  # there are twins
    inside = np.isin(group, twins) & (sides[0] | sides[1])
    found |= {"n_compared": int(inside.sum()), "n_compared_clusters": len(twins)}
    gap = Number(compared.difference, compared.low, compared.high, compared.method)
    return found | {"paired": True, "difference": gap._asdict(), "p": compared.p}


def _denominator(group: NDArray[Any], draws: NDArray[np.int64] | None) -> int:
    """Return a common denominator of the mean rates of clusters; one that is too large to count with where unknown."""
    if draws is None:
        return 2 * int(WHOLE)
    return math.lcm(*draws.tolist()) * math.lcm(*Counter(group.tolist()).values())


def _compared(rates: Floats, denominators: Sequence[int], names: Sequence[str], level: float) -> Paired:
    """Return the difference of the rates of twins (a row each), as of two models."""
    number = len(rates)
    panel = Panel(
        units=pd.MultiIndex.from_product([[""], range(number), [0]]),
        clusters=np.arange(number),
        splits=np.zeros(number, dtype=np.intp),
        **dict.fromkeys(("rates", "lows", "highs", "votes"), rates),
        denominators=tuple(denominators),
    )
    return paired_differences(panel, [(0, 1)], names, level)[0]


def _cluster_means(rates: Floats, clusters: Sequence[str]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for rate, cluster in zip(rates.tolist(), clusters, strict=True):
        found.setdefault(cluster, []).append(rate)
    return {cluster: math.fsum(values) / len(values) for cluster, values in found.items()}
