"""Directions: the formulas, what is held out, and which prompts are on which side."""

import itertools
import json
import tracemalloc

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save

from refusal_eval.activations.sides import SidePart, content_sha256, is_on, left_out, refuse_shared, side_prompts
from refusal_eval.activations.tensor_files import StateFile
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import BadFile, write_jsonl
from refusal_eval.features.steering.direction_files import TENSORS, kept_or_fitted, read_direction, write_direction
from refusal_eval.features.steering.directions import (
    FitMethod,
    Group,
    auc,
    cohens_d,
    control_of,
    fit,
    made_from,
)
from refusal_eval.features.steering.held_out import held_out_clusters
from refusal_eval.features.steering.intervention_file import read_compiled

LAYERS = [3, 7, 9]
WIDTH = 5


def group(count, shift=0.0, seed=0, name="p", clusters=None, weights=None):
    """Return random prompts whose middle layer alone is shifted."""
    states = np.random.default_rng(seed).standard_normal((count, len(LAYERS), WIDTH)).astype(np.float32)
    states[:, 1] += shift
    weights = np.ones(count) if weights is None else weights
    return Group(states, clusters or [f"{name}{number}" for number in range(count)], weights)


def fitted_parts(positive, negative, hold_out=0.25, seed=0):
    """Return the states and weights that a fit may use: what is not held out."""
    held = held_out_clusters(positive.clusters, negative.clusters, hold_out, seed)
    parts = []
    for side in (positive, negative):
        keep = [number for number, cluster in enumerate(side.clusters) if cluster not in held]
        parts.append((side.states[keep].astype(float), side.weights[keep]))
    return parts


def by_hand(method, positive, negative, layer, ridge=0.01, relative=False):
    """Return a layer's vector, written down again from the formulas, with an explicit inverse."""
    (p, wp), (n, wn) = ((states[:, layer], weights) for states, weights in (positive, negative))
    if method in ("md", "rmd"):
        wp, wn = np.ones(len(p)), np.ones(len(n))
    mean_p = sum(w * h for w, h in zip(wp, p, strict=True)) / sum(wp)
    mean_n = sum(w * h for w, h in zip(wn, n, strict=True)) / sum(wn)
    delta = mean_p - mean_n
    if method in ("md", "wmd"):
        return delta
    sigma = sum(w * np.outer(h - mean_n, h - mean_n) for w, h in zip(wn, n, strict=True)) / sum(wn)
    add = ridge * (np.trace(sigma) / len(sigma) if relative else 1)
    v = np.linalg.inv(sigma + add * np.eye(len(sigma))) @ delta
    return v / np.linalg.norm(v) * np.linalg.norm(delta)


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("name", ["md", "wmd", "rmd", "wrmd"])
def test_each_method_is_its_formula(name, relative):
    positive = group(9, 2.0, seed=1, weights=np.linspace(0.2, 1, 9))
    negative = group(8, 0.0, seed=2, name="n", weights=np.linspace(1, 0.3, 8))
    fitted = fit(positive, negative, LAYERS, FitMethod(name, 0.5, relative), 0.25, 0)
    parts = fitted_parts(positive, negative)
    for layer in range(len(LAYERS)):
        np.testing.assert_allclose(fitted.direction[layer], by_hand(name, *parts, layer, 0.5, relative), rtol=1e-5)
    assert fitted.direction.dtype == fitted.mean_positive.dtype == fitted.mean_negative.dtype == np.float32


def test_ridge_with_more_dimensions_than_prompts_is_still_solved():
    positive, negative = group(6, 2.0, seed=1), group(4, seed=2, name="n")
    fitted = fit(positive, negative, LAYERS, FitMethod("rmd", 0.01), 0.25, 0)
    np.testing.assert_allclose(
        fitted.direction[1], by_hand("rmd", *fitted_parts(positive, negative), 1, 0.01), rtol=1e-5
    )


def test_a_ridge_that_is_too_small_is_reported_and_a_poor_one_is_in_the_log(caplog):
    negative = group(4, seed=2, name="n")
    negative.states[:, :, 1] = negative.states[:, :, 0]  # without a ridge there is no inverse
    positive = group(6, 2.0, seed=1)
    for value in (1e-300, 1e-17):
        with pytest.raises(
            UserError, match=rf"at layer \d the covariance .* with `ridge.value` {value:g}; take a larger"
        ):
            fit(positive, negative, LAYERS, FitMethod("rmd", value), 0.25, 0)
    fit(positive, negative, LAYERS, FitMethod("rmd", 0.01), 0.25, 0)
    assert caplog.text == ""
    fit(positive, negative, LAYERS, FitMethod("rmd", 3e-16), 0.25, 0)
    assert "layer 3: " in caplog.text and "a larger `ridge.value` than 3e-16 helps" in caplog.text


def test_weighted_methods_with_equal_weights_are_the_plain_ones():
    positive, negative = group(8, 1.0, weights=np.full(8, 0.4)), group(8, seed=2, name="n", weights=np.full(8, 0.4))
    for plain, weighted in (("md", "wmd"), ("rmd", "wrmd")):
        one, other = (fit(positive, negative, LAYERS, FitMethod(name), 0.25, 0).direction for name in (plain, weighted))
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_a_neutral_offset_changes_no_direction():
    """The paper subtracts the mean of neutral prompts first; it cancels."""
    offset = np.float32(3.5)
    for name in ("md", "wmd", "rmd", "wrmd"):
        vectors = []
        for shift in (0, offset):
            weights = np.linspace(0.2, 1, 8)
            sides = [group(8, 1.0, 1, "p", None, weights), group(8, 0.0, 2, "n", None, weights)]
            moved = [Group(side.states - shift, side.clusters, side.weights) for side in sides]
            vectors.append(fit(*moved, LAYERS, FitMethod(name), 0.25, 0).direction)
        np.testing.assert_allclose(*vectors, rtol=1e-3, atol=1e-5)


def parallel_sides(width=256, layers=6, seed=3):
    """Return two groups whose differences of means are nearly parallel at neighbouring layers, as in real models."""
    rng, common = np.random.default_rng(seed), np.random.default_rng(9).standard_normal(width)
    sides = []
    for name, shift in (("p", 2.0), ("n", 0.0)):
        states = rng.standard_normal((40, layers, width))
        states += shift * (common + 0.4 * np.random.default_rng(1).standard_normal((layers, width)))
        sides.append(Group(states.astype(np.float32), [f"{name}{row}" for row in range(40)], rng.random(40)))
    return sides


@pytest.mark.parametrize("of", ["md", "wmd", "rmd", "wrmd"])
def test_a_control_keeps_the_lengths_the_angles_between_layers_and_the_ranking(of):
    sides, layers = parallel_sides(), list(range(6))
    fitted = fit(*sides, layers, FitMethod(of), 0.25, 0)
    control = control_of(fitted, *sides, layers, 0.25, 0, "a" * 64, 0)
    real, random = (part.direction.astype(np.float64) for part in (fitted, control))
    gram = real @ real.T
    np.testing.assert_allclose(random @ random.T, gram, rtol=1e-6, atol=1e-6 * gram.max())
    assert gram[0, 1] / np.sqrt(gram[0, 0] * gram[1, 1]) > 0.5, "layers that are not alike would show nothing"
    for used in ([0, 1, 2, 3], layers):  # what a model's stream has gathered after some of the layers
        added = [np.linalg.norm(part[used].sum(axis=0)) for part in (real, random)]
        assert added[1] == pytest.approx(added[0], rel=1e-6)
    cosines = real @ random.T / np.outer(*(np.linalg.norm(part, axis=1) for part in (real, random)))
    assert np.abs(cosines).max() < 0.25
    assert control.ranking == fitted.ranking
    assert (control.mean_negative == fitted.mean_negative).all()
    assert (control.mean_positive == fitted.mean_positive).all()
    assert all(
        0.0 <= layer["held_out_auc"] <= 1.0 and layer["split_half_cosine"] is None for layer in control.card["layers"]
    )
    assert [layer["norm"] for layer in control.card["layers"]] == pytest.approx(np.linalg.norm(random, axis=1))


def test_a_control_is_another_for_another_draw_and_for_another_direction():
    sides, layers = parallel_sides(), list(range(6))
    fitted = fit(*sides, layers, FitMethod("md"), 0.25, 0)
    one, same, drawn, of_other = (
        control_of(fitted, *sides, layers, 0.25, 0, made, draw).direction.astype(np.float64)
        for draw, made in ((0, "a" * 64), (0, "a" * 64), (1, "a" * 64), (0, "b" * 64))
    )
    assert (one == same).all()
    for other in (drawn, of_other):
        assert abs(one[0] @ other[0]) < 0.25 * np.linalg.norm(one[0]) * np.linalg.norm(other[0])


def test_a_control_of_more_layers_than_dimensions_keeps_them_too():
    sides = parallel_sides(width=4)
    fitted = fit(*sides, list(range(6)), FitMethod("md"), 0.25, 0)
    control = control_of(fitted, *sides, list(range(6)), 0.25, 0, "a" * 64, 0)
    real, random = (part.direction.astype(np.float64) for part in (fitted, control))
    np.testing.assert_allclose(random @ random.T, real @ real.T, rtol=1e-5, atol=1e-5)


def test_held_out_prompts_never_enter_the_vector():
    positive, negative = group(12, 1.0), group(12, seed=2, name="n")
    held = held_out_clusters(positive.clusters, negative.clusters, 0.25, 0)
    assert len(held) == 6
    before = fit(positive, negative, LAYERS, FitMethod("rmd"), 0.25, 0)
    for side in (positive, negative):
        for row, cluster in enumerate(side.clusters):
            if cluster in held:
                side.states[row] += 100
    after = fit(positive, negative, LAYERS, FitMethod("rmd"), 0.25, 0)
    for name, tensor in before.tensors().items():
        assert (tensor == after.tensors()[name]).all()


def test_prompts_of_one_cluster_stay_together_on_both_sides():
    pairs = [f"pair{number}" for number in range(8)]
    held = held_out_clusters(pairs, pairs, 0.25, 0)
    assert len(held) == 2
    positive, negative = group(8, 1.0, clusters=pairs), group(8, seed=2, clusters=pairs)
    card = fit(positive, negative, LAYERS, FitMethod("md"), 0.25, 0).card
    assert card["n_held_out"] == {"positive": 2, "negative": 2}
    assert card["n_fitted"] == {"positive": 6, "negative": 6}


def test_each_side_has_clusters_to_fit_on_and_held_out_ones_however_few_are_shared():
    names = "abcd"
    sides = [set(some) for count in (2, 3, 4) for some in itertools.combinations(names, count)]
    for positive, negative, share, seed in itertools.product(sides, sides, (0.1, 0.5, 0.9), range(4)):
        held = held_out_clusters(sorted(positive), sorted(negative), share, seed)
        for side in (positive, negative):
            assert side & held and side - held, (positive, negative, share, seed)


def test_layers_are_ranked_by_prompts_that_the_vector_never_saw():
    fitted = fit(group(40, 3.0), group(40, seed=2, name="n"), LAYERS, FitMethod("md"), 0.25, 0)
    assert fitted.ranking[0] == 7 and sorted(fitted.ranking) == LAYERS
    by_layer = {layer["layer"]: layer for layer in fitted.card["layers"]}
    assert by_layer[7]["held_out_auc"] == 1.0
    assert by_layer[7]["split_half_cosine"] > 0.9 > by_layer[3]["split_half_cosine"]


def test_of_layers_with_equal_areas_the_one_that_is_further_apart_comes_first():
    sides = group(40, 6.0), group(40, seed=2, name="n")
    sides[0].states[:, 0] += 12.0
    sides[0].states[:, 2] += 20.0
    fitted = fit(*sides, LAYERS, FitMethod("md"), 0.25, 0)
    assert [layer["held_out_auc"] for layer in fitted.card["layers"]] == [1.0, 1.0, 1.0]
    assert fitted.ranking == [9, 3, 7] and fitted.card["best_auc_layers"] == 3
    reported = [layer["held_out_cohens_d"] for layer in fitted.card["layers"]]
    assert reported[2] > reported[0] > reported[1] > 0


def test_cohens_d_is_its_formula_and_none_without_spread():
    one, other = np.array([3.0, 5.0, 7.0]), np.array([0.0, 2.0])
    assert cohens_d(one, other) == pytest.approx((5 - 1) / np.sqrt((2 * 4 + 1 * 2) / 3))
    assert cohens_d(one, other) == pytest.approx(-cohens_d(other, one))
    assert cohens_d(one[:1], other[:1]) is None and cohens_d(np.ones(3), np.zeros(3)) is None


def test_permuted_labels_separate_nothing():
    everything = group(200, seed=5)
    values = []
    for seed in range(40):
        order = np.random.default_rng(seed).permutation(200)
        one, other = (
            Group(everything.states[part], [f"{i}" for i in part], np.ones(100)) for part in (order[:100], order[100:])
        )
        values += [
            layer["held_out_auc"] for layer in fit(one, other, LAYERS, FitMethod("md"), 0.25, seed).card["layers"]
        ]
    assert np.mean(values) == pytest.approx(0.5, abs=0.02)


def test_auc_counts_pairs_and_half_of_ties():
    assert auc(np.array([1.0, 2.0, 2.0]), np.array([0.0, 2.0])) == (1 * 1 + 1 + 1 + 0.5 + 0.5) / 6
    assert auc(np.ones(3), np.ones(4)) == 0.5


def test_a_side_with_too_few_prompts_is_refused():
    with pytest.raises(UserError, match="the positive side has 1 prompts to fit on, and needs 2"):
        fit(group(2), group(8, name="n"), LAYERS, FitMethod("md"), 0.25, 0)
    with pytest.raises(UserError, match="the prompts of the negative side are one cluster, and two are needed"):
        fit(group(8), group(8, clusters=["same"] * 8), LAYERS, FitMethod("md"), 0.25, 0)


def test_states_that_give_no_direction_are_refused():
    same = np.ones((6, 3, WIDTH), np.float32)
    with pytest.raises(UserError, match="at layer 3 both sides have the same mean"):
        sides = [Group(same, list(names), np.ones(6)) for names in ("abcdef", "ghijkl")]
        fit(*sides, LAYERS, FitMethod("md"), 0.25, 0)
    broken = group(6)
    broken.states[2, 1, 0] = np.nan
    with pytest.raises(UserError, match="layer 7 has activations that are not finite"):
        fit(broken, group(6, name="n"), LAYERS, FitMethod("md"), 0.25, 0)


# ---------------------------------------------------------------- sides


def prompt(name, category=None):
    return {
        "id": name,
        "messages": [{"role": "user", "content": name}],
        "category": category,
        "cluster": f"of {name}",
    }


PROMPTS = [prompt("d", "x"), prompt("b", "y"), prompt("a", "x"), prompt("c", "y")]
STATES = np.arange(4 * 3 * WIDTH, dtype=np.float32).reshape(4, 3, WIDTH)
FILE = StateFile(STATES, "F32", {"prompts": ["a", "b", "c", "d"], "layers": LAYERS, "keys": list("ABCD")})


def on_side(name, entry, prompts=None, file=None, scores=None, out=(), layers=LAYERS, weighted=False):
    """Return the prompts of a side of one group."""
    part = SidePart(name, entry, PROMPTS if prompts is None else prompts, file or FILE, scores, out)
    return side_prompts(name, [part], layers, weighted)


def test_a_side_is_a_split_a_category_or_its_prompts_by_score():
    whole = on_side("positive", {"split": "s"}, layers=[7])
    assert whole.prompts == ["a", "b", "c", "d"] and (whole.group.states[:, 0] == STATES[:, 1]).all()
    part = on_side("positive", {"split": "s", "category": "x"})
    assert part.prompts == ["a", "d"] and part.group.clusters == ["of a", "of d"]
    scores = {"a": 0.9, "b": 0.2, "c": 0.1}  # none for d: no answer of it was judged
    side = {"split": "s", "judge": "j", "above": 0.15}
    scored = on_side("positive", side, scores=scores, weighted=True)
    assert scored.prompts == ["a", "b"] and scored.group.weights.tolist() == [0.9, 0.2]
    assert not is_on({"split": "s", "judge": "j", "below": 0.1}, PROMPTS[3], scores), "below is strictly below"


def test_prompts_of_other_splits_can_be_left_out_by_their_content(tmp_path, caplog):
    caplog.set_level("INFO")
    again = prompt(" B\n", "y") | {"id": "another", "category": "z"}
    write_jsonl(tmp_path / "evaluated.jsonl", [again, prompt("e", "x")])
    out = left_out({"prompts": "p.jsonl", "without evaluated": str(tmp_path / "evaluated.jsonl")})
    side = {"split": "s", "without": ["evaluated"]}
    found = on_side("positive", side, out=out)
    assert found.prompts == ["a", "c", "d"] and found.left_out == 1
    assert "1 of 4 prompts of the positive side are left out (split s, without evaluated)" in caplog.text
    assert left_out({"prompts": "p.jsonl"}) == set()


def test_what_the_user_asks_last_counts_whatever_comes_before(tmp_path):
    system = {"role": "system", "content": "Be kind."}
    framed = [{**prompt, "messages": [system, *prompt["messages"]]} for prompt in PROMPTS]
    whole = on_side("positive", {"split": "s"}, framed)
    assert whole.asked >= {content_sha256(prompt["messages"]) for prompt in PROMPTS}
    write_jsonl(tmp_path / "evaluated.jsonl", [prompt("b")])
    out = left_out({"prompts": "p.jsonl", "without evaluated": str(tmp_path / "evaluated.jsonl")})
    side = {"split": "s", "without": ["evaluated"]}
    assert on_side("positive", side, framed, out=out).prompts == ["a", "c", "d"]


def test_answers_of_one_prompt_are_averaged():
    file = StateFile(STATES, "F32", {"prompts": ["a", "a", "b", "d"], "layers": LAYERS, "keys": list("ABCD")})
    side = on_side("positive", {"split": "s"}, file=file)
    assert side.prompts == ["a", "b", "d"]
    np.testing.assert_allclose(side.group.states[0], (STATES[0] + STATES[1]) / 2)
    assert side.facts[0] == {"keys": ["A", "B"], "cluster": "of a", "weight": 1.0}


def test_the_states_of_a_side_are_read_one_layer_at_a_time():
    rows, layers, width = 40, 64, 512
    bits = np.random.default_rng(0).integers(0, 2**15, (rows, layers, width)).astype(np.uint16)
    ids = [f"p{number:02d}" for number in range(rows)]
    metadata = {"prompts": ids, "layers": list(range(layers)), "keys": ids}
    file = StateFile(bits, "BF16", metadata)
    tracemalloc.start()
    side = on_side("positive", {"split": "s"}, [prompt(name) for name in ids], file, layers=range(layers))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.2 * side.group.states.nbytes
    assert (side.group.states.view(np.uint32) == bits.astype(np.uint32) << 16).all()


def test_a_side_with_fewer_than_two_prompts_says_which_it_was():
    side = {"split": "s", "judge": "j", "above": 0.5}
    with pytest.raises(UserError) as reported:
        on_side("negative", side, scores={"a": 0.9})
    assert str(reported.value) == (
        "the negative side has 1 prompt (split s, c(x) > 0.5 under judge j); at least two prompts are needed on "
        "each side"
    )


def test_sides_that_share_prompts_are_refused_by_content():
    whole = on_side("positive", {"split": "s"})
    part = on_side("negative", {"split": "s", "category": "x"})
    with pytest.raises(UserError, match="both sides have 2 prompts in common"):
        refuse_shared(whole, part)
    assert whole.contents == [content_sha256(prompt(name)["messages"]) for name in "abcd"]


# ---------------------------------------------------------------- files


def test_a_direction_is_fitted_once_whatever_a_later_fit_would_give(tmp_path):
    first = fit(group(8, 1.0), group(8, seed=2, name="n"), LAYERS, FitMethod("md"), 0.25, 0)
    other = fit(group(8, 2.0), group(8, seed=3, name="n"), LAYERS, FitMethod("md"), 0.25, 0)
    kept = [kept_or_fitted(tmp_path, "a" * 64, lambda fitted=fitted: fitted) for fitted in (first, other)]
    assert (kept[0].direction == first.direction).all() and (kept[1].direction == first.direction).all()
    assert kept[1].ranking == first.ranking and kept[1].card == first.card


def test_of_two_studies_that_fit_at_once_both_have_what_the_first_stored(tmp_path):
    first = fit(group(8, 1.0), group(8, seed=2, name="n"), LAYERS, FitMethod("md"), 0.25, 0)
    slower = fit(group(8, 2.0), group(8, seed=3, name="n"), LAYERS, FitMethod("md"), 0.25, 0)

    def overtaken():
        kept_or_fitted(tmp_path, "a" * 64, lambda: first)
        return slower

    found = kept_or_fitted(tmp_path, "a" * 64, overtaken)
    assert (found.direction == first.direction).all()
    assert [path.name for path in (tmp_path / "directions").iterdir()] == ["a" * 64 + ".safetensors"]


def test_what_a_direction_is_made_from_names_it():
    sides = {"positive": [{"keys": ["A"], "cluster": "a", "weight": 1.0}], "negative": []}
    name = made_from(sides, method="md", layers=[1], hold_out=0.25, seed=0)
    assert name == made_from(sides, layers=[1], method="md", seed=0, hold_out=0.25)
    assert name != made_from(sides, method="md", layers=[1], hold_out=0.25, seed=1)


def test_a_file_of_a_direction_holds_three_tensors_and_one_json_value(tmp_path):
    fitted = fit(group(8, 1.0), group(8, seed=2, name="n"), LAYERS, FitMethod("md"), 0.25, 0)
    for name in ("one", "two"):
        write_direction(tmp_path / name, fitted.tensors(), {"version": 1, "layers": LAYERS})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    with safe_open(str(tmp_path / "one"), "numpy") as file:
        assert set(file.keys()) == {"direction", "mean_positive", "mean_negative"}
        assert {name: json.loads(value) for name, value in file.metadata().items()} == {
            "refusal_eval": {"version": 1, "layers": LAYERS}
        }
    (tmp_path / "one").write_bytes(b"no safetensors")
    with pytest.raises(BadFile, match="is not a direction"):
        read_direction(tmp_path / "one")


def test_a_side_whose_prompts_have_no_weight_is_refused():
    weightless = group(8, 1.0, weights=np.zeros(8))
    with pytest.raises(UserError, match="none has a weight"):
        fit(weightless, group(8, seed=2, name="n"), LAYERS, FitMethod("wmd"), 0.25, 0)
    assert fit(weightless, group(8, seed=2, name="n"), LAYERS, FitMethod("md"), 0.25, 0).ranking


@pytest.mark.parametrize("said", [{"width": 3}, {"width": 3, "layers": 1}, [], {"card": {}}])
def test_a_direction_whose_metadata_is_damaged_is_to_be_deleted(tmp_path, said):
    path = tmp_path / "directions" / "x.safetensors"
    path.parent.mkdir()
    path.write_bytes(save({name: np.ones((1, 3), np.float32) for name in TENSORS}, {"refusal_eval": json.dumps(said)}))
    with pytest.raises(BadFile, match=r"is not a direction: .*; delete it and run again"):
        kept_or_fitted(tmp_path, "x", lambda: None)


@pytest.mark.parametrize("lacks", ["gate", "layers", "mode", "version"])
def test_a_compiled_intervention_whose_metadata_is_damaged_is_to_be_deleted(tmp_path, lacks):
    spec = {key: 1 for key in ("gate", "layers", "mode", "version") if key != lacks}
    path = tmp_path / "x.safetensors"
    path.write_bytes(save({"a": np.ones(3, np.float32)}, {"refusal_eval": json.dumps(spec)}))
    with pytest.raises(UserError, match=r"is not a compiled intervention .*; delete it and run again"):
        read_compiled(path)
