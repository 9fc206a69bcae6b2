"""The sign-flip test, McNemar's test and Holm's correction, against counting by hand."""

import itertools

import numpy as np
import pytest

from refusal_eval.stats.comparisons import sign_flips
from refusal_eval.stats.comparisons.corrections import correct_p_values, holm
from refusal_eval.stats.comparisons.sign_flips import sign_flip_p
from refusal_eval.stats.comparisons.study_comparisons import mcnemar


def by_enumeration(sums):
    """Return the share of all sign patterns with a total as extreme as that of `sums`."""
    patterns = itertools.product((1, -1), repeat=len(sums))
    totals = [abs(sum(s * x for s, x in zip(signs, sums, strict=True))) for signs in patterns]
    return sum(total >= abs(sum(sums)) for total in totals) / len(totals)


@pytest.mark.parametrize("seed", range(20))
def test_counting_gives_what_enumeration_gives(seed):
    sums = np.random.default_rng(seed).integers(-6, 7, size=10)
    p, test = sign_flip_p(sums, seed=0)
    assert test == "exact" and p == pytest.approx(by_enumeration(sums.tolist()), abs=1e-12)


def test_patterns_are_enumerated_where_totals_take_too_many_values(monkeypatch):
    monkeypatch.setattr(sign_flips, "MOST_STEPS", 0)
    sums = np.array([5, 3, -2, 7, 1, -1, 4])
    assert sign_flip_p(sums, seed=0) == (pytest.approx(by_enumeration(sums.tolist())), "exact")


def test_drawn_patterns_come_close_and_say_how_many_they_are(monkeypatch):
    sums = np.random.default_rng(1).integers(-3, 5, size=30)
    exact, _ = sign_flip_p(sums, seed=0)
    monkeypatch.setattr(sign_flips, "MOST_STEPS", 0)
    p, test = sign_flip_p(sums, seed=3)
    assert test in ("9999 draws", "99999 draws") and p == pytest.approx(exact, abs=0.01)
    assert sign_flip_p(sums, seed=3) == (p, test) and sign_flip_p(sums, seed=4)[0] != p


def test_a_drawn_p_value_is_never_zero_and_more_are_drawn_for_a_small_one(monkeypatch):
    monkeypatch.setattr(sign_flips, "MOST_STEPS", 0)
    assert sign_flip_p(np.ones(40, dtype=int), seed=0) == (1 / 1_000_000, "999999 draws")
    p, test = sign_flip_p(np.ones(15, dtype=int), seed=0)
    assert test == "999999 draws" and p == pytest.approx(2 * 0.5**15, rel=0.5)


def test_uneven_clusters_of_large_splits_give_p_values_that_large_families_need():
    """Without a common unit the totals are too many to be counted; p was never below 1e-5."""
    sums = np.random.default_rng(2).integers(1_000_000, 2_000_000, size=400)
    sums[::3] *= -1
    p, test = sign_flip_p(sums, seed=0)
    assert (test, p) == ("999999 draws", 1e-6)
    counted, test = sign_flip_p(sums // 10_000 * 10_000, seed=0)
    assert test == "exact" and counted < 1e-7


def test_one_sided_evidence_of_many_clusters_is_counted_beyond_what_draws_can_tell():
    p, test = sign_flip_p(np.ones(100, dtype=int), seed=0)
    assert test == "exact" and p == pytest.approx(2 * 0.5**100, rel=1e-9)
    assert 0 < sign_flip_p(np.ones(3000, dtype=int), seed=0)[0] < 1e-300


def test_no_difference_and_clusters_without_one():
    assert sign_flip_p(np.zeros(5, dtype=int), seed=0) == (1.0, "exact")
    assert sign_flip_p(np.array([], dtype=int), seed=0) == (1.0, "exact")
    assert sign_flip_p(np.array([2, -2]), seed=0)[0] == 1.0
    some = np.array([1, 2, 3, 2, 1, 1])
    assert sign_flip_p(np.append(some, [0, 0, 0]), 0) == sign_flip_p(some, 0)


def test_the_sign_and_the_unit_do_not_matter():
    sums = np.array([6, -3, 9, 12, 3])
    assert sign_flip_p(sums, 0) == sign_flip_p(-sums, 0) == sign_flip_p(sums // 3, 0) == sign_flip_p(sums * 1000, 0)


def test_rounding_does_not_turn_a_tie_into_a_difference():
    # 1/3 and 2/3 in nine digits: the totals 1/3 + 2/3 and 1 are the same, but for rounding.
    sums = np.array([333_333_333, 666_666_667, -999_999_999, 333_333_333])
    assert sign_flip_p(sums, 0, slack=4)[0] == by_enumeration([1, 2, -3, 1])


def test_mcnemar_by_hand():
    first = np.array([1, 1, 1, 1, 1, 0, 1, 0, np.nan, 1])
    second = np.array([0, 0, 0, 0, 0, 1, 1, 0, 1, np.nan])
    # 5 against 1 among 6: 2 * (C(6,0) + C(6,1)) / 64
    assert mcnemar(first, second) == (5, 1, pytest.approx(14 / 64))
    assert mcnemar(first, first)[2] == 1.0


def test_a_prompt_without_a_decision_of_one_side_is_in_no_test():
    nan = np.nan
    first, second = np.array([0, 0, 1, 1, nan, nan]), np.array([nan, 1, nan, 0, 1, 0])
    assert mcnemar(first, second)[:2] == (1, 1)


def test_mcnemar_is_the_sign_flip_test_of_one_answer_per_prompt():
    first, second = np.random.default_rng(0).integers(0, 2, size=(2, 40)).astype(float)
    assert mcnemar(first, second)[2] == pytest.approx(sign_flip_p((first - second).astype(int), 0)[0])


def test_a_mcnemar_p_that_no_computer_holds_is_the_smallest_and_not_0():
    ones, noughts = np.ones(1200), np.zeros(1200)
    for mid in (False, True):
        assert 0 < mcnemar(ones, noughts, mid)[2] < 1e-300


def test_mid_p_by_hand(monkeypatch):
    # 5 against 1 among 6: 2 * (C(6,0) + C(6,1) / 2) / 64
    sums = np.array([1, 1, 1, 1, 1, -1])
    assert sign_flip_p(sums, 0, mid=True) == (pytest.approx(8 / 64), "mid-p")
    assert mcnemar((sums > 0).astype(float), (sums < 0).astype(float), mid=True)[2] == pytest.approx(8 / 64)
    uneven = np.array([5, 3, -2, 7, 1, -1, 4])
    counted = sign_flip_p(uneven, 0, mid=True)[0]
    monkeypatch.setattr(sign_flips, "MOST_STEPS", 0)
    assert sign_flip_p(uneven, 0, mid=True)[0] == pytest.approx(counted)
    assert (
        sign_flip_p(np.array([2, -2]), 0, mid=True)[0] == mcnemar(np.array([1, 0]), np.array([0, 1]), mid=True)[2] == 1
    )


def test_false_discovery_rates_by_hand():
    assert correct_p_values([0.01, 0.04, 0.03], "fdr_bh") == pytest.approx([0.03, 0.04, 0.04])
    harmonic = 1 + 1 / 2 + 1 / 3
    assert correct_p_values([0.01, 0.04, 0.03], "fdr_by") == pytest.approx(
        [0.03 * harmonic, 0.04 * harmonic, 0.04 * harmonic]
    )
    assert (
        correct_p_values([0.01, None], "fdr_bh") == [pytest.approx(0.02), None] and correct_p_values([], "fdr_bh") == []
    )


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_a_test_that_could_not_be_made_stays_one_of_its_family():
    assert holm([0.01, None, None]) == [pytest.approx(0.03), None, None]
