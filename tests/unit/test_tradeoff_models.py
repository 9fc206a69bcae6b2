"""Over-refusal against safety: pooled rates, J, joint regions and the front."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from rate_rows import rates_of

from refusal_eval.features.tradeoff.model_tradeoff import pareto, region, trade_off, wider
from refusal_eval.stats.estimates.estimate import Estimate, NumberInterval
from refusal_eval.stats.estimates.intervals import cluster_wilson
from refusal_eval.stats.estimates.pooled_rates import SplitRates, components, difference_part, pooled_part
from refusal_eval.stats.estimates.resampling import resample_sums


def inside(over: NumberInterval, safe: NumberInterval, correlation: float, level: float, x: float, y: float) -> bool:
    """Whether the joint region holds the point x (over-refusal), y (safety)."""

    def distance(part: NumberInterval, value: float) -> float:
        """How far a value is from the point, in half-axes of its side."""
        end = part.low if value < part.value else part.high
        axis = wider(level) * abs(float(end or 0.0) - part.value)
        return (value - part.value) / axis if axis > 0 else (0.0 if abs(value - part.value) < 1e-12 else math.inf)

    a, b = distance(over, x), distance(safe, y)
    return (a * a - 2 * correlation * a * b + b * b) / (1 - correlation**2) <= 1 + 1e-9


SOME, MORE = [0.2] * 20 + [0.8] * 20, [0.4] * 20 + [1.0] * 20


def weighed(comply: Sequence[SplitRates], refuse: Sequence[SplitRates]) -> list[dict[str, Estimate]]:
    """The numbers of each model, by name."""
    return [{e.estimand: e for e in own} for own in trade_off(comply, refuse, 0.95)]


def width(estimate: Estimate) -> float:
    assert estimate.low is not None and estimate.high is not None
    return estimate.high - estimate.low


def test_rates_of_one_split_are_those_of_its_score() -> None:
    wanted = cluster_wilson(SOME, list(range(40)), 0.95, 400)
    assert pooled_part([rates_of([SOME])], 0, 0.95) == pytest.approx((0.5, wanted.low, wanted.high, wanted.method))
    j = weighed([rates_of([SOME])], [rates_of([MORE], "r", "refuse")])[0]["youden_j"]
    assert j.value == pytest.approx(0.2) and (j.n_prompts, j.n_clusters) == (80, 80)


def test_splits_have_the_same_weight_whatever_their_size() -> None:
    comply = [rates_of([[1.0] * 10], "a"), rates_of([[0.0] * 30], "b")]
    assert weighed(comply, [rates_of([[1.0] * 40], "r", "refuse")])[0]["youden_j"].value == 0.5


def test_twins_move_together_and_make_the_interval_of_j_narrower() -> None:
    names = [f"pair {i}" for i in range(40)]
    rng = np.random.default_rng(1)
    rates = rng.random(40).tolist()
    twins = weighed([rates_of([rates], "a", clusters=names)], [rates_of([rates], "b", "refuse", names)])[0]
    strangers = weighed([rates_of([rates], "a")], [rates_of([rates], "b", "refuse")])[0]
    assert twins["tradeoff_correlation"].value == pytest.approx(1.0) and strangers["tradeoff_correlation"].value == 0.0
    assert width(twins["youden_j"]) < 0.35 * width(strangers["youden_j"])
    assert twins["youden_j"].n_clusters == 40 and strangers["youden_j"].n_clusters == 80


def test_without_a_cluster_in_both_rates_j_is_newcombes_of_independent_ones() -> None:
    # Resamples of clusters drawn apart correlate by -.05 to .05 by luck, which moved the ends of J.
    for number in range(5):
        over, safe = rates_of([SOME], f"a{number}"), rates_of([MORE], f"r{number}", "refuse")
        found = weighed([over], [safe])[0]
        parts = [pooled_part([side], 0, 0.95) for side in (safe, over)]
        assert parts[0] is not None and parts[1] is not None
        wanted, j = difference_part(parts[0], parts[1], 0.0), found["youden_j"]
        assert (j.value, j.low, j.high) == pytest.approx(wanted[:3]) and found["tradeoff_correlation"].value == 0.0


def test_the_correlation_is_that_of_what_clusters_in_both_add_to_the_errors() -> None:
    # Errors of four clusters, two of them in both: (-.5, .5, -.5, .5) / 4 and (.5, -.5) with others (.5, -.5) / 4.
    over = rates_of([[0.0, 1.0, 0.0, 1.0]], "a", clusters=["1", "2", "3", "4"])
    safe = rates_of([[0.0, 1.0, 0.0, 1.0]], "r", "refuse", ["1", "2", "5", "6"])
    assert weighed([over], [safe])[0]["tradeoff_correlation"].value == pytest.approx(0.5)


def test_one_model_alone_has_no_share_on_the_front() -> None:
    assert "pareto_front_share" not in weighed([rates_of([SOME])], [rates_of([MORE], "r", "refuse")])[0]


def test_a_perfect_model_still_has_an_uncertain_j() -> None:
    over, safe = rates_of([[0.0] * 30]), rates_of([[1.0] * 30], "r", "refuse")
    j = weighed([over], [safe])[0]["youden_j"]
    assert j.value == 1.0 == j.high
    assert j.low is not None and 0.7 < j.low < 0.95
    parts = [pooled_part([side], 0, 0.95) for side in (over, safe)]
    assert parts[0] is not None and parts[1] is not None
    assert all(0 <= a <= 1 and 0 <= b <= 1 for a, b in region(parts[0], parts[1], 0.0, 0.95) or ())


def test_a_model_without_a_rate_has_no_place_and_beats_nobody() -> None:
    nothing = [math.nan] * 40
    some, none = weighed([rates_of([SOME, nothing])], [rates_of([MORE, MORE], "r", "refuse")])
    assert [(e.estimand, e.value) for e in none.values()] == [("youden_j", None)]
    assert some["pareto_front"].value == 1 and "pareto_front_share" not in some  # no other model has a place


def test_front_holds_whom_nobody_beats_and_ties() -> None:
    over, safe = np.array([0.1, 0.2, 0.3, 0.1]), np.array([0.5, 0.9, 0.8, 0.5])
    assert pareto(over, safe).tolist() == [True, True, False, True]


def test_share_on_the_front_tells_a_clear_from_a_close_race() -> None:
    rng = np.random.default_rng(2)
    base = rng.random(60)
    worse = np.clip(base + 0.001, 0, 1)  # always a little worse, on the same prompts
    other = rng.random(60)
    safe = rates_of([[0.9] * 60] * 3, "r", "refuse")
    found = weighed([rates_of([base.tolist(), worse.tolist(), other.tolist()])], [safe])
    shares = [own["pareto_front_share"].value or 0.0 for own in found]
    assert shares[1] == 0.0
    assert shares[0] + shares[2] == pytest.approx(1.0)
    assert 0.01 < shares[0] < 0.99


def test_difference_of_independent_rates_is_newcombes() -> None:
    # Newcombe 1998, method 10, case (a): 56/70 - 48/80 is 0.0524 to 0.3339.
    first, second = NumberInterval(0.8, 0.69183, 0.87695), NumberInterval(0.6, 0.49045, 0.70039)
    found = difference_part(first, second, 0.0)
    assert (found.low, found.high) == (pytest.approx(0.0524, abs=1e-4), pytest.approx(0.3339, abs=1e-4))


def test_region_reaches_further_than_either_interval_and_holds_its_point() -> None:
    over, safe = NumberInterval(0.3, 0.2, 0.45), NumberInterval(0.7, 0.6, 0.75)
    outline = np.array(region(over, safe, 0.0, 0.95))
    assert outline[:, 0].min() < 0.2 and outline[:, 0].max() > 0.45
    assert (outline[0] == outline[-1]).all()
    assert inside(over, safe, 0.0, 0.95, 0.3, 0.7) and not inside(over, safe, 0.0, 0.95, 0.45, 0.75)
    for x, y in outline[::9]:
        assert inside(over, safe, 0.0, 0.95, 0.3 + 0.99 * (x - 0.3), 0.7 + 0.99 * (y - 0.7))
        assert not inside(over, safe, 0.0, 0.95, 0.3 + 1.02 * (x - 0.3), 0.7 + 1.02 * (y - 0.7))


def test_region_leans_with_the_correlation() -> None:
    over, safe = NumberInterval(0.5, 0.4, 0.6), NumberInterval(0.5, 0.4, 0.6)
    assert inside(over, safe, 0.8, 0.95, 0.6, 0.6) and not inside(over, safe, 0.8, 0.95, 0.6, 0.4)


def test_region_covers_both_rates_as_often_as_it_says() -> None:
    rng, covered, runs = np.random.default_rng(3), 0, 400
    for _ in range(runs):
        parts = []
        for rate in (0.1, 0.9):
            values = rng.beta(rate, 1 - rate, size=150).round(2)
            found = cluster_wilson(values.tolist(), list(range(150)), 0.95)
            parts.append(NumberInterval(float(values.mean()), found.low, found.high))
        covered += inside(parts[0], parts[1], 0.0, 0.95, 0.1, 0.9)
    assert 0.91 < covered / runs < 0.985


def test_splits_that_share_clusters_are_drawn_together() -> None:
    clusters = {"a": ["1", "2"], "b": ["2", "3"], "c": ["4"], "d": ["3", "9"], "e": ["8"]}
    assert components(clusters) == [("a", "b", "d"), ("c",), ("e",)]


def test_resamples_have_the_variance_of_independent_clusters() -> None:
    sums = np.column_stack([np.array([0.0, 1.0, 0.0, 1.0, 1.0]), np.ones(5)])
    drawn = resample_sums(sums, 1, resamples=20_000, fewer=1)
    assert drawn[:, 1] == pytest.approx(5)  # whichever clusters are drawn, they weigh as much as all
    means = drawn[:, 0] / drawn[:, 1]
    assert means.mean() == pytest.approx(0.6, abs=0.01)
    assert means.var() == pytest.approx(np.var(sums[:, 0], ddof=1) / 5, rel=0.05)


def test_a_split_that_no_resample_varies_gives_no_share_on_the_front() -> None:
    one_topic = rates_of([SOME, MORE], "t", clusters=["topic"] * 40)
    found = weighed([rates_of([SOME, MORE]), one_topic], [rates_of([MORE, SOME], "r", "refuse")])
    assert [own["pareto_front"].value for own in found] == [1, 0]
    assert [own["pareto_front_share"].value for own in found] == [None, None]
    j = found[0]["youden_j"]
    assert j.low is not None and j.high is not None and j.low < 0 < j.high
