"""Power: the formula against made-up answers, what a pilot tells, and the command."""

import dataclasses

import numpy as np
import pytest
from comparison_rows import write_scores
from simulated_comparisons import simulated_power, simulated_refusals

from refusal_eval.__main__ import main
from refusal_eval.tools.power.comparison_design import Design, detectable, difference_variance, power, standard_error
from refusal_eval.tools.power.pilot_run import cluster_correlation, pilot_of, variance_between
from refusal_eval.tools.power.power_command import chosen_design, page

DESIGN = Design(150, 1, 3, 0.3, 0.6, 0.5)


def test_the_variance_of_a_difference_by_hand():
    # Strangers with one answer: p (1 - p) of each. Models alike in all but chance: what sampling leaves.
    strangers = Design(10, 1, 1, 0.5, 0.6, 0.0)
    assert difference_variance(strangers, 0.0) == pytest.approx(0.5)
    alike = Design(10, 1, 4, 0.5, 0.6, 1.0)
    assert difference_variance(alike, 0.0) == pytest.approx(2 * 0.25 * 0.4 / 4)


@pytest.mark.parametrize(
    "design",
    [
        DESIGN,
        Design(150, 1, 1, 0.5, 0.5, 0.3),
        Design(30, 5, 5, 0.2, 0.6, 0.5, 0.15),
        Design(400, 1, 5, 0.05, 0.7, 0.6),
    ],
)
def test_made_up_answers_have_the_variance_and_the_power_of_the_formula(design):
    difference = detectable(design, 0.8, 0.05)
    first, second = simulated_refusals(design, difference, 400, seed=1) / design.samples
    means = (second - first).mean(axis=(1, 2))
    prompts = design.clusters * design.prompts_per_cluster
    effect = 1 + (design.prompts_per_cluster - 1) * design.cluster_correlation
    assert means.mean() == pytest.approx(difference, abs=0.02)
    assert means.var() * prompts / effect == pytest.approx(difference_variance(design, difference), rel=0.25)
    assert simulated_power(design, difference, 0.05, 400, seed=2) == pytest.approx(0.8, abs=0.07)


def test_without_a_difference_power_is_the_level_of_the_test():
    assert power(DESIGN, 0.0, 0.05) == pytest.approx(0.05, abs=0.005)


def test_what_makes_power():
    base = power(DESIGN, 0.08, 0.05)
    for change in ({"clusters": 300}, {"samples": 9}, {"model_correlation": 0.8}, {"rate": 0.05}):
        assert power(dataclasses.replace(DESIGN, **change), 0.08, 0.05) > base, change
    alike = dataclasses.replace(DESIGN, prompts_per_cluster=4, clusters=38, cluster_correlation=0.5)
    assert power(alike, 0.08, 0.05) < base
    assert power(DESIGN, 0.08, 0.005) < base < power(DESIGN, 0.12, 0.05)


def test_the_detectable_difference_has_the_power_it_was_asked_for():
    for up in (True, False):
        found = detectable(DESIGN, 0.8, 0.05, up)
        assert power(DESIGN, found, 0.05) == pytest.approx(0.8, abs=1e-6) and (found > 0) == up
    assert detectable(Design(5, 1, 1, 0.02, 0.5, 0.5), 0.8, 0.05, up=False) is None


def test_a_difference_is_found_where_the_largest_is_not():
    """Near a rate of 0 the models' answers no longer vary together, and the error grows again."""
    design = Design(100, 1, 5, 0.05, 0.9, 0.9)
    assert power(design, -0.05, 0.05) < 0.8 < power(design, -0.04, 0.05)
    found = detectable(design, 0.8, 0.05, up=False)
    assert found is not None and -0.04 < found < 0 and power(design, found, 0.05) == pytest.approx(0.8)


def test_a_pilot_gives_back_what_it_was_made_with():
    design = Design(400, 5, 4, 0.3, 0.6, 0.5, 0.2)
    first, second = simulated_refusals(design, 0.1, 1, seed=5).reshape(2, -1)
    clusters = np.repeat(np.arange(400), 5)
    found = pilot_of(np.stack([first, second], axis=1) / 4, np.full((2000, 2), 4.0), clusters)
    assert found["rate"] == pytest.approx(0.3, abs=0.04)
    assert found["prompt_correlation"] == pytest.approx(0.6, abs=0.05)
    assert found["model_correlation"] == pytest.approx(0.5, abs=0.07)
    assert found["cluster_correlation"] == pytest.approx(0.2, abs=0.06)
    assert (found["clusters"], found["prompts_per_cluster"]) == (400, 5)


def test_a_pilot_with_a_few_large_clusters_does_not_count_them_as_of_average_size():
    sizes = np.array([100, 100, *[1] * 98])
    clusters, n = np.repeat(np.arange(100), sizes), int(sizes.sum())
    rng = np.random.default_rng(0)
    alike = rng.normal(size=100)[clusters] + rng.normal(size=n)  # differences of prompts of one cluster correlate
    rates = np.stack([(alike > 0).astype(float), (rng.random(n) < 0.5).astype(float)], axis=1)
    found = pilot_of(rates, np.ones((n, 2)), clusters)
    assert found["clusters"] == 100 and found["evenness"] == pytest.approx(n**2 / (sizes**2).sum() / 100)
    design = Design(100, found["prompts_per_cluster"], 1, 0.5, 0.6, 0.5, 0.3, found["evenness"])
    by_hand = difference_variance(design, 0.1) * (sizes * (1 + (sizes - 1) * 0.3)).sum() / n**2
    assert standard_error(design, 0.1) == pytest.approx(by_hand**0.5)
    assert power(design, 0.3, 0.05) < 0.5 < 0.99 < power(dataclasses.replace(design, evenness=1.0), 0.3, 0.05)


def test_a_pilot_of_models_of_unlike_steadiness_gives_the_variance_of_their_difference_at_every_k():
    rng, n = np.random.default_rng(3), 4000
    skill = rng.random(n)
    chances = np.stack([(skill < 0.5).astype(float), 0.3 + 0.1 * skill], axis=1)  # one decides, one throws dice
    found = pilot_of(rng.binomial(3, chances) / 3, np.full((n, 2), 3.0), np.arange(n))
    design, source = chosen_design({}, {**found, "samples": 3})
    assert source["model_correlation"] == "pilot"
    difference = float(np.diff(chances.mean(axis=0))[0])
    for k in (1, 3, 10):
        true = np.var(chances[:, 1] - chances[:, 0]) + (chances * (1 - chances)).mean(axis=0).sum() / k
        assert difference_variance(dataclasses.replace(design, samples=k), difference) == pytest.approx(true, rel=0.05)


def test_what_a_cluster_shares_does_not_shrink_with_more_answers_per_prompt():
    rng, groups, size = np.random.default_rng(4), 4000, 5
    clusters = np.repeat(np.arange(groups), size)
    chances = np.stack([0.3 + 0.4 * rng.random(groups)[clusters] for _ in range(2)], axis=1)  # whole clusters alike
    found = pilot_of(rng.binomial(2, chances) / 2, np.full((len(clusters), 2), 2.0), clusters)
    for k in (1, 2, 10):
        design, _ = chosen_design({"samples": k}, {**found, "samples": 2})
        noise = (chances * (1 - chances)).mean(axis=0).sum() / k
        true = (np.var(chances[:, 1] - chances[:, 0]) + noise / size) / groups
        assert standard_error(design, 0.0) ** 2 == pytest.approx(true, rel=0.1), k
        given = dataclasses.replace(design, cluster_samples=None)
        assert (standard_error(given, 0.0) < standard_error(design, 0.0)) == (k > 2)


def test_small_pilots_by_hand():
    # Two prompts, two samples each: one always refused, one never. p^2: (1 + 0) / 2; square of the mean: 1 * 0.
    assert variance_between(np.array([1.0, 0.0]), np.array([2, 2])) == pytest.approx(0.5)
    assert variance_between(np.array([1.0, 0.0]), np.array([1, 1])) is None
    assert cluster_correlation(np.array([1.0, 1.0, 0.0, 0.0]), np.array([0, 0, 1, 1])) == pytest.approx(1.0)
    assert cluster_correlation(np.array([1.0, 0.0, 1.0, 0.0]), np.array([0, 0, 1, 1])) == 0.0
    assert cluster_correlation(np.array([1.0, 0.0]), np.array([0, 1])) is None


# ---------------------------------------------------------------- the command


@pytest.fixture
def pilot(tmp_path):
    """Return the folder of a finished study of two models."""
    rng = np.random.default_rng(0)
    chances = rng.beta(1, 2, size=40)
    for model, shift in (("plain", 0.0), ("stern", 0.2)):
        rows = {
            f"p{i}": "".join("r" if rng.random() < min(1, chance + shift) else "c" for _ in range(3))
            for i, chance in enumerate(chances)
        }
        write_scores(tmp_path / "scores" / "words" / model / "harm.parquet", rows, expectation="refuse")
    return str(tmp_path)


def test_the_command_from_numbers(capsys):
    assert main(["power", "--clusters", "200", "--samples", "5", "--rate", "0.1"]) == 0
    text = capsys.readouterr().out
    assert "(given)" in text and "(assumed)" in text and "K = 10" in text and "a pilot of about 50 prompts" in text


def test_the_command_from_a_pilot_says_what_came_from_it_and_what_was_given(pilot, capsys):
    assert main(["power", "--pilot", pilot, "--clusters", "300", "--difference", "0.1"]) == 0
    text = capsys.readouterr().out
    assert "plain and stern on harm" in text and "40 prompts" in text and "strict reading; rates " in text
    assert "300      (given)" in text and "(pilot)" in text and "Power for a difference of +10.0 points" in text


def test_clusters_of_a_pilot_that_are_few_in_effect_are_said_to_be_few(tmp_path, capsys):
    rows = {f"p{i}": "rc"[i % 2] * 3 for i in range(400)}
    for model in ("plain", "stern"):
        own = {name: marks if int(name[1:]) % 3 else "rcc" for name, marks in rows.items()}
        large = {name: f"c{max(0, int(name[1:]) - 300)}" for name in rows}  # 301 prompts in one, 99 alone
        path = tmp_path / "scores" / "words" / model / "harm.parquet"
        write_scores(path, own, expectation="refuse", clusters=large)
    assert main(["power", "--pilot", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "100      (pilot)" in text and "effective number of clusters below 50" in text
    assert main(["power", "--pilot", str(tmp_path), "--prompts-per-cluster", "4"]) == 0
    text = capsys.readouterr().out
    assert "(1: all of one size):" in text and "effective number" not in text


def test_a_larger_family_asks_for_a_larger_difference(capsys):
    def smallest(*more):
        main(["power", "--clusters", "200", "--samples", "5", "--rate", "0.1", *more])
        return float(capsys.readouterr().out.split("up from 10.0 %: +")[1].split(";")[0])

    assert smallest("--comparisons", "20") > smallest()


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["--samples", "5", "--rate", "0.1"], "--clusters is missing; give it, or a pilot run (--pilot)"),
        (["--clusters", "9", "--samples", "5", "--rate", "1.5"], "'--rate': Input should be less than or equal to 1"),
        (["--clusters", "9", "--samples", "5", "--rate", "0"], "give --rate"),
        (["--clusters", "9", "--samples", "5", "--rate", "0.9", "--difference", "0.2"], "make no rate between 0 and 1"),
        (
            ["--clusters", "1", "--samples", "5", "--rate", "0.9"],
            "'--clusters': Input should be greater than or equal to 2",
        ),
        (["--pilot", "nowhere"], "there is no folder nowhere"),
        (["--clusters", "9", "--samples", "5", "--rate", "0.5", "--split", "s"], "give --pilot too"),
    ],
)
def test_mistakes_are_reported(arguments, reported, capsys):
    assert main(["power", *arguments]) in (1, 2)
    assert reported in capsys.readouterr().err


def test_mistakes_about_a_pilot_name_what_it_has(pilot, capsys):
    for arguments, reported in [
        (["--judge", "wrods"], "no scores of judge wrods; did you mean `words`?"),
        (["--split", "safe"], "name one of the pilot's splits with --split: harm"),
        (["--models", "plain", "sterm"], "no scores of model sterm on harm; did you mean `stern`?"),
    ]:
        assert main(["power", "--pilot", pilot, *arguments]) == 1
        assert reported in capsys.readouterr().err


@pytest.mark.parametrize(
    ("correlations", "said", "unsaid"),
    [
        ({"prompt_correlation": 0.6, "model_correlation": 1.0}, "over prompts 1: the pilot's own estimates", "assumed"),
        ({}, "What is (assumed) this pilot could not measure", "a pilot of about 50 prompts"),
    ],
)
def test_a_pilot_is_not_asked_for_again_and_its_own_estimates_are_said(correlations, said, unsaid):
    pilot = {"clusters": 50, "prompts_per_cluster": 1.0, "samples": 3, "rate": 0.3, "evenness": 1.0, **correlations}
    design, source = chosen_design({}, pilot)
    text = page(design, source, 0.05, 0.8, None, 50)
    end = text[text.index("More prompts always help") :]
    assert said in end and unsaid not in end
