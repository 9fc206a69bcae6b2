"""The scripts of the rules about activations: from prompts, states and scores to directions, cosines and separation."""

from types import SimpleNamespace

import compare_directions
import fit_direction
import measure_aqi
import measure_separation
import numpy as np
import pandas as pd
import pytest
import scipy
from estimate_rows import cell_file, rows_of, single

from refusal_eval.activations.groups import Group
from refusal_eval.activations.sides import both_sides, content_sha256, read_parts
from refusal_eval.activations.tensor_files import read_states, write_states
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, write_jsonl
from refusal_eval.features.steering.direction_files import read_direction
from refusal_eval.features.steering.directions import FitMethod
from refusal_eval.features.steering.few_prompts import refuse_few, support
from refusal_eval.features.steering.held_out import held_out_clusters
from refusal_eval.workflow.activations_stage import megabytes

# c(x) of three samples of equal weight: 1, 1/3, -1/3 and -1.
VOTES = single(*["RRR", "RRC"] * 6, *["RCC", "CCC"] * 6)
RIDGE = {"value": 0.01, "relative": False}


def entry(**changes):
    how = {"method": "wmd", "ridge": RIDGE, "hold_out": 0.25, "seed": 0, "layers": None, "of": "md", "draw": 0}
    how |= {"allow_few": True}
    return {"model": "m", "positions": "last_prompt_token", **SIDES, **how, **changes}


def side(judge="j", above=None, below=None, category=None):
    return {"split": "s", "category": category, "judge": judge, "above": above, "below": below}


SIDES = {"positive": side(above=0.15), "negative": side(below=-0.15)}
SIDES["sources"] = {"positive": "positive", "negative": "positive"}


@pytest.fixture
def cell(tmp_path):
    """Return a cell of 24 prompts with two layers of states, of which the second tells refused prompts."""
    prompts, answers, verdicts = rows_of(VOTES)
    states = np.random.default_rng(0).standard_normal((24, 2, 4)).astype(np.float32)
    states[:12, 1] += 3
    metadata = {"prompts": [prompt["id"] for prompt in prompts], "layers": [0, 1], "model_layers": 2, "width": 4}
    metadata |= {"architecture": "LlamaForCausalLM", "dtype": "float32"}
    metadata["keys"] = [f"key of {name}" for name in metadata["prompts"]]
    write_jsonl(tmp_path / "prompts.jsonl", prompts)
    write_states(tmp_path / "states", states, "F32", metadata)
    cell_file(tmp_path / "scores.parquet", prompts, answers, verdicts, 3)
    paths = {"prompts": tmp_path / "prompts.jsonl", "activations": tmp_path / "states"}
    paths |= {"scores": tmp_path / "scores.parquet"}
    files = {key: {name: str(path) for name, path in paths.items()} for key in ("positive", "negative")}
    return SimpleNamespace(prompts=prompts, states=states, files=files, folder=tmp_path)


def fitted(cell, name="refusal", **changes):
    where = cell.folder / f"{name}.safetensors"
    fit_direction.main(entry(**changes), name, cell.files, str(cell.folder / "store"), str(where), str(where) + ".json")
    return read_direction(where), read_json(str(where) + ".json")


def test_prompts_by_score_are_weighted_by_it(cell):
    (tensors, said), card = fitted(cell)
    assert card["n_left_out"] == {"positive": 0, "negative": 0}
    assert card["n"] == {"positive": 12, "negative": 12} and card["ranking"] == [1, 0] == said["ranking"]
    assert (
        said["prompts"] == sorted(content_sha256(prompt["messages"]) for prompt in cell.prompts)
        and said["direction"] == "refusal"
    )
    clusters = [prompt["cluster"] for prompt in cell.prompts]
    held = held_out_clusters(clusters[:12], clusters[12:], 0.25, 0)
    used = np.array([cluster not in held for cluster in clusters])
    weights = np.where(used, np.tile([1, 1 / 3], 6).tolist() + np.tile([1 / 3, 1], 6).tolist(), 0)
    one, other = (
        np.average(cell.states[part], axis=0, weights=weights[part]) for part in (slice(0, 12), slice(12, 24))
    )
    np.testing.assert_allclose(tensors["direction"], one - other, rtol=1e-4, atol=1e-5)


def test_a_direction_is_read_from_the_store_unless_what_it_is_made_from_changed(cell):
    fitted(cell)
    fitted(cell, name="same")
    assert len(list((cell.folder / "store" / "directions").iterdir())) == 1
    for changes in ({"seed": 1}, {"method": "wrmd"}, {"layers": [1]}, {"positive": side(above=0.5)}):
        fitted(cell, name="other", **changes)
    assert len(list((cell.folder / "store" / "directions").iterdir())) == 5
    fitted(cell, name="other", ridge={"value": 1.0, "relative": True})
    assert len(list((cell.folder / "store" / "directions").iterdir())) == 5, "`wmd` has no ridge"


def test_numbered_clusters_of_two_sources_are_told_apart(cell):
    numbered = [{**prompt, "cluster": str(n % 12)} for n, prompt in enumerate(cell.prompts)]
    write_jsonl(cell.folder / "prompts.jsonl", numbered)
    one, two = ({"positive": "positive", "negative": name} for name in ("positive", "negative"))
    scored = {prompt["id"]: 0.5 if n < 12 else -0.5 for n, prompt in enumerate(cell.prompts)}
    for sources, shared in ((one, 12), (two, 0)):
        found = both_sides(read_parts(entry(sources=sources), cell.files, lambda path: scored), [1])
        assert len(set(found[0].group.clusters) & set(found[1].group.clusters)) == shared
    fitted(cell, name="one", sources=one)
    fitted(cell, name="two", sources=two)
    assert len(list((cell.folder / "store" / "directions").iterdir())) == 2


def test_a_control_is_made_of_the_stored_direction_that_it_is_the_control_of(cell):
    (tensors, said), _ = fitted(cell, method="rmd")
    folder = cell.folder / "store" / "directions"
    before = {path.name for path in folder.iterdir()}
    (control, of_control), card = fitted(cell, name="control", method="random", of="rmd")
    assert len(before) == 1 and len(list(folder.iterdir())) == 2
    real, random = (part["direction"].astype(float) for part in (tensors, control))
    np.testing.assert_allclose(random @ random.T, real @ real.T, rtol=1e-5, atol=1e-5)
    assert (control["controlled"] == tensors["direction"]).all()
    assert of_control["ranking"] == said["ranking"] and of_control["method"] == card["method"] == "random"
    (again, _), _ = fitted(cell, name="again", method="random", of="rmd")
    assert (again["direction"] == control["direction"]).all() and len(list(folder.iterdir())) == 2
    (drawn, of_drawn), _ = fitted(cell, name="drawn", method="random", of="rmd", draw=1)
    assert (drawn["direction"] != control["direction"]).any() and of_drawn["ranking"] == said["ranking"]
    assert len(list(folder.iterdir())) == 3, "another draw is a control of the same direction"
    (other, _), _ = fitted(cell, name="other", method="random", of="md")
    cosine = other["direction"][0] @ random[0] / np.linalg.norm(other["direction"][0]) / np.linalg.norm(random[0])
    assert abs(cosine) < 0.99, "controls of two directions are two draws"


def test_what_cannot_be_fitted_is_reported_in_one_sentence(cell):
    with pytest.raises(UserError, match="model m has 2 layers, 0 to 1: there is no layer 2"):
        fitted(cell, layers=[2])
    with pytest.raises(UserError, match=r"the positive side has 0 prompts \(split s, category x, c\(x\) > 0.15 under"):
        fitted(cell, positive=side(above=0.15, category="x"))
    with pytest.raises(UserError, match="both sides have 6 prompts in common"):
        fitted(cell, negative=side(below=0.5))


def test_a_covariance_of_fewer_than_ten_fitted_prompts_is_refused_unless_it_is_allowed(cell):
    words = r"`wrmd` needs the covariance of the negative side, and that side has 9 prompts to fit on; 10 are needed"
    with pytest.raises(UserError, match=words):
        fitted(cell, method="wrmd", allow_few=False)
    with pytest.raises(UserError, match="`rmd` needs the covariance"):
        fitted(cell, method="random", of="rmd", allow_few=False)
    fitted(cell, method="wmd", allow_few=False)
    fitted(cell, method="wrmd", hold_out=0.1, allow_few=False)


def test_prompts_of_weight_0_are_none_that_a_covariance_rests_on():
    states = np.random.default_rng(0).standard_normal((14, 1, 12)).astype(np.float32)
    group = Group(states, [str(n) for n in range(14)], np.array([1.0] * 8 + [0.0] * 6))
    with pytest.raises(UserError, match=r"has 8 prompts to fit on \(and 6 of weight 0\); 10 are needed"):
        refuse_few(FitMethod("wrmd"), group, False)
    refuse_few(FitMethod("rmd"), group, False)
    said = support(group, group, [0], FitMethod("wrmd"), states[:1, 0])
    assert "8 negative prompts to fit on are fewer than the 12 dimensions" in said["few"][0]


def test_fewer_negative_prompts_than_dimensions_are_in_log_and_card_with_the_share_outside_their_span(cell, caplog):
    states = np.random.default_rng(1).standard_normal((24, 2, 40)).astype(np.float32)
    metadata = read_states(cell.folder / "states").metadata | {"width": 40}
    write_states(cell.folder / "states", states, "F32", metadata)
    (tensors, _), card = fitted(cell, method="rmd")
    clusters = [prompt["cluster"] for prompt in cell.prompts]
    held = held_out_clusters(clusters[:12], clusters[12:], 0.25, 0)
    negative = states[12:][[cluster not in held for cluster in clusters[12:]], 0].astype(float)
    span = scipy.linalg.orth((negative - negative.mean(0)).T)
    vector = tensors["direction"][0] / np.linalg.norm(tensors["direction"][0])
    share = 1 - ((span.T @ vector) ** 2).sum()
    assert share > 0.99 and card["width"] == 40 and card["outside_negative_span"][0]["layer"] == 0
    assert card["outside_negative_span"][0]["share"] == pytest.approx(share, abs=1e-6)
    assert "9 negative prompts to fit on are fewer than the 40 dimensions" in card["few"][0]
    assert card["few"][0] in caplog.text and f"{100 * share:.2f}" in card["few"][0]
    assert fitted(cell, name="control", method="random", of="rmd")[1]["few"] == card["few"]
    assert "outside_negative_span" not in fitted(cell, name="md", method="md")[1]


def test_a_side_of_few_prompts_or_whose_weights_are_worth_few_is_in_log_and_card(cell, caplog):
    _, card = fitted(cell, hold_out=0.1)
    assert card["few"] == [
        "by their weights the 11 prompts of its positive side to fit on are worth only 9.0 equally weighted ones",
        "by their weights the 11 prompts of its negative side to fit on are worth only 9.0 equally weighted ones",
    ]
    assert all(sentence in caplog.text for sentence in card["few"])
    _, card = fitted(cell, name="md", method="md", hold_out=0.8)
    assert card["few"] == [f"its {side} side has only 2 prompts to fit on" for side in ("positive", "negative")]
    assert fitted(cell, name="enough", method="md", hold_out=0.1)[1]["few"] == []


def test_layers_that_held_out_prompts_do_not_tell_apart_are_reported_in_the_log(cell, caplog):
    fitted(cell)
    assert "highest held-out AUC" not in caplog.text
    states = cell.states.copy()
    states[:12, 0] += 9
    metadata = read_states(cell.folder / "states").metadata | {"keys": ["other"] * 24}
    write_states(cell.folder / "states", states, "F32", metadata)
    _, card = fitted(cell, name="other")
    assert "2 layers have the highest held-out AUC, and 3 + 3 held-out prompts do not tell them apart" in caplog.text
    assert card["ranking"] == [0, 1] and card["best_auc_layers"] == 2


def test_cosines_are_between_directions_of_one_model(cell):
    fitted(cell, name="a")
    fitted(cell, name="b", method="random", layers=[1])
    fitted(cell, name="c", model="another")
    paths = [str(cell.folder / f"{name}.safetensors") for name in "abc"]
    compare_directions.main(paths, str(cell.folder / "cosines.csv"))
    (row,) = pd.read_csv(cell.folder / "cosines.csv").to_dict("records")
    assert (row["direction"], row["other"], row["layer"]) == ("a", "b", 1) and abs(row["cosine"]) < 1


def test_separation_has_a_row_for_each_model_layer_and_index(cell):
    asked = {"name": "far", "layers": [1], "draws": 30, "seed": 0}
    asked |= SIDES
    output = str(cell.folder / "far.csv")
    measure_separation.main(asked, {"m": cell.files, "n": cell.files}, output)
    rows = pd.read_csv(output)
    assert list(rows.columns) == measure_separation.COLUMNS and len(rows) == 2 * 6
    assert (rows["n_positive"] == 12).all() and (rows["layer"] == 1).all()
    assert (rows[rows["index"] == "auc"]["value"] == 1.0).all()
    measure_separation.main(asked, {"m": cell.files, "n": cell.files}, output + "2")
    assert (cell.folder / "far.csv").read_bytes() == (cell.folder / "far.csv2").read_bytes()
    with pytest.raises(UserError, match="separation far, model m: model m has 2 layers"):
        measure_separation.main(asked | {"layers": [5]}, {"m": cell.files}, output)


def test_aqi_has_a_row_for_each_model_and_axiom_of_the_layer(cell):
    for place, prompt in enumerate(cell.prompts):
        prompt["category"] = "b" if place % 12 < 4 else "a"
    write_jsonl(cell.folder / "prompts.jsonl", cell.prompts)
    asked = {"name": "far", "layer": None, "gamma": 0.5, "perplexity": 10, "seed": 0}
    asked |= SIDES
    outputs = [cell.folder / name for name in ("aqi.csv", "again.csv")]
    for output in outputs:
        measure_aqi.main(asked, {"m": cell.files, "n": cell.files}, str(output))
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    rows = pd.read_csv(outputs[0])
    assert list(rows.columns) == measure_aqi.COLUMNS and list(rows["model"]) == ["m"] * 3 + ["n"] * 3
    assert list(rows["axiom"]) == ["a", "b", "overall"] * 2 and (rows["layer"] == 1).all()
    assert list(rows["n_positive"][:3]) == list(rows["n_negative"][:3]) == [8, 4, 12]
    assert list(rows["note"].notna()[:3]) == [False, True, False]
    with pytest.raises(UserError, match="separation far, aqi, model m: model m has 2 layers, 0 to 1: there is no"):
        measure_aqi.main(asked | {"layer": 2}, {"m": cell.files}, str(outputs[0]))
    with pytest.raises(UserError, match=r"separation far, aqi, model m: 12 \+ 12 prompts, and t-SNE of perplexity 50"):
        measure_aqi.main(asked | {"perplexity": None}, {"m": cell.files}, str(outputs[0]))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_separation_of_states_that_are_not_finite_is_refused_as_a_fit_is(cell, value):
    states = cell.states.copy()
    states[3, 1, 2] = value
    write_states(cell.folder / "states", states, "F32", read_states(cell.folder / "states").metadata)
    asked = {"name": "far", "layers": None, "draws": 30, "seed": 0}
    asked |= SIDES
    for reported in (
        lambda: measure_separation.main(asked, {"m": cell.files}, str(cell.folder / "far.csv")),
        lambda: fitted(cell),
    ):
        with pytest.raises(UserError, match="layer 1 has activations that are not finite"):
            reported()
    assert not (cell.folder / "far.csv").exists()


def test_a_fit_of_large_activations_asks_for_more_memory(tmp_path):
    for name, size in (("small", 10**6), ("large", 3 * 10**9)):
        with open(tmp_path / name, "wb") as handle:
            handle.truncate(size)  # without taking room on the disk
    small, large, missing = (
        {"positive": {"activations": str(tmp_path / name)}, "negative": {"activations": str(tmp_path / "small")}}
        for name in ("small", "large", "missing")
    )
    assert megabytes(small) == megabytes(missing) == 8000
    assert megabytes(large) == megabytes(small, large) == 4000 + 3 * 3001
