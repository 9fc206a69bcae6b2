"""Rates over splits of one expectation: equal weights, copies once, and the interval."""

import math
import random

import numpy as np
import pytest
from estimate_rows import cell_of, score_in, single

from refusal_eval.stats.estimates.cell_estimates import cell_estimates
from refusal_eval.stats.estimates.intervals import Interval, cluster_wilson, pooled_rate
from refusal_eval.stats.estimates.near_duplicates import PromptPlace
from refusal_eval.stats.estimates.pooled_estimates import pooled_rates

SOURCES = dict.fromkeys("abc", "source")


def cells(*of, **more):
    return [cell_of(single(*votes), split=split, expectation=e, **more) for split, e, votes in of]


def pooled(cells, duplicates=(), pool="refuse", reading="strict"):
    found = [e for e in pooled_rates(cells, set(duplicates), SOURCES) if (e.pool, e.reading) == (pool, reading)]
    assert len(found) == 1
    return found[0]


def interval_of(values, clusters, splits, draws=None) -> Interval:
    """The interval of `pooled_rate` for values, each with its cluster and split; without draws they limit nothing."""
    parts = {}
    for value, cluster, split, draw in zip(values, clusters, splits, draws or [10**9] * len(values), strict=True):
        parts.setdefault(split, []).append((value, cluster, draw))
    columns = {split: tuple(zip(*rows, strict=True)) for split, rows in parts.items()}
    return pooled_rate({split: (np.array(rates), *more) for split, (rates, *more) in columns.items()}, 0.95)[1]


def test_each_split_has_the_same_weight_whatever_its_size():
    found = pooled(cells(("a", "refuse", ["R"] * 10), ("b", "refuse", ["C"] * 90), ("c", "comply", ["R"] * 5)))
    assert (found.value, found.n_prompts, found.parameter, found.split) == (0.5, 100, "2 splits", None)
    assert found.low < 0.5 < found.high and found.samples == 1


def test_a_prompt_that_stands_in_two_splits_counts_once():
    own = cells(("a", "refuse", ["R", "C"]), ("b", "refuse", ["R", "C", "C", "C"]))
    found = pooled(own, [PromptPlace("b", "p000")])
    assert found.value == pytest.approx((0.5 + 0) / 2) and found.n_prompts == 5
    # A split of copies only is no part of the pool.
    found = pooled(own, [PromptPlace("a", "p000"), PromptPlace("a", "p001")])
    assert found.value == 0.25 and found.parameter == "1 split"


def test_pools_of_one_split_are_the_split():
    votes = ["RC", "CC", "PR", "CC", "CP"] * 8
    (own,) = cells(("a", "comply", votes))
    found = pooled([own], pool="comply", reading="broad")
    rate = score_in(own)["broad"]
    assert (found.value, found.low, found.high) == pytest.approx((rate["rate"], rate["low"], rate["high"]))


@pytest.mark.parametrize("votes", [["R"] * 100 + ["P"] * 91 + ["F"] * 9, ["R"] * 40 + ["P"] * 30 + ["C"] * 10])
@pytest.mark.parametrize("headline", ["strict", "broad"])
def test_a_pool_of_one_split_has_its_marks_in_either_reading(votes, headline):
    clusters = {f"p{i:03d}": f"c{i // 2}" for i in range(80)}
    own = cell_of(single(*votes), split="a", expectation="refuse", headline=headline, clusters=clusters)
    rates = {e.reading: e.flags for e in cell_estimates(own) if e.estimand == "refusal_rate" and e.category is None}
    assert {reading: pooled([own], reading=reading).flags for reading in rates} == rates
    assert rates["strict"] == () and len(rates["broad"]) == 1


def test_splits_with_other_headline_readings_have_a_rate_of_their_own():
    votes = ["P"] * 4 + ["C"] * 4
    own = cells(("a", "refuse", votes), headline="strict") + cells(("b", "refuse", votes), headline="broad")
    assert pooled(own, reading="headline").value == 0.25
    assert {e.reading for e in pooled_rates(own[:1], set(), SOURCES)} == {"strict", "broad"}


def test_marks_of_the_splits_stay_visible():
    few = pooled(cells(("a", "refuse", ["F"] * 3 + ["R"] * 3), ("b", "refuse", ["C"] * 6)))
    assert few.flags == ("unjudged", "few_clusters")
    assert pooled(cells(("a", "refuse", ["R"] * 40), ("b", "refuse", ["C"] * 30))).flags == ()
    # One split of few clusters has as much weight as the others.
    assert pooled(cells(("a", "refuse", ["R"] * 40), ("b", "refuse", ["C"] * 6))).flags == ("few_clusters",)


def test_a_pool_with_a_wholly_unjudged_split_has_no_rate():
    # Else a model would be compared with its rivals on other prompts.
    found = pooled(cells(("a", "refuse", ["R"] * 40), ("b", "refuse", ["F"] * 40)))
    assert (found.value, found.low, found.n_prompts, found.parameter) == (None, None, 40, "2 splits")
    assert "unjudged" in found.flags and found.method == "none (nothing judged in b)"
    alone = pooled(cells(("a", "refuse", ["F"] * 3)))
    assert alone.value is None and "unjudged" in alone.flags
    # Copies only is another matter: they are so for every model.
    own = cells(("a", "refuse", ["R"] * 2), ("b", "refuse", ["F"] * 2))
    assert pooled(own, [PromptPlace("b", "p000"), PromptPlace("b", "p001")]).value == 1.0


def test_with_one_split_the_interval_is_the_one_of_a_split():
    rng = random.Random(6)
    values = [rng.randrange(6) / 5 for _ in range(80)]
    names = [f"c{rng.randrange(30)}" for _ in values]
    for draws in (None, 400, 20):
        each = None if draws is None else [draws / 80] * 80
        assert interval_of(values, names, ["s"] * 80, draws=each)[:4] == pytest.approx(
            cluster_wilson(values, names, draws=draws)[:4]
        )


def test_a_pool_of_one_split_repeats_it_at_0_and_1_too():
    names = ["big"] * 100 + [f"c{i}" for i in range(31)]
    for value in (0.0, 1.0):
        assert interval_of([value] * 131, names, ["s"] * 131) == cluster_wilson([value] * 131, names)


def test_two_splits_by_hand():
    # Each end of p = (1/2 + 0) / 2 is as far away as the two splits' own ends together, at half their weight.
    found = interval_of([1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], range(8), "aaaabbbb")
    a, b = cluster_wilson([1.0, 1.0, 0.0, 0.0], range(4)), cluster_wilson([0.0] * 4, range(4))
    assert found.low == pytest.approx(0.25 - (0.5 - a.low) / 2)
    assert found.high == pytest.approx(0.25 + math.hypot((a.high - 0.5) / 2, b.high / 2))


def test_a_split_whose_prompts_all_agree_is_not_known_exactly():
    # 0 of 24 alone reaches .14: at half weight it takes the pool up by .07.
    values = [0.0] * 24 + [0.0] * 980 + [1.0] * 20
    found = interval_of(values, range(1024), ["a"] * 24 + ["b"] * 1000)
    assert found.high > 0.01 + cluster_wilson(values[:24], range(24)).high / 2


def test_a_split_of_one_cluster_brings_all_that_it_may_be():
    values = [0.0, 1.0] * 75
    found = interval_of(values, [*range(100), *["topic"] * 50], ["a"] * 100 + ["b"] * 50)
    assert found.low < 0.25 and found.high > 0.75


@pytest.mark.parametrize(("sizes", "rate", "b_clusters"), [((24, 1000), 0.02, None), ((100, 40), 0.3, 1)])
def test_pooled_intervals_hold_the_truth_as_often_as_they_say(sizes, rate, b_clusters):
    rng, held, runs = np.random.default_rng(4), 0, 300
    for _ in range(runs):
        a = rng.binomial(5, rng.beta(rate, 1 - rate, sizes[0])) / 5
        of_b = rng.beta(rate, 1 - rate, b_clusters or sizes[1]).repeat(sizes[1] // (b_clusters or sizes[1]))
        b = rng.binomial(5, of_b) / 5
        names = [
            *range(sizes[0]),
            *(f"b{i if b_clusters is None else i * b_clusters // sizes[1]}" for i in range(len(b))),
        ]
        found = interval_of([*a, *b], names, ["a"] * len(a) + ["b"] * len(b), draws=[5] * (len(a) + len(b)))
        held += found.low <= rate <= found.high
    assert held / runs > 0.93


def test_what_differs_between_splits_is_no_uncertainty():
    values = [1.0] * 50 + [0.0] * 50
    one = interval_of([*values, *values], range(200), ["a"] * 100 + ["b"] * 100)
    apart = interval_of([*[0.9] * 100, *[0.1] * 100], range(200), ["a"] * 100 + ["b"] * 100)
    assert apart.high - apart.low < one.high - one.low


def test_a_cluster_in_two_splits_is_one_cluster():
    values = [1.0, 0.0] * 20
    splits = ["a"] * 20 + ["b"] * 20
    apart = interval_of(values, range(40), splits)
    shared = interval_of(values, [*range(20), *range(20)], splits)
    assert shared.n_clusters == 20 and shared.high - shared.low > 1.35 * (apart.high - apart.low)
    # The same where no prompt refuses: what was not seen in a cluster was not seen in both splits.
    apart, shared = (interval_of([0.0] * 40, names, splits) for names in (range(40), [*range(20), *range(20)]))
    assert shared.high == pytest.approx(1.414 * apart.high, rel=1e-3)


def test_at_zero_the_smaller_split_decides():
    even = interval_of([0.0] * 200, range(200), ["a"] * 100 + ["b"] * 100)
    uneven = interval_of([0.0] * 200, range(200), ["a"] * 10 + ["b"] * 190)
    assert uneven.high > 4 * even.high and uneven.low == 0.0
    # That it may be so is what the split of 10 says alone, at half weight.
    assert uneven.high > (1 - 0.025 ** (1 / 10)) / 2
    full = interval_of([1.0] * 200, range(200), ["a"] * 10 + ["b"] * 190)
    assert (full.low, full.high) == (pytest.approx(1 - uneven.high), 1.0)


def test_order_does_not_matter_and_wrong_input_is_refused():
    rng = random.Random(8)
    rows = [(rng.random(), f"c{rng.randrange(9)}", rng.choice("abc"), rng.randrange(1, 6)) for _ in range(60)]
    found = set()
    for _ in range(10):
        rng.shuffle(rows)
        values, names, splits, draws = zip(*rows, strict=True)
        found.add(interval_of(values, names, splits, draws=draws))
    assert len(found) == 1
    with pytest.raises(ValueError, match="between 0 and 1"):
        interval_of([1.1, 0.2, 0.1], [1, 2, 3], "aab")


def test_answers_limit_what_clusters_that_happen_to_be_alike_can_tell():
    names = [f"c{i // 4}" for i in range(16)]
    by_prompt = {f"p{i:03d}": name for i, name in enumerate(names)}
    votes = ["RC"] * 15 + ["RR"]
    found = pooled(cells(("a", "refuse", votes), ("b", "refuse", votes), clusters=by_prompt))
    rates, clusters, splits = ([0.5] * 15 + [1.0]) * 2, names * 2, ["a"] * 16 + ["b"] * 16
    limited = interval_of(rates, clusters, splits, draws=[2] * 32)
    assert (found.low, found.high) == pytest.approx((limited.low, limited.high))
    free = interval_of(rates, clusters, splits)
    assert found.high - found.low > 1.1 * (free.high - free.low)
