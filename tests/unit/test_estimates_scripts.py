"""The rules of estimates: what they ask for, and what their scripts write."""

import json

import make_analysis
import make_estimates
import pytest
from estimate_rows import cell_file, rows_of, single

from refusal_eval.core.files import write_json
from refusal_eval.stats.estimates.estimate import estimate_of
from refusal_eval.study.study import Study
from refusal_eval.workflow.analysis import estimate_files

VOTES = {"a": ["RRC", "RCC", "CCC", "RRR"] * 5, "b": ["RPC", "CCC", "BRR", "FRC"] * 5}


@pytest.fixture
def study(tmp_path):
    """Return a function that writes the files of a (judge, model) and estimates them."""

    def made(judge, shift=0, name="out", **changed):
        paths = []
        for split, votes in VOTES.items():
            rows = rows_of(single(*votes[shift:], *votes[:shift]))
            names = {"judge": judge, "split": split, "expectation": "refuse"}
            paths.append(str(cell_file(tmp_path / f"{judge}-{split}.parquet", *rows, 3, **names)))
        write_json(tmp_path / "duplicates.json", {"left_out": [{"split": "b", "prompt_id": "p000"}]})
        asked = {"judge": judge, "model": "m", "splits": ["a", "b"], "tau_sweep": True} | changed
        out = tmp_path / f"{name}-{judge}.json"
        make_estimates.main(
            paths, str(tmp_path / "duplicates.json"), asked | {"sources": {"a": "a", "b": "b"}}, str(out)
        )
        return out

    return made


def test_a_model_has_cells_pools_and_parts_of_the_variance(study):
    found = [estimate_of(row) for row in json.loads(study("j").read_text())["estimates"]]
    rates = {(e.split, e.pool, e.reading): e for e in found if e.estimand == "refusal_rate"}
    assert rates["a", None, "strict"].value == pytest.approx((2 / 3 + 1 / 3 + 0 + 1) / 4)
    pool = rates[None, "refuse", "strict"]
    without_copy = (5 * (0 + 1 + 1 / 2) + 4 * (1 / 3)) / 19
    assert pool.value == pytest.approx((0.5 + without_copy) / 2) and pool.n_prompts == 39
    keys = [(e.estimand, e.split, e.pool, e.category, e.reading, str(e.parameter)) for e in found]
    assert len(keys) == len(set(keys))
    assert {e.judge for e in found} == {"j"} and {e.model for e in found} == {"m"}
    assert {"variance_prompt", "variance_share_sampling", "flip_rate"} <= {e.estimand for e in found}


def test_the_same_files_give_the_same_bytes(study):
    first, again = study("j"), study("j", name="again")
    assert first.read_bytes() == again.read_bytes()


def test_the_published_protocol_has_no_sweep_of_ours(study):
    found = json.loads(study("j", tau_sweep=False).read_text())["estimates"]
    assert {row["parameter"] for row in found if row["estimand"] == "c_mean"} == {1.0}


@pytest.mark.feature("variation")
def test_labels_of_two_judges_give_the_judges_part(study, tmp_path):
    from refusal_eval.features.variation.variance_analysis import VarianceAnalysis

    study("j"), study("k", shift=1)
    paths = [str(tmp_path / f"{judge}-{split}.parquet") for judge in "jk" for split in "ab"]
    asked = {"judges": ["j", "k"], "models": ["m"], "splits": ["a", "b"], "level": 0.95}
    make_analysis.main(VarianceAnalysis, {"scores": paths}, asked, str(tmp_path / "variance.json"))
    found = json.loads((tmp_path / "variance.json").read_text())["estimates"]
    assert {row["parameter"] for row in found} == {"j, k"} and {row["split"] for row in found} == {"a", "b"}
    judges = [row["value"] for row in found if row["estimand"] == "variance_judge"]
    assert len(judges) == 4 and min(judges) > 0


def estimates(config):
    return {file.removeprefix("results/large/estimates/") for file in estimate_files(Study(config))}


def test_a_job_for_each_judge_and_model_and_one_for_each_analysis(config):
    cells = {f"cells/{judge}/{model}.json" for judge in config["judges"] for model in config["models"]}
    analyses = {f"{name}.json" for name in ("variance", "comparisons", "tradeoff", "corrected", "judge_agreement")}
    assert estimates(config) == cells | analyses


@pytest.mark.feature("variation")
def test_a_panel_is_no_further_judge_of_the_variance(config):
    from refusal_eval.features.variation.variance_analysis import VarianceAnalysis

    assert "both" in config["judges"] and "both" not in VarianceAnalysis(Study(config)).params()["judges"]


def test_one_judge_or_one_sample_has_no_judges_part(config):
    for alone in ({"samples": 1}, {"judges": ["words", "both"]}):
        assert "variance.json" not in estimates(config | alone)
