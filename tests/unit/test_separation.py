"""Separation: the indices against scikit-learn and by hand, and what intervals and permutations say."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.metrics import calinski_harabasz_score, davies_bouldin_score, silhouette_score

from refusal_eval.core.errors import UserError
from refusal_eval.features.separation.model_differences import index_differences
from refusal_eval.features.separation.separation import (
    INDICES,
    LayerSeparation,
    cluster_folds,
    indices,
    over_layers,
    permuted,
    separation,
)


def two_groups(ones=12, others=9, shift=2.0, seed=0, width=6):
    rng = np.random.default_rng(seed)
    states = rng.standard_normal((ones + others, width)) + 50.0  # far from the origin, as residual streams are
    positive = np.arange(ones + others) < ones
    states[positive] += shift / np.sqrt(width)
    return states, positive


def all_apart(count):
    return np.arange(count)


def folds_of(positive):
    return cluster_folds(all_apart(len(positive)), positive, 0)


def observed(states, positive, folds=None):
    folds = folds_of(positive) if folds is None else folds
    return indices(LayerSeparation.of(states), positive, np.ones(len(positive)), folds)


def test_the_indices_that_scikit_learn_has_are_the_same_from_inner_products():
    states, positive = two_groups()
    found = indices(LayerSeparation.of(states), positive, np.ones(21), folds_of(positive))
    assert found["davies_bouldin"] == pytest.approx(davies_bouldin_score(states, positive), rel=1e-9)
    assert found["calinski_harabasz"] == pytest.approx(calinski_harabasz_score(states, positive), rel=1e-9)
    assert found["silhouette"] == pytest.approx(silhouette_score(states, positive), rel=1e-9)


def test_dunn_and_xie_beni_are_their_formulas():
    states, positive = two_groups()
    one, other = states[positive], states[~positive]
    found = observed(states, positive)
    widest = max(cdist(one, one).max(), cdist(other, other).max())
    assert found["dunn"] == pytest.approx(cdist(one, other).min() / widest, rel=1e-6)
    within = sum(((side - side.mean(0)) ** 2).sum() for side in (one, other))
    gap = ((one.mean(0) - other.mean(0)) ** 2).sum()
    assert found["xie_beni"] == pytest.approx(within / (21 * gap), rel=1e-9)


def test_calinski_harabasz_and_xie_beni_of_two_groups_are_one_number():
    states, positive = two_groups()
    found = observed(states, positive)
    assert found["calinski_harabasz"] * found["xie_beni"] == pytest.approx(12 * 9 * 19 / 21**2, rel=1e-12)


def test_the_area_is_cross_fitted():
    states, positive = two_groups(shift=1.0)
    folds = folds_of(positive)
    right = pairs = 0.0
    for fold in range(5):
        rest, inside = folds != fold, folds == fold
        direction = states[rest & positive].mean(0) - states[rest & ~positive].mean(0)
        for one in states[inside & positive]:
            for other in states[inside & ~positive]:
                right += (one - other) @ direction > 0
                pairs += 1
    assert observed(states, positive, folds)["auc"] == pytest.approx(right / pairs, abs=1e-12)


def test_weights_are_copies_for_what_means_and_spreads_say():
    states, positive = two_groups()
    weights = np.array([1.0, 2.0, 3.0] * 7)
    copied = np.repeat(np.arange(21), weights.astype(int))
    weighted = indices(LayerSeparation.of(states), positive, weights, folds_of(positive))
    found = indices(LayerSeparation.of(states[copied]), positive[copied], np.ones(42), folds_of(positive)[copied])
    for name in ("davies_bouldin", "calinski_harabasz", "xie_beni", "dunn", "auc"):
        assert weighted[name] == pytest.approx(found[name], rel=1e-9), name


def test_a_prompt_that_is_drawn_twice_is_not_its_own_neighbour():
    states, positive = two_groups(shift=0.0)
    plain = indices(LayerSeparation.of(states), positive, np.ones(21), folds_of(positive))["silhouette"]
    twice = indices(LayerSeparation.of(states), positive, np.full(21, 2.0), folds_of(positive))["silhouette"]
    assert twice == pytest.approx(plain, rel=1e-9)


def test_groups_further_apart_are_more_separate_by_every_index():
    near, far = (observed(states, positive) for states, positive in (two_groups(30, 30, shift) for shift in (1.0, 6.0)))
    for name in ("calinski_harabasz", "silhouette", "dunn", "auc"):
        assert far[name] > near[name], name
    for name in ("davies_bouldin", "xie_beni"):
        assert far[name] < near[name], name


def test_labels_that_mean_nothing_are_reported_by_the_permutations():
    states, positive = two_groups(20, 20, shift=0.0, seed=3)
    rows = {row["index"]: row for row in separation(states, positive, [str(i) for i in range(40)], 99, 0)}
    assert set(rows) == set(INDICES) and min(row["p"] for row in rows.values()) > 0.05
    states, positive = two_groups(20, 20, shift=4.0, seed=3)
    rows = {row["index"]: row for row in separation(states, positive, [str(i) for i in range(40)], 99, 0)}
    assert rows["auc"]["p"] == rows["xie_beni"]["p"] == 0.01
    assert rows["auc"]["null"] == pytest.approx(0.5, abs=0.1)
    for name, row in rows.items():
        assert (row["low"] < row["value"] < row["high"]) or name in ("dunn", "auc"), row
    assert np.isnan(rows["dunn"]["low"])


@pytest.mark.parametrize("seed", range(4))
def test_few_clusters_have_no_smaller_p_than_their_labellings_allow(seed):
    """Of 20 ways to choose 3 of 6 clusters the labels themselves are two, as the groups' names do not count."""
    states, positive = two_groups(3, 3, shift=8.0, seed=seed, width=40)
    found = {row["index"]: row["p"] for row in separation(states, positive, list("abcdef"), 400, 0)}
    for name in ("davies_bouldin", "calinski_harabasz", "xie_beni", "silhouette"):
        assert found[name] > 0.05, name


def test_two_pairs_have_no_interval_rather_than_none_at_all():
    states, positive = two_groups(2, 2)
    rows = {row["index"]: row for row in separation(states, positive, list("abab"), 200, 0)}
    assert rows["davies_bouldin"]["value"] > 0 and np.isnan(rows["davies_bouldin"]["low"])


def test_whole_clusters_change_places_and_pairs_are_shuffled_inside():
    codes = np.array([0, 0, 1, 1, 2, 2, 3, 3])
    positive = np.array([1, 1, 0, 0, 1, 0, 0, 1], dtype=bool)
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(50):
        labels = permuted(positive, codes, rng)
        assert labels.sum() == 4 and labels[0] == labels[1] != labels[2] == labels[3]
        assert labels[4] != labels[5] and labels[6] != labels[7]
        seen.add(tuple(labels))
    assert len(seen) == 8


def test_prompts_of_one_cluster_are_in_one_fold():
    codes = np.repeat(np.arange(15), 3)
    positive = np.repeat(np.arange(15) % 2 == 0, 3)
    folds = cluster_folds(codes, positive, 0)
    assert all(len(set(folds[codes == code])) == 1 for code in range(15))
    assert {int(fold) for fold in folds[positive]} == {int(fold) for fold in folds[~positive]} == set(range(5))


def test_groups_that_coincide_have_no_indices_and_small_ones_are_refused():
    states = np.tile(np.arange(4.0)[:, None], (2, 3))
    positive = np.arange(8) < 4
    found = observed(states, positive)
    assert np.isnan(found["davies_bouldin"]) and np.isnan(found["xie_beni"])
    with pytest.raises(UserError, match="separation needs two prompts in each group"):
        separation(states, np.arange(8) < 1, [str(i) for i in range(8)], 9, 0)


def test_an_interval_holds_the_value_where_there_are_more_dimensions_than_prompts():
    states, positive = two_groups(15, 15, shift=3.0, width=300)
    rows = {row["index"]: row for row in separation(states, positive, [str(i) for i in range(30)], 60, 0)}
    for name in ("davies_bouldin", "calinski_harabasz", "xie_beni", "silhouette", "auc"):
        assert rows[name]["low"] <= rows[name]["value"] <= rows[name]["high"], rows[name]


def test_p_over_layers_takes_account_of_how_many_there_are():
    rng = np.random.default_rng(0)
    small = 0
    for _ in range(100):
        noise = list(rng.standard_normal((20, 200)))
        p = over_layers(noise)
        alone = np.array([(layer >= layer[0]).mean() for layer in noise])
        assert (p >= alone - 1e-9).all() and p[np.argmin(alone)] == p.min()
        small += p.min() <= 0.05
    assert 0 <= small <= 12, "of 100 tables without any separation about five have a small one"
    noise[3][0] = 9.0
    assert over_layers(noise)[3] == pytest.approx(over_layers(noise).min()) and over_layers(noise)[3] < 0.2
    assert over_layers([noise[0]])[0] == pytest.approx((noise[0] >= noise[0][0]).mean())
    noise[5][0] = -np.inf  # an index that this layer does not have
    assert np.isnan(over_layers(noise)[5])


def test_layers_of_the_same_prompts_have_the_same_permutations():
    states = np.random.default_rng(1).standard_normal((20, 4))
    positive, clusters = np.arange(20) < 10, [str(number) for number in range(20)]
    rows = [separation(states * scale, positive, clusters, 20, 0) for scale in (1, 3)]
    for one, other in zip(*rows, strict=True):
        if one["index"] in ("silhouette", "auc"):  # they have no units
            np.testing.assert_allclose(one["apart"], other["apart"])


def by_weights(states, positive, weights):
    """Return Davies-Bouldin of prompts that count so often, from scikit-learn on copies of them."""
    copies = np.repeat(np.arange(len(weights)), weights.astype(int))
    return davies_bouldin_score(states[copies], positive[copies])


def test_a_difference_is_paired_over_the_same_draws_of_clusters():
    """Against scikit-learn on copies of the prompts that each draw holds."""
    (one, positive), (other, _) = two_groups(20, 16, 3.0), two_groups(20, 16, 2.0)
    clusters = [f"c{i // 2:02d}" for i in range(36)]
    found = index_differences(one, other, positive, clusters, 60, 7)["davies_bouldin"]
    rng, codes = np.random.default_rng(7), np.repeat(np.arange(18), 2)
    draws = [np.bincount(rng.integers(18, size=18), minlength=18)[codes] for _ in range(60)]
    values, moved = [], []
    for states in (one, other):
        values.append(davies_bouldin_score(states, positive))
        drawn = np.array([by_weights(states, positive, weights) for weights in draws])
        moved.append(drawn * values[-1] / np.median(drawn))
    difference = moved[0] - moved[1]
    low, middle, high = np.quantile(difference, [0.025, 0.5, 0.975])
    by_hand = values[0] - values[1]
    ends = (by_hand, by_hand - middle + low, by_hand - middle + high)
    assert (found.value, found.low, found.high) == pytest.approx(ends, rel=1e-6)


def test_models_that_hardly_differ_have_a_narrow_interval_around_nothing():
    """Much narrower than the interval of either, as both have the same prompts."""
    one, positive = two_groups(40, 40, 2.0)
    other = one + 0.02 * np.random.default_rng(3).standard_normal(one.shape)
    clusters = [str(i) for i in range(80)]
    found = index_differences(other, one, positive, clusters, 100, 0)["silhouette"]
    (alone,) = [row for row in separation(one, positive, clusters, 100, 0) if row["index"] == "silhouette"]
    assert found.low < 0 < found.high and found.high - found.low < 0.2 * (alone["high"] - alone["low"])
    same = index_differences(one, one, positive, clusters, 20, 0)
    assert all((number.value, number.low or 0, number.high or 0) == (0, 0, 0) for number in same.values())
