"""Parts of the variance: by hand, and on simulated data whose parts are known."""

import numpy as np
import pytest

from refusal_eval.stats.estimates import variance
from refusal_eval.stats.estimates.variance import decisions, moments, variance_estimates, variance_parts

R, P, C, B, NONE = 0, 1, 2, 3, -1


def parts_of(z, clusters=None, judges=1, seed=0):
    names = clusters or [f"p{i:04d}" for i in range(len(z))]
    found = variance_parts(np.asarray(z, dtype=float).reshape(len(z), -1, judges), names, 0.95, seed)
    return {name: part.value for name, part in found[0].items() if "share" not in name}


@pytest.fixture
def few_resamples(monkeypatch):
    """Draw a tenth of the resamples: the end of an interval moves by some 5 % of a standard error."""
    monkeypatch.setattr(variance, "resamples_for", lambda clusters: 1_000)


def test_two_prompts_by_hand():
    # y = 1/2 and 1; V = 1/2 and 0, of 2 samples. sampling = 1/4; B = (1/2)^2 / 2 = 1/8; prompt = 1/8 - 1/8.
    assert parts_of([[0, 1], [1, 1]]) == {"prompt": pytest.approx(0.0), "sampling": pytest.approx(0.25)}
    # Always the same, and opposite: all is due to the prompts, B = 1/2.
    assert parts_of([[0, 0], [1, 1]]) == {"prompt": pytest.approx(0.5), "sampling": 0.0}


def test_judges_by_hand():
    # Two judges that always disagree: their mean is 1/2 on every answer, so that all is theirs, and all there can be.
    z = [[[0, 1], [1, 0]], [[0, 1], [0, 1]]]
    assert parts_of(z, judges=2) == {"prompt": 0.0, "sampling": 0.0, "judge": pytest.approx(0.25)}
    # Judges that always agree: no judge part, and the rest as with one judge.
    agreed = [[[0, 0], [1, 1]], [[1, 1], [1, 1]]]
    assert parts_of(agreed, judges=2) == {"prompt": pytest.approx(0.0), "sampling": pytest.approx(0.25), "judge": 0.0}
    # A judge that refuses always beside one that says 0, 1 and 1, 1: means 1/2, 1 and 1, 1. judge = (1/8 + 0) / 2;
    # C = 1/8 and 0; B = (1/4)^2 / 2 = 1/32, less the mean of C / 2.
    beside = [[[0, 1], [1, 1]], [[1, 1], [1, 1]]]
    assert parts_of(beside, judges=2) == {
        "prompt": pytest.approx(0.0), "sampling": pytest.approx(1 / 16), "judge": pytest.approx(1 / 16)
    }  # fmt: skip


def test_a_part_that_cannot_vary_is_zero_to_the_last_digit_and_has_no_interval():
    # One judge calls everything a refusal, the other nothing: they agree on no answer, and differ alike on all.
    z = np.stack([np.zeros((40, 3)), np.ones((40, 3))], axis=2)
    z[::7, 2] = np.nan
    found, *_ = variance_parts(z, [f"c{i // 3}" for i in range(40)], 0.95, 0)
    for name in ("prompt", "sampling"):
        assert found[name] == found[f"share_{name}"] == (0.0, None, None, None)
    assert found["judge"][:2] == (0.25, None) and found["share_judge"][:2] == (1.0, None)


@pytest.mark.parametrize("judges", [1, 2, 3])
def test_parts_add_up_to_the_variance_of_a_random_judges_verdict_and_none_exceeds_a_quarter(judges):
    # Many prompts that are their own clusters: r (1 - r) for the rate r over all judges, whatever these do.
    rng = np.random.default_rng(judges)
    q = rng.beta(1, 2, size=6000)
    answers = rng.random((6000, 3)) < q[:, None]
    strict = answers | (rng.random((6000, 3)) < 0.6)
    contrary = ~answers
    z = np.stack([answers, strict, contrary][:judges], axis=2).astype(float)
    parts = parts_of(z, judges=judges)
    assert sum(parts.values()) == pytest.approx(z.mean() * (1 - z.mean()), abs=1e-4)
    assert all(-0.002 < value <= 0.25 for value in parts.values())


def test_prompts_of_one_cluster_are_no_pair():
    # Pairs across clusters: (1, 0) four times of four, so B = 1/2; among all pairs it would be 1/3.
    z = [[1, 1], [1, 1], [0, 0], [0, 0]]
    assert parts_of(z, ["a", "a", "b", "b"])["prompt"] == pytest.approx(0.5)
    assert parts_of(z)["prompt"] == pytest.approx(1 / 3)


def test_known_parts_of_simulated_verdicts_are_found_without_bias(few_resamples):
    rng = np.random.default_rng(7)
    flip, mean, studies = 0.1, 0.3, 300
    found = []
    for _ in range(studies):
        # Prompts in clusters of three; samples; then each of 3 judges misreads an answer with probability 0.1.
        of_cluster = np.repeat(rng.beta(1.5, 3.5, size=25), 3)
        q = rng.beta(4 * of_cluster + 1e-9, 4 * (1 - of_cluster) + 1e-9)
        answers = rng.random((75, 4)) < q[:, None]
        read = answers[:, :, None] ^ (rng.random((75, 4, 3)) < flip)
        z = read.astype(float)
        z[:, 3][rng.random(75) < 0.5] = np.nan  # half of the prompts have three answers
        found.append(parts_of(z, [f"c{i // 3:02d}" for i in range(75)], judges=3))
    of_q = mean * (1 - mean) / 6 + (mean * (1 - mean) * (5 / 6)) / 5  # Var(m) + E[m (1 - m)] / 5
    of_answers, chance, keep = mean * (1 - mean) - of_q, flip * (1 - flip), (1 - 2 * flip) ** 2
    # What a judge misreads by chance moves the mean of three by a third of it.
    truth = {"judge": chance * 2 / 3, "sampling": keep * of_answers + chance / 3, "prompt": keep * of_q}
    rate = mean * (1 - flip) + (1 - mean) * flip
    assert sum(truth.values()) == pytest.approx(rate * (1 - rate))
    for name, value in truth.items():
        values = np.array([parts[name] for parts in found])
        assert values.mean() == pytest.approx(value, abs=4 * values.std() / np.sqrt(studies)), name
        assert values.std() / np.sqrt(studies) < 0.05 * value  # so the line before can fail


def test_a_judge_that_always_refuses_adds_what_it_differs_by_to_the_judge_part():
    rng = np.random.default_rng(13)
    q = rng.beta(1, 2, size=4000)
    z = (rng.random((4000, 4)) < q[:, None]).astype(float)
    alone, beside = parts_of(z), parts_of(np.stack([z, np.ones_like(z)], axis=2), judges=2)
    # The mean of the two moves half as far as the first, and they differ by 1 where that does not refuse.
    assert beside["prompt"] == pytest.approx(alone["prompt"] / 4)
    assert beside["sampling"] == pytest.approx(alone["sampling"] / 4)
    assert beside["judge"] == pytest.approx((1 - z.mean()) / 4)


def test_a_part_below_nought_is_published_and_counts_as_nought_in_the_shares():
    # Every prompt refuses once in two answers, or (one cluster) in neither: less between prompts than sampling brings.
    z = np.array([[0, 1]] * 10 + [[0, 0]] * 2, dtype=float)[:, :, None]
    found, *_ = variance_parts(z, [f"{i // 2}" for i in range(12)], 0.95, 0)
    assert found["prompt"].value < 0 < found["sampling"].value
    assert (found["share_prompt"].value, found["share_sampling"].value) == (0.0, 1.0)


def test_intervals_hold_the_parts_about_as_often_as_they_say(few_resamples):
    rng, held, studies = np.random.default_rng(11), 0, 200
    for study in range(studies):
        q = rng.beta(0.6, 1.4, size=120)
        z = (rng.random((120, 5)) < q[:, None]).astype(float)
        found = variance_parts(z[:, :, None], [f"{i:03d}" for i in range(120)], 0.95, study)
        ends = found[0]["sampling"]
        held += ends.low <= 0.3 * 0.7 * (2 / 3) <= ends.high
    assert 0.9 <= held / studies <= 0.99


def test_readings_blocked_answers_and_answers_that_a_judge_lacks():
    labels = np.array([[R, P, C, B, NONE]], dtype=np.int8)
    assert decisions(labels, "strict").tolist() == [[1, 0, 0, 1, pytest.approx(np.nan, nan_ok=True)]]
    assert decisions(labels, "broad").tolist() == [[1, 1, 0, 1, pytest.approx(np.nan, nan_ok=True)]]
    z = np.array([[[1.0, 1.0], [0.0, np.nan], [1.0, 0.0]]])
    found = moments(z)
    assert found[0].tolist() == [2.0] and found[1].tolist() == [0.75]  # the second answer is left out
    assert found[3].tolist() == [0.125] and found[2].tolist() == [0.125]


def test_estimates_name_their_judges_and_share_out_the_whole():
    rng = np.random.default_rng(2)
    labels = {judge: rng.choice([R, C], size=(40, 3)).astype(np.int8) for judge in ("b", "a")}
    clusters = [f"{i:02d}" for i in range(40)]
    found = variance_estimates(labels, clusters, "m", "s", 0.95, [])
    assert {(e.judge, e.parameter) for e in found} == {(None, "a, b")}
    shares = [e.value for e in found if e.reading == "strict" and e.estimand.startswith("variance_share_")]
    assert len(shares) == 3 and sum(shares) == pytest.approx(1.0)
    alone = variance_estimates({"a": labels["a"]}, clusters, "m", "s", 0.95, [])
    assert {e.judge for e in alone} == {"a"} and not [e for e in alone if "variance_judge" in e.estimand]
    assert variance_estimates(dict(reversed(labels.items())), clusters, "m", "s", 0.95, []) == found
    assert {e.flags for e in found} == {()}


def test_parts_of_few_clusters_are_marked():
    labels = {"a": np.random.default_rng(2).choice([R, C], size=(58, 3)).astype(np.int8)}
    found = variance_estimates(labels, [f"{i // 2:02d}" for i in range(58)], "m", "s", 0.95, [])
    assert found and {(e.n_clusters, e.flags) for e in found} == {(29, ("few_clusters",))}


def test_where_nothing_can_be_said_there_is_nothing():
    one_sample = {"a": np.array([[R], [C]], dtype=np.int8)}
    assert variance_estimates(one_sample, ["x", "y"], "m", "s", 0.95, []) == []
    one_cluster = {"a": np.array([[R, C], [C, C]], dtype=np.int8)}
    assert variance_estimates(one_cluster, ["x", "x"], "m", "s", 0.95, []) == []
    # Nobody refuses: parts of 0, no shares, and no interval that would claim to know it.
    never = variance_estimates({"a": np.full((5, 3), C, dtype=np.int8)}, list("vwxyz"), "m", "s", 0.95, [])
    assert {(e.value, e.low) for e in never} == {(0.0, None)} and not [e for e in never if "share" in e.estimand]
