"""Intervals against hand-computed numbers and other libraries."""

import math
import random

import numpy as np
import pytest
from scipy import special
from statsmodels.stats.proportion import proportion_confint

from refusal_eval.stats.estimates.intervals import (
    cluster_wilson,
    cluster_wilson_between,
    cluster_wilson_of_counts,
    effective_number,
    effective_of,
    seed_of,
)


def test_independent_prompts() -> None:
    values = [1.0] * 3 + [0.0] * 7
    found = cluster_wilson(values, range(10))
    # V = 10/9 * (3 * 0.49 + 7 * 0.09) / 100 = 0.0233333; n_eff = 0.21 / V = 9; t_9(0.975) = 2.262157, squared 5.117354.
    assert found.n_eff == pytest.approx(9.0)
    centre, width = (0.3 + 5.117354 / 18) / (1 + 5.117354 / 9), 1 + 5.117354 / 9
    half = 2.262157 / width * math.sqrt(0.21 / 9 + 5.117354 / (4 * 81))
    assert (found.low, found.high) == (pytest.approx(centre - half, abs=1e-6), pytest.approx(centre + half, abs=1e-6))
    assert found.n_clusters == 10


def test_many_independent_prompts_give_wilsons_interval() -> None:
    values = [1.0] * 600 + [0.0] * 1400
    found = cluster_wilson(values, range(2000))
    low, high = proportion_confint(600, 2000, method="wilson")
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_clusters_of_twenty_that_answer_alike_are_two_observations() -> None:
    values = [1.0] * 20 + [0.0] * 20
    clustered = cluster_wilson(values, ["a"] * 20 + ["b"] * 20)
    # V = 2/1 * (10^2 + 10^2) / 40^2 = 0.25, n_eff = 0.25 / 0.25.
    assert clustered.n_eff == pytest.approx(1.0) and clustered.n_clusters == 2
    single = cluster_wilson(values, range(40))
    # V = 40/39 * (40 * 0.25) / 40^2, n_eff = 39.
    assert single.n_eff == pytest.approx(39.0)
    assert clustered.high - clustered.low > 0.9 > 0.4 > single.high - single.low


def test_clusters_that_are_alike_inside_and_out_cost_nothing() -> None:
    rng = random.Random(1)
    values = [float(rng.random() < 0.4) for _ in range(4000)]
    clusters = [i // 20 for i in range(4000)]
    found, plain = cluster_wilson(values, clusters), cluster_wilson(values, range(4000))
    assert 0.7 < found.n_eff / plain.n_eff < 1.4


@pytest.mark.parametrize("n", [2, 10, 60])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_at_zero_and_one_clopper_pearson(n: int, value: float) -> None:
    found = cluster_wilson([value] * n, range(n))
    low, high = proportion_confint(n * int(value), n, method="beta")
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))


def test_clopper_pearson_numbers() -> None:
    # 1 - 0.025^(1/10) = 0.308497 and 1 - 0.005^(1/10) = 0.411296.
    assert cluster_wilson([0.0] * 10, range(10), level=0.99).high == pytest.approx(0.411296, abs=1e-6)
    # Two hundred prompts in ten clusters know no more than ten prompts.
    assert cluster_wilson([0.0] * 200, [i // 20 for i in range(200)]).high == pytest.approx(0.308497, abs=1e-6)


def test_one_cluster_says_nothing() -> None:
    for values in ([0.0, 0.0], [0.3, 0.6], [1.0]):
        found = cluster_wilson(values, ["only"] * len(values))
        assert (found.low, found.high, found.n_eff, found.n_clusters) == (0.0, 1.0, None, 1)


def test_clusters_that_agree_at_another_rate_count_once_each() -> None:
    assert cluster_wilson([0.4] * 3, range(3)).n_eff == 3.0
    # 0.1 + 0.2 is not quite 0.3; such a difference is no variance.
    assert cluster_wilson([0.1 + 0.2, 0.3, 0.3], range(3)).n_eff == 3.0


def test_no_more_observations_than_answers() -> None:
    values = [0.4, 0.4, 0.4, 0.6]
    # p = 0.45, V = 4/3 * (3 * 0.05^2 + 0.15^2) / 16 = 0.0025, 0.2475 / 0.0025 = 99 from 20 answers to 4 prompts. V is
    # that of m = 0.03^2 / (3 * 0.05^4 + 0.15^4) = 1.714286 clusters; n_eff = (m + 1) / (m / 99 + 1 / 4), or of 20.
    assert cluster_wilson(values, range(4)).n_eff == pytest.approx(2.714286 / (1.714286 / 99 + 0.25), rel=1e-5)
    assert cluster_wilson(values, range(4), draws=20).n_eff == pytest.approx(
        2.714286 / (1.714286 / 20 + 0.25), rel=1e-5
    )


def test_samples_of_a_prompt_count_for_more_than_one_where_many_prompts_show_it() -> None:
    rng = np.random.default_rng(3)
    alike = cluster_wilson((rng.binomial(5, 0.5, size=400) / 5).tolist(), range(400), draws=2000)
    assert alike.n_eff > 1500  # of 2,000 answers that are independent
    # Two of a hundred prompts refuse once in five: nothing shows that the other 98 would not refuse as a whole.
    few = cluster_wilson([0.2, 0.2] + [0.0] * 98, range(100), draws=500)
    assert 100 < few.n_eff < 250 and few.high is not None and few.high > 0.02


def test_a_few_clusters_that_hold_all_refusals_tell_less_than_as_many_prompts() -> None:
    rates = [1.0] * 40 + [0.0] * 1960
    together = cluster_wilson(rates, [i // 20 for i in range(2000)])
    # All of a cluster or nothing is what one prompt would say: no heavier tails than 99 degrees of freedom allow for.
    p, n, t = 0.02, together.n_eff, 1.984217
    wilson = (p + t**2 / (2 * n) + t * math.sqrt(p * (1 - p) / n + t**2 / (4 * n**2))) / (1 + t**2 / n)
    assert together.n_eff == pytest.approx(99.0) and together.high == pytest.approx(wilson, abs=1e-6)
    uneven = [1.0] * 20 + ([1.0] + [0.0] * 19) * 20 + [0.0] * 1580
    found = cluster_wilson(uneven, [i // 20 for i in range(2000)])
    n = found.n_eff
    assert found.high > 1.02 * (p + t**2 / (2 * n) + t * math.sqrt(p * (1 - p) / n + t**2 / (4 * n**2))) / (
        1 + t**2 / n
    )


def test_repeating_an_answer_is_no_evidence() -> None:
    once = cluster_wilson([1.0, 0.0, 0.0, 1.0, 0.0], range(5), draws=5)
    again = cluster_wilson([1.0, 0.0, 0.0, 1.0, 0.0], range(5), draws=500)
    assert once == again


def test_intervals_do_not_depend_on_order() -> None:
    rng = random.Random(4)
    rows = [(rng.random(), f"c{rng.randrange(9)}") for _ in range(50)]
    found = set()
    for _ in range(20):
        rng.shuffle(rows)
        values, clusters = [value for value, _ in rows], [cluster for _, cluster in rows]
        found.add(cluster_wilson(values, clusters))
    assert len(found) == 1


def test_interval_holds_the_mean_inside_zero_and_one() -> None:
    rng = random.Random(9)
    for _ in range(300):
        values = [rng.randrange(6) / 5 for _ in range(rng.randrange(2, 30))]
        clusters = [rng.randrange(6) for _ in values]
        found = cluster_wilson(values, clusters)
        assert 0 <= found.low <= math.fsum(values) / len(values) + 1e-12
        assert math.fsum(values) / len(values) - 1e-12 <= found.high <= 1


def test_seeds_depend_on_every_name() -> None:
    assert seed_of("judge", "model", "split") == seed_of("judge", "model", "split")
    assert seed_of("ab", "c") != seed_of("a", "bc")
    assert 0 <= seed_of("x") < 2**63


def test_between_other_limits_it_is_the_interval_of_how_far_values_are_between_them() -> None:
    rates = [0.0, 0.2, 0.0, 1.0, 0.4, 0.0, 0.6, 0.0]
    names = ["a", "a", "b", "c", "d", "e", "f", "g"]
    found = cluster_wilson_between([2 * rate - 1 for rate in rates], names, (-1.0, 1.0))
    wanted = cluster_wilson(rates, names)
    assert found.low == pytest.approx(2 * wanted.low - 1) and found.high == pytest.approx(2 * wanted.high - 1)
    assert (found.n_eff, found.n_clusters) == (pytest.approx(wanted.n_eff), 7)
    # At a limit it is exact, and one cluster tells nothing.
    assert cluster_wilson_between([-1.0] * 10, range(10), (-1.0, 1.0))[:2] == (
        -1.0,
        pytest.approx(-1 + 2 * 0.308497, abs=1e-6),
    )
    assert cluster_wilson_between([-1.0, 0.5], ["a", "a"], (-1.0, 1.0))[:2] == (-1.0, 1.0)
    with pytest.raises(ValueError, match=r"between -1\.0 and 1\.0"):
        cluster_wilson_between([-1.2, 0.0], [1, 2], (-1.0, 1.0))


def test_rare_refusals_move_mean_c_as_far_as_their_rate_says() -> None:
    # The percentile bootstrap misses the truth in 12 of 100 studies.
    rng, held, runs = np.random.default_rng(11), 0, 400
    for _ in range(runs):
        refusals = rng.binomial(5, rng.beta(0.02, 0.98, 100))
        found = cluster_wilson_between((2 * refusals / 5 - 1).tolist(), range(100), (-1.0, 1.0))
        held += found.low <= -0.96 <= found.high
    assert held / runs > 0.93


def test_wrong_input_is_refused() -> None:
    for values, clusters, level, message in [
        ([], [], 0.95, "no values"),
        ([0.5], [], 0.95, "1 values but 0 clusters"),
        ([0.5, 0.5], [1, 2], 1.0, "level"),
        ([0.5, math.nan], [1, 2], 0.95, "finite"),
    ]:
        with pytest.raises(ValueError, match=message):
            cluster_wilson(values, clusters, level)
    with pytest.raises(ValueError, match="between 0 and 1"):
        cluster_wilson([1.2, 0.0], [1, 2])


@pytest.mark.parametrize("samples", [1, 5])
@pytest.mark.parametrize("rate", [0.02, 0.5, *(pytest.param(rate, marks=pytest.mark.full) for rate in (0.1, 0.9))])
def test_with_a_hundred_clusters_the_interval_holds_the_truth_as_often_as_it_says(rate: float, samples: int) -> None:
    # benchmarks/interval_coverage.py has the whole table; here two samples of a prompt correlate by .5.
    rng, held, studies = np.random.default_rng(int(100 * rate) + samples), 0, 1000
    for _ in range(studies):
        refusals = rng.binomial(samples, rng.beta(rate, 1 - rate, size=100))
        found = cluster_wilson((refusals / samples).tolist(), range(100), draws=100 * samples)
        held += found.low <= rate <= found.high
    assert 0.91 < held / studies < 0.985  # 92 to 98 %, give or take the error of 1,000 studies


@pytest.mark.parametrize("rate", [0.0, 0.01, 0.5, 1.0])
@pytest.mark.parametrize("samples", [1, 5])
def test_counts_of_clusters_give_the_interval_of_their_prompts(rate: float, samples: int) -> None:
    rng = np.random.default_rng(7)
    prompts = np.array([0, 1, 5, 12, 3, 7, 30, 0, 2, 9])
    refused = [rng.binomial(samples, rate, size=n) for n in prompts]
    refused[6][0] = max(refused[6][0], 1) if 0 < rate < 1 else refused[6][0]
    values = [float(found) / samples for own in refused for found in own]
    names = [name for name, n in enumerate(prompts) for _ in range(n)]
    wanted = cluster_wilson(values, names, draws=samples * len(values))
    hits = np.array([own.sum() for own in refused], dtype=float)
    found = cluster_wilson_of_counts(hits, samples * prompts.astype(float), len(values))
    assert found[:4] == pytest.approx(wanted[:4], rel=0.01) and found.method == wanted.method
    assert cluster_wilson_of_counts(np.array([3.0]), np.array([9.0]), 9)[:2] == (0, 1)
    with pytest.raises(ValueError, match="no values"):
        cluster_wilson_of_counts(np.zeros(2), np.zeros(2), 0)


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("size", [1, 2])
def test_nothing_has_a_lower_upper_end_than_no_refusal_at_all(size, level):
    rng = np.random.default_rng(size)
    clusters = [i // size for i in range(60)]
    none = cluster_wilson([0.0] * 60, clusters, level, 300).high
    for rate in rng.random(200) ** 3:
        rates = rng.binomial(5, rng.beta(rate * 3, (1 - rate) * 3, size=60)) / 5
        assert cluster_wilson(rates.tolist(), clusters, level, 300).high >= none - 1e-12


@pytest.mark.parametrize("size", [1, 2])
def test_a_refusal_more_never_lowers_the_upper_end_and_one_less_never_lifts_the_lower(size):
    clusters = [i // size for i in range(40)]
    highs, lows = [], []
    for refusals in range(40):
        rates = [0.2] * refusals + [0.0] * (40 - refusals)
        highs.append(cluster_wilson(rates, clusters, draws=200).high)
        lows.append(cluster_wilson([1 - rate for rate in rates], clusters, draws=200).low)
    assert (np.diff(highs) > -1e-12).all() and (np.diff(lows) < 1e-12).all()
    assert highs[0] == pytest.approx(highs[1]) == pytest.approx(1 - 0.025 ** (size / 40)) and highs[-1] > highs[0]


def test_a_few_clusters_of_which_one_or_two_refuse_are_not_taken_for_many():
    # 13 clusters of 20 prompts, correlation .4, K = 5 and a rate of .02: .87 of the intervals held it.
    rng, held = np.random.default_rng(5), 0
    clusters = np.repeat(np.arange(13), 20)[:250]
    for _ in range(400):
        of_clusters = np.clip(rng.beta(0.03, 1.47, size=13), 1e-9, 1 - 1e-9)[clusters]
        rates = rng.binomial(5, np.clip(rng.beta(of_clusters, 1 - of_clusters), 0, 1)) / 5
        found = cluster_wilson(rates.tolist(), clusters.tolist(), draws=1250)
        held += found.low <= 0.02 <= found.high
    assert held / 400 > 0.95


def test_the_effective_number_of_clusters() -> None:
    assert effective_number([5] * 12) == 12 and effective_number([]) == 0
    # 298^2 / (2 * 100^2 + 98)
    assert effective_number([100, 100, *[1] * 98]) == pytest.approx(88_804 / 20_098)
    assert effective_of(["a", "b", "a", "b"]) == 2


@pytest.mark.parametrize(("rate", "samples"), [(0.02, 5), (0.1, 1), (0.5, 5)])
@pytest.mark.parametrize("correlation", [pytest.param(0.3, marks=pytest.mark.full), 0.8])
def test_clusters_of_unequal_size_are_covered(rate: float, samples: int, correlation: float) -> None:
    """300 clusters of log-normal sizes, worth 85 of one size: 88 to 94 % before clusters were weighed."""
    rng = np.random.default_rng(11)
    sizes = np.maximum(1, np.round(3 * np.exp(1.2 * special.ndtri((np.arange(300) + 0.5) / 300)))).astype(int)
    codes, size, studies = np.repeat(np.arange(300), sizes), 1 / correlation - 1, 200
    held = 0
    for _ in range(studies):
        means = np.clip(rng.beta(rate * size, (1 - rate) * size, 300), 1e-9, 1 - 1e-9)[codes]
        values = rng.binomial(samples, rng.beta(means, 1 - means)) / samples
        found = cluster_wilson(values.tolist(), codes.tolist(), draws=samples * len(codes))
        held += found.low <= rate <= found.high
    assert held / studies > 0.915, "92 to 98 %, give or take the error of 200 studies"
