"""The mixed model: its likelihood by hand, known parts of made-up verdicts, and what cannot be fitted."""

import json

import make_analysis
import numpy as np
import pytest
from comparison_rows import write_scores
from config_project import STUDY
from mixed_model import Made, verdicts

from refusal_eval.features.variation import mixed_likelihood
from refusal_eval.features.variation.mixed_likelihood import EFFECTS, fit_model, likelihood, parts_of
from refusal_eval.features.variation.mixed_model import mixed_estimates
from refusal_eval.features.variation.mixed_model_analysis import MixedModelAnalysis
from refusal_eval.report.results.dictionary import definition_of
from refusal_eval.study.study import Study
from refusal_eval.workflow.analysis import estimate_files

MADE = Made(prompts=400, answers=5, judges=2, sds=(1.5, 0.8, 0.5))
SMALL = Made(prompts=60, answers=4, judges=2, sds=(1.5, 0.8, 0.5), models=(-0.5, 0.5))


def labelled(z):
    """Labels of (judge, model) of decisions that are prompts x models x K x judges; refusal is 0, compliance 2."""
    labels = np.where(np.isnan(z), -1, np.where(z == 1, 0, 2)).astype(np.int8)
    return {(f"j{j}", f"m{m}"): labels[:, m, :, j] for m in range(z.shape[1]) for j in range(z.shape[3])}


def estimated(z, clusters=None, flags=()):
    names = [f"c{i:04d}" for i in range(len(z))] if clusters is None else clusters
    return mixed_estimates(labelled(z), names, "s", "strict", 0.95, flags)


def values(found):
    return {
        (e.estimand.removeprefix("mixed_"), e.model or (e.judge if "judge" in e.estimand else None)): e for e in found
    }


def test_the_likelihood_of_one_prompt_by_brute_force():
    # Two models, two answers, one judge: a sum over a fine grid of all three effects, and no more thought.
    z = np.array([[[[1.0], [0.0]], [[1.0], [1.0]]]])
    theta = np.array([-0.4, 0.7, np.log(1.3), np.log(0.6)])
    u = np.linspace(-8, 8, 401)
    weights = np.exp(-(u**2) / 2) / np.exp(-(u**2) / 2).sum()
    p = [1 / (1 + np.exp(-(b + 1.3 * u[:, None] + 0.6 * u))) for b in (-0.4, 0.7)]
    wanted = np.log(weights @ (((p[0] * (1 - p[0])) @ weights) * ((p[1] ** 2) @ weights)))
    found, scores = likelihood(theta, list(parts_of(z)), EFFECTS[:2], 2, 1)
    assert found == pytest.approx(wanted, abs=1e-6) and scores.shape == (1, 4)


def test_two_judges_share_the_answers_out_and_each_verdict_counts_once():
    z = verdicts(SMALL, 1)
    (part,) = parts_of(z)
    assert part.judges == (0, 1)
    counts = part.counts[part.cells[part.prompts]]  # ways x prompts x models x 4
    assert len(counts) == 2
    assert all((own.sum(axis=2) == 4).all() for own in counts)  # four answers, four verdicts
    refusals = sum(own[:, :, [0, 2]] for own in counts)
    assert (refusals == z.sum(axis=2)).all()


@pytest.mark.parametrize("judges", [1, 2, 3])
def test_scores_are_the_slopes_of_the_likelihood(judges):
    z = verdicts(Made(prompts=20, answers=3, judges=judges, sds=(1.5, 0.8, 0.5), models=(-0.5, 0.5)), 3)
    z[np.random.default_rng(0).random(z.shape) < 0.1] = np.nan
    names, parts = EFFECTS[: 3 if judges > 1 else 2], list(parts_of(z))
    theta = np.concatenate([np.linspace(-1, 1, 2 * judges), np.log([1.2, 0.7, 0.4][: len(names)])])
    by = [
        (likelihood(theta + h, parts, names, 2, judges)[0] - likelihood(theta - h, parts, names, 2, judges)[0]) / 2e-5
        for h in np.eye(len(theta)) * 1e-5
    ]
    assert likelihood(theta, parts, names, 2, judges)[1].sum(axis=0) == pytest.approx(np.array(by), abs=1e-5)


def test_known_parts_are_found():
    found = values(estimated(verdicts(MADE, 2)).estimates)
    for name, truth in zip(EFFECTS, MADE.sds, strict=True):
        e = found[f"sd_{name}", None]
        assert e.low < truth < e.high and e.value == pytest.approx(truth, abs=0.2), name
    for i, truth in enumerate(np.array(MADE.models) - np.mean(MADE.models)):
        e = found["log_odds", f"m{i}"]
        assert e.low < truth < e.high and e.value == pytest.approx(truth, abs=0.3)
    assert found["log_odds_judge", "j0"].value == pytest.approx(MADE.strictness[0], abs=0.15)
    assert found["sd_judge", None].value == pytest.approx(MADE.strictness[0], abs=0.15)
    assert found["sd_model", None].value == pytest.approx(np.std(MADE.models), abs=0.15)
    assert found["sd_model_judge", None].value < 0.1
    shares = [e for (name, _), e in found.items() if name.startswith("share_")]
    assert len(shares) == 7 and sum(e.value for e in shares) == pytest.approx(1.0, abs=1e-5)
    assert {e.n_prompts for e in found.values()} == {400} and {e.flags for e in found.values()} == {()}


def test_judges_who_always_agree_add_nothing_and_one_of_them_says_as_much():
    z = verdicts(Made(prompts=150, answers=4, judges=1, sds=(1.5, 0.8, 0.0), models=(-0.5, 0.5)), 2)
    alone, both = values(estimated(z).estimates), values(estimated(np.repeat(z, 2, axis=3)).estimates)
    assert both["sd_prompt_judge", None].value < 0.35 and both["sd_judge", None].value < 0.05
    assert both["sd_prompt", None].value == pytest.approx(alone["sd_prompt", None].value, abs=0.1)
    assert both["share_sampling", None].value == pytest.approx(alone["share_sampling", None].value, abs=0.05)


def test_prompts_of_a_cluster_that_are_alike_widen_the_intervals():
    z = np.repeat(
        verdicts(Made(prompts=80, answers=4, judges=1, sds=(1.5, 0.8, 0.0), models=(-0.5, 0.5)), 4), 4, axis=0
    )
    apart, together = (values(estimated(z, names).estimates) for names in (None, [f"{i // 4:03d}" for i in range(320)]))
    for key in (("sd_prompt", None), ("log_odds", "m0"), ("share_sampling", None)):
        assert apart[key].value == pytest.approx(together[key].value, abs=0.002)
        widths = [e.high - e.low for e in (apart[key], together[key])]
        assert widths[1] / widths[0] == pytest.approx(2.0, rel=0.15)


def test_the_same_labels_give_the_same_estimates_in_any_order_of_cells():
    labels, names = labelled(verdicts(SMALL, 5)), [f"{i}" for i in range(60)]
    first = mixed_estimates(labels, names, "s", "strict", 0.95, [])
    assert mixed_estimates(dict(reversed(labels.items())), names, "s", "strict", 0.95, []) == first


def test_estimates_say_what_they_are_of_and_carry_flags():
    found, notes = estimated(
        verdicts(SMALL, 5), [f"{i // 3:02d}" for i in range(60)], [("unjudged",), ("few_clusters",)]
    )
    assert found and not notes and {e.flags for e in found} == {("unjudged", "few_clusters")}
    assert {e.n_clusters for e in found} == {20} and all(definition_of(e.estimand) for e in found)
    assert {e.parameter for e in found if e.judge is None} == {"j0, j1"}
    alone, _ = estimated(verdicts(SMALL, 5)[..., :1])
    assert {(e.judge, e.parameter) for e in alone} == {("j0", None)} and not [e for e in alone if "judge" in e.estimand]


def test_one_model_has_no_part_of_models():
    found = values(estimated(verdicts(SMALL, 5)[:, :1]).estimates)
    assert {name for name, _ in found if name.startswith("sd_")} == {"sd_judge", "sd_prompt", "sd_prompt_judge"}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda z: z[:, :, :1], "no prompt has two answers that count"),
        (lambda z: np.zeros_like(z), "no judge sees a difference between answers"),
        (lambda z: np.full_like(z, np.nan), "no judge sees a difference between answers"),
        (lambda z: np.repeat(z[:, :, :1], 4, axis=2), "its likelihood has no maximum"),
    ],
)
def test_what_cannot_be_fitted_is_said(change, why):
    found, notes = estimated(change(verdicts(SMALL, 5)))
    assert found == [] and why in notes[-1] and notes[-1].startswith("split s has no mixed model: ")


def test_prompts_of_one_cluster_say_nothing():
    assert "its prompts are one cluster" in estimated(verdicts(SMALL, 5), ["c"] * 60).notes[-1]


def test_a_judge_and_a_model_without_variation_are_left_out():
    z = np.concatenate([verdicts(SMALL, 5), np.ones((60, 2, 4, 1))], axis=3)
    z = np.concatenate([z, np.zeros((60, 1, 4, 3))], axis=1)
    z[:, 2, :, 2] = 1  # judge 2 calls everything a refusal, and model 2 refuses nothing for the others
    found, notes = estimated(z)
    assert ["judge j2" in notes[0], "model m2" in notes[1]] == [True, True]
    z[:, 2] = np.nan
    assert estimated(z).notes == notes and "gave no verdict, or" in notes[1]
    assert found == estimated(z[:, :2, :, :2]).estimates


def test_a_random_effect_that_is_not_there_is_0_without_an_interval_or_may_be_0():
    z = verdicts(Made(prompts=150, answers=4, judges=1, sds=(1.5, 0.0, 0.0), models=(-0.5, 0.5)), 3)
    e = values(estimated(z).estimates)["sd_prompt_model", None]
    assert (e.value == 0 and e.low is None) or e.low == 0


def test_what_a_random_effect_may_be_at_most_does_not_grow_as_its_estimate_nears_0():
    made = Made(prompts=150, answers=4, judges=1, sds=(1.5, 0.0, 0.0), models=(-0.5, 0.5))
    near, far = (values(estimated(verdicts(made, seed)).estimates)["sd_prompt_model", None] for seed in (35, 3))
    assert near.value == pytest.approx(0.06, abs=0.01) and far.value == pytest.approx(0.52, abs=0.01)
    assert (near.low, far.low) == (0, 0) and near.high < far.high < 1


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_a_long_fit_tells_the_log_where_it_is(seconds, monkeypatch, caplog):
    monkeypatch.setattr(mixed_likelihood, "SECONDS_BETWEEN_LINES", seconds)
    caplog.set_level("INFO", "refusal_eval")
    fit_model(verdicts(SMALL, 5), EFFECTS, np.arange(60))
    said = [line.split(": ", 1)[1] for line in caplog.messages]
    assert ("evaluation 1 of the likelihood" in said) == (not seconds)
    assert ("the curvature at the maximum, 6 of 7 rows" in said) == (not seconds)


def test_errors_are_those_at_the_maximum():
    z, step = verdicts(SMALL, 5), 1e-4
    fit, parts = fit_model(z, EFFECTS, np.arange(60)), list(parts_of(z))
    theta = np.concatenate([fit.log_odds.ravel(), np.log([fit.sds[name] for name in fit.names])])
    scores = [
        likelihood(theta + h, parts, EFFECTS, 2, 2)[1] for h in step * np.vstack([np.eye(7), -np.eye(7), 0 * theta])
    ]
    bread = np.linalg.inv(np.array([(scores[7 + i] - scores[i]).sum(axis=0) / (2 * step) for i in range(7)]))
    wanted = bread @ scores[14].T @ scores[14] @ bread.T * 60 / 59
    assert fit.covariance == pytest.approx(wanted, rel=1e-5, abs=1e-9)


def test_no_likelihood_of_verdicts_that_never_differ_within_a_prompt():
    z = np.repeat(verdicts(SMALL, 5)[:, :, :1, :1], 4, axis=2)
    assert fit_model(z, EFFECTS[:2], np.arange(60)) is None


# ---------------------------------------------------------------- the study and its rule


def test_it_is_made_only_if_asked_for_and_without_panels(config):
    assert not [file for file in estimate_files(Study(config)) if "mixed" in file]
    asked = Study(config | {"mixed_model": True})
    assert "results/large/estimates/mixed_model.json" in estimate_files(asked)
    assert "both" in config["judges"] and "both" not in MixedModelAnalysis(asked).params()["judges"]
    assert (
        MixedModelAnalysis(asked).params() == MixedModelAnalysis(Study(config)).params()
    )  # asking for it changes no param


def test_one_sample_is_a_mistake(project):
    found = project.mistakes(STUDY | {"samples": 1, "mixed_model": True})
    assert len(found) == 1 and "mixed_model: with one answer per prompt" in found[0] and "at least 2" in found[0]


def test_the_script_writes_the_same_bytes_and_what_is_left_out(tmp_path):
    labels = labelled(verdicts(SMALL, 5))
    paths = []
    for (judge, model), own in labels.items():
        for split in "ab":
            words = ["".join("rpc"[label] for label in row) if split == "a" else "c" * len(row) for row in own]
            rows = {f"p{i:03d}": word for i, word in enumerate(words)}
            names = {"judge": judge, "model": model, "split": split, "max_tokens": 9}
            path = write_scores(tmp_path / judge / model / f"{split}.parquet", rows, state="truncated", **names)
            paths.append(str(path))
    study = {"judges": ["j0", "j1"], "models": ["m0", "m1"], "readings": {"a": "strict", "b": "broad"}, "level": 0.95}
    for name in ("first", "again"):
        make_analysis.main(MixedModelAnalysis, {"scores": paths}, study, str(tmp_path / f"{name}.json"))
    assert (tmp_path / "first.json").read_bytes() == (tmp_path / "again.json").read_bytes()
    found = json.loads((tmp_path / "first.json").read_text())
    assert {(row["split"], row["reading"], *row["flags"]) for row in found["estimates"]} == {
        ("a", "strict", "truncated")
    }
    assert len(found["left_out"]) == 3 and all("split b" in note for note in found["left_out"])


def test_a_standard_deviation_is_no_better_known_from_large_clusters():
    """Two clusters of 100 prompts that are alike tell of their prompts what two prompts tell."""
    covered = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        codes = np.repeat(np.arange(100), [100, 100, *[1] * 98])
        of_prompt = np.sqrt(0.5) * (rng.normal(size=100)[codes] + rng.normal(size=298))
        log_odds = 1.5 * of_prompt[:, None] + np.array([-0.5, 0.5]) + 0.8 * rng.normal(size=(298, 2))
        z = (rng.random((298, 2, 5)) < 1 / (1 + np.exp(-log_odds[..., None]))).astype(float)[..., None]
        found = values(estimated(z, [f"c{code:03d}" for code in codes]).estimates)["sd_prompt", None]
        covered.append(found.low <= 1.5 <= found.high)
    assert np.mean(covered) >= 0.8, "63 % without, and 91 % in benchmarks/mixed_model.py"
