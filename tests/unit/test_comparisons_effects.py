"""Effect sizes and tests against a margin, beside computations of their own."""

import math

import numpy as np
import pandas as pd
import pytest
import scipy
from statsmodels.stats.proportion import proportion_effectsize

from refusal_eval.stats.comparisons.effects import effects
from refusal_eval.stats.comparisons.paired import PairedPanel


def panel(first, second, clusters=None, splits=None):
    """Return a panel of two columns; by default each prompt is a cluster of one split."""
    rates = np.column_stack([first, second]).astype(float)
    rows = np.arange(len(rates))
    return PairedPanel(
        units=pd.MultiIndex.from_product([["s"], rows, [0]]),
        clusters=rows if clusters is None else np.array(clusters),
        splits=np.zeros(len(rates), dtype=np.intp) if splits is None else np.array(splits),
        rates=rates,
        lows=rates,
        highs=rates,
        votes=rates,
        denominators=(1, 1),
    )


FIRST = [1] * 12 + [0] * 28
SECOND = [1] * 10 + [0] * 29 + [1]


@pytest.mark.parametrize("margin", [0.05, 0.1, 0.15, 0.2, 0.3])
def test_p_is_at_most_five_percent_where_the_ninety_percent_interval_lies_within_the_margin(margin):
    found = effects(panel(FIRST, SECOND), 0, 1, 0.95, margin)
    inside = -margin <= found.adjusted_low and found.adjusted_high <= margin
    assert (found.equivalence_p <= 0.05) == inside


def test_swapping_the_sides_swaps_the_tests_and_turns_the_effects_over():
    one, other = (effects(panel(FIRST, SECOND), *sides, 0.95, 0.1) for sides in ((0, 1), (1, 0)))
    assert (one.not_lower_p, one.not_higher_p) == (other.not_higher_p, other.not_lower_p)
    assert one.odds_ratio == pytest.approx(1 / other.odds_ratio) and one.cohens_h == pytest.approx(-other.cohens_h)


@pytest.mark.parametrize(("seed", "n", "splits"), [(10, 20, 1), (15, 7, 1), (20, 7, 2), (26, 41, 2)])
def test_tests_against_a_margin_have_the_same_digits_whichever_side_is_first(seed, n, splits):
    rates, rows = np.random.default_rng(seed).integers(0, 4, size=(2, n)) / 3, np.arange(n)
    both = panel(*rates, clusters=rows // 3, splits=rows % splits)
    one, other = (effects(both, *sides, 0.95, 0.1) for sides in ((0, 1), (1, 0)))
    assert (one.not_lower_p, one.not_higher_p) == (other.not_higher_p, other.not_lower_p)
    assert one.adjusted_difference == -other.adjusted_difference and one.equivalence_p == other.equivalence_p


def test_copies_of_a_prompt_in_one_cluster_are_no_further_evidence():
    once = effects(panel(FIRST, SECOND), 0, 1, 0.95, 0.2)
    clusters = np.repeat(np.arange(40), 5)
    five = effects(panel(np.repeat(FIRST, 5), np.repeat(SECOND, 5), clusters), 0, 1, 0.95, 0.2)
    assert five.odds_ratio_low == pytest.approx(once.odds_ratio_low)
    # The two added prompts weigh a fifth, no more.
    assert 0.8 < (five.adjusted_high - five.adjusted_low) / (once.adjusted_high - once.adjusted_low) < 1


def test_rates_of_zero_or_one_have_no_odds_ratio_and_few_prompts_show_no_equivalence():
    for n in (20, 49, 98):  # 49 times 1 / 49 is a little less than 1
        found = effects(panel([1] * n, [0] * (n - 1) + [1], splits=np.arange(n) // 49), 0, 1, 0.95, 0.05)
        assert found.odds_ratio is None and found.cohens_h > 2
    alike = [effects(panel([0] * n, [0] * n), 0, 1, 0.95, 0.05) for n in (20, 200)]
    assert alike[0].equivalence_p > 0.05 > alike[1].equivalence_p


def test_splits_have_the_same_weight_and_a_split_of_one_cluster_gives_no_interval():
    splits = [0] * 10 + [1] * 30
    found = effects(panel(FIRST, SECOND, splits=splits), 0, 1, 0.95, 0.2)
    rates = [(np.mean(side[:10]) + np.mean(side[10:])) / 2 for side in (FIRST, SECOND)]
    assert found.cohens_h == pytest.approx(proportion_effectsize(*rates))
    lonely = effects(panel(FIRST, SECOND, clusters=[0] * 10 + list(range(1, 31)), splits=splits), 0, 1, 0.95, 0.2)
    assert lonely.equivalence_p is None and lonely.odds_ratio_low is None and lonely.cohens_h == found.cohens_h


def test_prompts_without_a_rate_of_both_do_not_enter():
    nan = math.nan
    more = effects(panel([*FIRST, nan, 1], [*SECOND, 1, nan]), 0, 1, 0.95, 0.2)
    assert more == effects(panel(FIRST, SECOND), 0, 1, 0.95, 0.2)
    nothing = effects(panel([nan] * 3, [1] * 3), 0, 1, 0.95, 0.2)
    assert nothing.cohens_h is None and nothing.equivalence_p is None


TWO_LARGE = [100] * 2 + [1] * 98
FIVE_LARGE = [20] * 5 + [1] * 200


def made_up(sizes, rates, runs, correlation=0.3, seed=11):
    """Yield panels of two models with these rates, K = 5, whose clusters share part of what decides on a refusal."""
    rng, clusters = np.random.default_rng(seed), np.repeat(np.arange(len(sizes)), sizes)
    for _ in range(runs):
        of_cluster = rng.standard_normal((2, len(sizes)))[:, clusters]
        normal = np.sqrt(correlation) * of_cluster + np.sqrt(1 - correlation) * rng.standard_normal(of_cluster.shape)
        limits = scipy.stats.norm.ppf(rates) / np.sqrt(0.4)
        chances = scipy.stats.norm.cdf(limits[:, None] + np.sqrt(0.6 / 0.4) * normal)
        yield panel(*(rng.binomial(5, chances) / 5), clusters=clusters)


@pytest.mark.parametrize(("sizes", "rates", "margin"), [(TWO_LARGE, (0.2, 0.3), 0.1), (FIVE_LARGE, (0.02, 0.07), 0.05)])
def test_with_clusters_of_unequal_size_no_worse_is_rarely_claimed_of_what_is_worse(sizes, rates, margin):
    found = [effects(both, 0, 1, 0.95, margin) for both in made_up(sizes, rates, 400)]
    assert np.mean([one.not_lower_p <= 0.05 for one in found]) <= 0.075, "5 %, and two standard errors and a half"
    held = [one.adjusted_low <= rates[0] - rates[1] <= one.adjusted_high for one in found]
    assert np.mean(held) >= 0.87


def test_with_clusters_of_unequal_size_the_odds_ratios_interval_holds_the_true_one():
    found = [effects(both, 0, 1, 0.95) for both in made_up(TWO_LARGE, (0.2, 0.3), 300)]
    true = 0.2 / 0.8 / (0.3 / 0.7)
    assert np.mean([one.odds_ratio_low <= true <= one.odds_ratio_high for one in found]) >= 0.92


def test_a_side_with_the_rarer_outcome_in_few_clusters_makes_the_tests_rest_on_few():
    clusters = np.arange(200) // 2
    many, few = np.arange(200) % 2, (np.arange(200) < 18).astype(float)
    assert not effects(panel(many, many, clusters), 0, 1, 0.95, 0.1).few
    assert effects(panel(many, few, clusters), 0, 1, 0.95, 0.1).few
    assert effects(panel(many, 1 - few, clusters), 0, 1, 0.95, 0.1).few
    assert effects(panel(many, 0 * few, clusters), 0, 1, 0.95, 0.1).few, "no exact interval here, unlike for rates"
    assert not effects(panel(many, few), 0, 1, 0.95, 0.1).few, "single prompts"


def test_a_p_against_a_margin_that_no_computer_holds_is_the_smallest_and_not_0():
    """Thousands of prompts, each a cluster, of which either side refuses half."""
    rows = np.arange(8_000)
    found = effects(panel(rows % 2, rows // 2 % 2), 0, 1, 0.95, 0.5)
    assert 0 < found.equivalence_p < 1e-300
