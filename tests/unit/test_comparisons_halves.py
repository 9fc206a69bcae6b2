"""Means over halves of the clusters: all of them counted, against enumeration, and drawn."""

import itertools

import numpy as np
import pytest

from refusal_eval.stats.comparisons.sign_flips import counted_ends, drawn_ends, sign_flip_p


def enumerated(totals, sizes, alpha):
    """The first mean from below, and from above, that more than alpha / 2 of all halves reach; the empty one does."""
    halves = np.array(list(itertools.product((0, 1), repeat=len(totals))))[1:]
    means = np.sort((halves @ totals) / (halves @ sizes))
    shares = np.arange(2, len(means) + 2) / 2 ** len(totals)
    place = int(np.argmax(shares > alpha / 2))
    return means[place], means[len(means) - 1 - place]


@pytest.mark.parametrize("seed", range(6))
def test_counting_is_going_through_all_halves(seed):
    rng = np.random.default_rng(seed)
    totals, sizes = rng.integers(-3, 6, size=11) * 2, rng.integers(1, 4, size=11) * 5
    assert counted_ends(totals, sizes, 0.05) == pytest.approx(enumerated(totals, sizes, 0.05))


@pytest.mark.parametrize("seed", range(40))
def test_nought_is_inside_just_where_the_test_does_not_reject_it(seed):
    rng = np.random.default_rng(seed)
    totals, sizes = rng.integers(-2, 4, size=14), np.ones(14, dtype=np.int64)
    low, high = counted_ends(totals, sizes, 0.05)
    p, _ = sign_flip_p(totals, 0)
    assert (low <= 0 <= high) == (p > 0.05)


def test_clusters_that_do_not_differ_are_counted_without_drawing():
    # 8 of 1,000: far more halves than could be gone through.
    totals, sizes = np.zeros(1000, dtype=np.int64), np.ones(1000, dtype=np.int64)
    totals[:8] = 5
    low, high = counted_ends(totals, sizes, 0.05)
    # A half holds at most one of the eight in 9 of 256: a mean of 5 in some 500 clusters; seven or more alike.
    assert 5 / 560 < low < 5 / 440 and 35 / 560 < high < 35 / 440


def test_too_many_sums_are_not_counted_and_many_draws_come_near():
    rng = np.random.default_rng(1)
    totals, sizes = rng.integers(-20, 40, size=20), rng.integers(1, 10, size=20)
    assert counted_ends(rng.integers(-10_000, 10_000, size=400), np.ones(400, dtype=np.int64), 0.05) is None
    wanted = counted_ends(totals, sizes, 0.05)
    (drawn,) = drawn_ends(totals[:, None].astype(float), sizes[:, None].astype(float), 1, 20_000, 0.05)
    assert wanted is not None and drawn == pytest.approx(wanted, abs=0.02 * (wanted[1] - wanted[0]))
