"""Rates over splits of one expectation: equal weights, copies once, and the interval."""

import math
import random

import pytest
from estimate_rows import cell_of, single

from refusal_eval.estimates.near_duplicates import Place
from refusal_eval.estimates.pooled import pooled_rates
from refusal_eval.intervals import cluster_wilson, pooled_wilson


def cells(*of, **more):
    return [cell_of(single(*votes), split=split, expectation=e, **more)[:2] for split, e, votes in of]


def pooled(cells, duplicates=(), pool="refuse", reading="strict"):
    found = [e for e in pooled_rates(cells, set(duplicates), 0.95) if (e.pool, e.reading) == (pool, reading)]
    assert len(found) == 1
    return found[0]


def test_each_split_has_the_same_weight_whatever_its_size():
    found = pooled(cells(("a", "refuse", ["R"] * 10), ("b", "refuse", ["C"] * 90), ("c", "comply", ["R"] * 5)))
    assert (found.value, found.n_prompts, found.parameter, found.split) == (0.5, 100, "2 splits", None)
    assert found.low < 0.5 < found.high and found.samples == 1


def test_a_prompt_that_stands_in_two_splits_counts_once():
    own = cells(("a", "refuse", ["R", "C"]), ("b", "refuse", ["R", "C", "C", "C"]))
    found = pooled(own, [Place("b", "p000")])
    assert found.value == pytest.approx((0.5 + 0) / 2) and found.n_prompts == 5
    # A split of copies only is no part of the pool.
    found = pooled(own, [Place("a", "p000"), Place("a", "p001")])
    assert found.value == 0.25 and found.parameter == "1 split"


def test_pools_of_one_split_are_the_split():
    votes = ["RC", "CC", "PR", "CC", "CP"] * 8
    (own,) = cells(("a", "comply", votes))
    found = pooled([own], pool="comply", reading="broad")
    rate = own[0]["broad"]
    assert (found.value, found.low, found.high) == pytest.approx((rate["rate"], rate["low"], rate["high"]))


def test_splits_with_other_headline_readings_have_a_rate_of_their_own():
    votes = ["P"] * 4 + ["C"] * 4
    own = cells(("a", "refuse", votes), headline="strict") + cells(("b", "refuse", votes), headline="broad")
    assert pooled(own, reading="headline").value == 0.25
    assert {e.reading for e in pooled_rates(own[:1], set(), 0.95)} == {"strict", "broad"}


def test_marks_of_the_splits_stay_visible():
    few = pooled(cells(("a", "refuse", ["F"] * 3 + ["R"] * 3), ("b", "refuse", ["C"] * 6)))
    assert few.flags == ("unjudged", "few_clusters")
    assert pooled(cells(("a", "refuse", ["R"] * 40), ("b", "refuse", ["C"] * 6))).flags == ()
    assert pooled_rates(cells(("a", "refuse", ["F"] * 3)), set(), 0.95) == []


def test_with_one_split_the_interval_is_the_one_of_a_split():
    rng = random.Random(6)
    values = [rng.randrange(6) / 5 for _ in range(80)]
    names = [f"c{rng.randrange(30)}" for _ in values]
    for draws in (None, 400, 20):
        each = None if draws is None else [draws / 80] * 80
        assert pooled_wilson(values, names, ["s"] * 80, draws=each)[:4] == pytest.approx(
            cluster_wilson(values, names, draws=draws)[:4]
        )


def test_two_splits_by_hand():
    # p = (1/2 + 0) / 2; u of the four prompts of a = +-(1/2) / (2 * 4), so V = 8 / (8 - 2) * 4 / 256.
    found = pooled_wilson([1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], range(8), "aaaabbbb")
    # p (1 - p) / V = 9 of 8 prompts, by 4 clusters with a deviation: held back to 5 / (4 / 9 + 1 / 8).
    assert 0.25 * 0.75 / (8 / 6 * 4 / 256) == 9.0 and found.n_eff == pytest.approx(5 / (4 / 9 + 1 / 8))
    t, p, n = 2.446912, 0.25, found.n_eff  # t_6(0.975)
    centre, width = (p + t**2 / (2 * n)) / (1 + t**2 / n), 1 + t**2 / n
    half = t / width * math.sqrt(p * (1 - p) / n + t**2 / (4 * n**2))
    assert (found.low, found.high) == (pytest.approx(centre - half, abs=1e-6), pytest.approx(centre + half, abs=1e-6))


def test_what_differs_between_splits_is_no_uncertainty():
    values = [1.0] * 50 + [0.0] * 50
    one = pooled_wilson([*values, *values], range(200), ["a"] * 100 + ["b"] * 100)
    apart = pooled_wilson([*[0.9] * 100, *[0.1] * 100], range(200), ["a"] * 100 + ["b"] * 100)
    assert apart.high - apart.low < one.high - one.low


def test_a_cluster_in_two_splits_is_one_cluster():
    values = [1.0, 0.0] * 20
    splits = ["a"] * 20 + ["b"] * 20
    apart = pooled_wilson(values, range(40), splits)
    shared = pooled_wilson(values, [*range(20), *range(20)], splits)
    assert shared.n_clusters == 20 and shared.n_eff < 0.6 * apart.n_eff


def test_at_zero_the_smaller_split_decides():
    even = pooled_wilson([0.0] * 200, range(200), ["a"] * 100 + ["b"] * 100)
    assert even.high == pytest.approx(1 - 0.025 ** (1 / 200))
    uneven = pooled_wilson([0.0] * 200, range(200), ["a"] * 10 + ["b"] * 190)
    assert uneven.high > 4 * even.high and uneven.low == 0.0
    full = pooled_wilson([1.0] * 200, range(200), ["a"] * 10 + ["b"] * 190)
    assert (full.low, full.high) == (pytest.approx(1 - uneven.high), 1.0)


def test_without_more_clusters_than_splits_nothing_is_known_and_order_does_not_matter():
    assert pooled_wilson([0.0, 1.0], [1, 2], "ab")[:2] == (0.0, 1.0)
    rng = random.Random(8)
    rows = [(rng.random(), f"c{rng.randrange(9)}", rng.choice("abc"), rng.randrange(1, 6)) for _ in range(60)]
    found = set()
    for _ in range(10):
        rng.shuffle(rows)
        values, names, splits, draws = zip(*rows, strict=True)
        found.add(pooled_wilson(values, names, splits, draws=draws))
    assert len(found) == 1
    with pytest.raises(ValueError, match="splits"):
        pooled_wilson([0.1, 0.2], [1, 2], ["a"])
    with pytest.raises(ValueError, match="between 0 and 1"):
        pooled_wilson([1.1, 0.2, 0.1], [1, 2, 3], "aab")
