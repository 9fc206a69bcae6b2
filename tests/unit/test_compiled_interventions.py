"""Compiled interventions: their tensors against plain arithmetic, their hash, and what a load is started with."""

import ast
import asyncio
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import compile_intervention
import numpy as np
import pytest
from config_project import validated
from direction_files import control_of, random_direction
from engine_entries import engine_of, settings_of
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from refusal_eval.activations import sides
from refusal_eval.ask.pending import Pending
from refusal_eval.ask.requests import Ask, Request, RequestSettings, read_requests, write_requests
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import canonical_json, read_json, write_json
from refusal_eval.engines.engine_base import EngineLoad
from refusal_eval.engines.load_plan import LoadPlan
from refusal_eval.features.steering import steering_words
from refusal_eval.features.steering.direction_entry import Method
from refusal_eval.features.steering.direction_files import read_direction
from refusal_eval.features.steering.intervention import MODES as COMPILED
from refusal_eval.features.steering.intervention import (
    FittedDirection,
    compiled,
    ranking_of,
    refuse_other_model,
    write_intervention,
)
from refusal_eval.features.steering.intervention_entry import MODES, Intervention
from refusal_eval.features.steering.intervention_file import CompiledIntervention, intervention_sha256, read_compiled
from refusal_eval.features.steering.loaded_intervention import (
    LoadedIntervention,
    gate_counts,
    proven,
    refuse_nothing_passed,
    sha256_asked,
)
from refusal_eval.features.steering.steering_change import refuse_fitted
from refusal_eval.features.steering.steering_files import steered_models
from refusal_eval.features.steering.steering_words import intervention_text
from refusal_eval.report.methods.methods_section import how_asked
from refusal_eval.report.methods.side_words import position_text
from refusal_eval.study.batches import Cell
from refusal_eval.study.study import Study
from refusal_eval.workflow.generation import loaded_files, request_params

LAYERS, SMALL = [2, 3, 5], {"model_layers": 8, "width": 16}
NEUTRAL: dict[str, Any] = {"scale": None, "gate": None, "offset": "none", "towards": "negative"}
IDENTITY = {"repo": "org/model", "commit": "a" * 40, "dtype": "bfloat16"}
ENGINE, SAMPLING = {"engine_id": "e", "identity": IDENTITY}, {"max_tokens": 48, "temperature": 1.0}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    random_direction(tmp_path / "refusal.safetensors", LAYERS, **SMALL, ranking=[5, 2, 3])
    return tmp_path / "refusal.safetensors"


def parts(file: Path, **asked: Any) -> dict[str, np.ndarray]:
    return compiled([FittedDirection.of_file(file)], NEUTRAL | {"layers": [3], **asked})[1]


# ---------------------------------------------------------------- what is compiled


def steered(mode: str, tensors: dict[str, np.ndarray], h: np.ndarray, gate: float = 0.0) -> np.ndarray:
    """Return the stream as the worker's formulas make it of a compiled file."""
    part = {name.split(".")[1]: tensor.astype(np.float64) for name, tensor in tensors.items()}
    if mode == "add":
        return h + part["add"]
    if mode == "ablate":
        return h - (h @ part["unit"] - part["offset"])[:, None] * part["remove"]
    if mode == "gated":
        cosine = h @ part["unit"] / np.linalg.norm(h, axis=1)
        return np.where((cosine > gate)[:, None], h + part["add"], h)
    if mode == "constellation":
        cosines = h @ part["units"].T / np.linalg.norm(h, axis=1, keepdims=True)
        moved = h + part["share"] * (part["targets"][cosines.argmax(1)] - h)
        return np.where(cosines.max(1, keepdims=True) > gate, moved, h)
    return h + part["share"] * (part["target"] - h)


@pytest.mark.parametrize("scale", [-0.5, 0.0, 2.0])
def test_each_mode_does_to_the_stream_what_its_formula_says(file: Path, scale: float) -> None:
    direction, h = load_file(file), np.random.default_rng(1).normal(0, 3, (20, 16))
    v, plus, minus = (direction[name][1].astype(np.float64) for name in ("direction", "mean_positive", "mean_negative"))
    u = v / np.linalg.norm(v)
    cosines = np.array([row @ v / np.sqrt(row @ row) / np.sqrt(v @ v) for row in h])
    expected = {
        "add": h + scale * v,
        "ablate": h - scale * np.outer(h @ u, u),
        "gated": np.stack([row + scale * v if c > 0.1 else row for row, c in zip(h, cosines, strict=True)]),
        "pull": (1 - scale) * h + scale * minus,
    }
    for mode, wanted in expected.items():
        gate = 0.1 if mode == "gated" else None
        found = steered(mode, parts(file, mode=mode, scale=scale, gate=gate), h, 0.1)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)
        assert not scale or not np.allclose(found, h)
    positive = steered("pull", parts(file, mode="pull", scale=scale, towards="positive"), h)
    np.testing.assert_allclose(positive, (1 - scale) * h + scale * plus, rtol=0, atol=1e-5)


def test_ablation_leaves_nothing_along_the_direction_or_the_midpoints_share(file: Path) -> None:
    direction, h = load_file(file), np.random.default_rng(1).normal(0, 3, (20, 16))
    v = direction["direction"][1].astype(np.float64)
    u, middle = v / np.linalg.norm(v), (direction["mean_positive"][1] + direction["mean_negative"][1]) / 2
    for offset, left in (("none", 0.0), ("midpoint", middle @ u)):
        found = steered("ablate", parts(file, mode="ablate", offset=offset), h)
        np.testing.assert_allclose(found @ u, left, rtol=0, atol=1e-5)
        across = np.eye(16) - np.outer(u, u)
        np.testing.assert_allclose(found @ across, h @ across, rtol=0, atol=1e-5)


@pytest.fixture
def neutral(tmp_path: Path) -> Path:
    """Return a direction with neutral prompts."""
    random_direction(tmp_path / "neutral.safetensors", LAYERS, **SMALL, ranking=[5, 2, 3], neutral=True)
    return tmp_path / "neutral.safetensors"


@pytest.mark.parametrize("scale", [-0.5, 0.0, 2.0])
def test_reposition_sets_the_component_to_that_of_neutral_prompts_and_adds_the_step(
    neutral: Path, scale: float
) -> None:
    direction, h = load_file(neutral), np.random.default_rng(1).normal(0, 3, (20, 16))
    v, o = (direction[name][1].astype(np.float64) for name in ("direction", "mean_neutral"))
    u = v / np.linalg.norm(v)
    wanted = np.stack([row - (row - o) @ u * u + scale * v for row in h])
    found = steered("ablate", parts(neutral, mode="reposition", scale=scale), h)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("alpha", "side"), [(-0.5, 1), (0.75, 0)])
def test_alpha_is_a_step_of_the_directions_own_ratio_along_the_unit_vector(
    neutral: Path, alpha: float, side: int
) -> None:
    direction, h = load_file(neutral), np.random.default_rng(1).normal(0, 3, (20, 16))
    with safe_open(neutral, "numpy") as opened:
        s = json.loads(opened.metadata()["refusal_eval"])["scales"][1][side]
    v, o = (direction[name][1].astype(np.float64) for name in ("direction", "mean_neutral"))
    u = v / np.linalg.norm(v)
    step, scale = alpha * s * u, {"alpha": alpha, "by": "quantile"}
    np.testing.assert_allclose(steered("add", parts(neutral, mode="add", scale=scale), h), h + step, rtol=0, atol=1e-5)
    moved = np.stack([row - (row - o) @ u * u + step for row in h])
    found = steered("ablate", parts(neutral, mode="reposition", scale=scale), h)
    np.testing.assert_allclose(found, moved, rtol=0, atol=1e-5)
    gated = steered("gated", parts(neutral, mode="gated", scale=scale, gate=0.1), h, 0.1)
    passed = [row @ u / np.linalg.norm(row) > 0.1 for row in h]
    np.testing.assert_allclose(gated, h + np.outer(passed, step), rtol=0, atol=1e-5)


def test_what_counts_from_neutral_prompts_needs_a_direction_with_some(file: Path) -> None:
    for asked in ({"mode": "reposition", "scale": 1.0}, {"mode": "add", "scale": {"alpha": 1.0, "by": "quantile"}}):
        with pytest.raises(UserError, match="needs a direction with neutral prompts"):
            parts(file, **asked)
    with pytest.raises(
        UserError, match=r"refusal.safetensors has no ranking by correlation: it has no neutral prompts"
    ):
        parts(file, mode="add", scale=1.0, layers={"best": 1, "by": "correlation"})


def test_layers_are_ranked_by_correlation_and_the_deepest_left_out(neutral: Path) -> None:
    def chosen(**layers: Any) -> list[int]:
        asked = NEUTRAL | {"mode": "add", "scale": 1.0, "layers": layers}
        found: list[int] = compiled([FittedDirection.of_file(neutral)], asked)[0]["layers"]
        return found

    assert chosen(best=1) == [5] == chosen(best=1, by="correlation") and chosen(best=2) == [2, 5]
    assert chosen(best=2, by="correlation") == [3, 5]
    # Of 8 layers those from round(8 * 0.8) - 1 = 5 on are left out.
    assert chosen(best=1, drop_deepest=0.2) == [2] and chosen(best=1, by="correlation", drop_deepest=0.2) == [3]
    with pytest.raises(UserError, match=r"`best: 3` asks for more layers than .* ranks \(2 without the deepest\)"):
        chosen(best=3, drop_deepest=0.2)


def test_the_best_layers_are_the_first_of_the_ranking_in_the_models_order(file: Path) -> None:
    spec, tensors = compiled(
        [FittedDirection.of_file(file)], NEUTRAL | {"mode": "add", "scale": 1.0, "layers": {"best": 2}}
    )
    assert spec["layers"] == [2, 5] and sorted(tensors) == ["2.add", "5.add"]


# ---------------------------------------------------------------- a constellation

CONSTELLATION: dict[str, Any] = {"mode": "constellation", "layers": [3], "scale": 0.5, "gate": 0.2}
N = {"positive": 12, "negative": 8}


@pytest.fixture
def constellation(tmp_path: Path) -> list[Path]:
    """Return the directions of three tasks."""
    rankings = {"translate": [5, 2, 3], "mood": [3, 2, 5], "reword": [3, 5, 2]}
    paths = [tmp_path / f"{name}.safetensors" for name in rankings]
    for seed, path in enumerate(paths):
        random_direction(path, LAYERS, seed, **SMALL, ranking=rankings[path.stem])
    return paths


def of_tasks(paths: list[Path], **asked: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    return compiled([FittedDirection.of_file(path) for path in paths], NEUTRAL | CONSTELLATION | asked)


@pytest.mark.parametrize("scale", [0.0, 0.5, 1.0])
def test_each_token_moves_towards_the_answered_mean_of_the_task_that_it_is_like(
    constellation: list[Path], scale: float
) -> None:
    spec, tensors = of_tasks(constellation, scale=scale)
    assert (spec["mode"], spec["layers"], spec["gate"], spec["version"]) == ("constellation", [3], 0.2, 1)
    assert {name: part.shape for name, part in tensors.items()} == {
        "3.targets": (3, 16), "3.units": (3, 16), "3.share": (1,)
    }  # fmt: skip
    means = [load_file(path)["mean_negative"][1].astype(np.float64) for path in constellation]
    h = np.random.default_rng(1).normal(0, 3, (40, 16))
    expected, tasks = h.copy(), []
    for row in expected:
        cosines = [row @ mean / np.sqrt(row @ row) / np.sqrt(mean @ mean) for mean in means]
        tasks.append(int(np.argmax(cosines)) if max(cosines) > 0.2 else None)
        if tasks[-1] is not None:
            row += scale * (means[tasks[-1]] - row)
    assert set(tasks) == {None, 0, 1, 2}
    np.testing.assert_allclose(steered("constellation", tensors, h, 0.2), expected, rtol=0, atol=1e-5)


def test_the_layers_of_a_constellation_are_the_first_by_the_sum_of_their_places(constellation: list[Path]) -> None:
    directions = [FittedDirection.of_file(path) for path in constellation]
    assert ranking_of(directions) == [3, 5, 2]  # sums 2, 3 and 4
    assert ranking_of(directions[:2]) == [2, 3, 5]  # all 2: the lower comes first
    assert of_tasks(constellation, layers={"best": 2})[0]["layers"] == [3, 5]
    for direction in directions:
        assert ranking_of([direction]) == direction.card["ranking"]


def test_neither_names_nor_the_order_of_tasks_are_in_the_hash_of_a_constellation(constellation: list[Path]) -> None:
    found = intervention_sha256(*of_tasks(constellation))
    assert intervention_sha256(*of_tasks(constellation[::-1])) == found
    renamed = [path.rename(path.with_name(f"z-{path.name}")) for path in constellation]
    assert intervention_sha256(*of_tasks(renamed)) == found
    others = [of_tasks(renamed[:2]), of_tasks(renamed, gate=0.3), of_tasks(renamed, scale=0.4)]
    others += [of_tasks(renamed, layers=[2])]
    assert len({intervention_sha256(*other) for other in others} | {found}) == 5


def test_the_card_of_a_constellation_names_its_directions_and_their_prompts(
    constellation: list[Path], tmp_path: Path
) -> None:
    asked = NEUTRAL | CONSTELLATION | {"direction": [path.stem for path in constellation]}
    out, card_path, engine = tmp_path / "m.safetensors", tmp_path / "m.json", {"tokenizer_folder": str(tmp_path)}
    compile_intervention.main(
        [str(path) for path in constellation], [N] * 3, engine, "m", asked, str(out), str(card_path)
    )
    card = read_json(card_path)
    assert [reported["direction"] for reported in card["directions"]] == ["translate", "mood", "reword"]
    assert all(reported["n"] == N and reported["prompts"] == [] for reported in card["directions"])
    assert card["sha256"] == intervention_sha256(*read_compiled(out))


# ---------------------------------------------------------------- the hash


def test_the_hash_is_over_what_is_done_and_not_over_the_file(file: Path, tmp_path: Path) -> None:
    asked = NEUTRAL | {"mode": "gated", "layers": [5, 2], "scale": -0.5, "gate": 0.25}
    card = write_intervention(tmp_path / "m.safetensors", "m", [FittedDirection.of_file(file)], asked)
    tensors = load_file(tmp_path / "m.safetensors")
    digest = hashlib.sha256(b'{"gate":0.25,"layers":[2,5],"mode":"gated","version":1}')
    for name in ("2.add", "2.unit", "5.add", "5.unit"):
        digest.update(tensors[name].tobytes())
    assert card["sha256"] == digest.hexdigest()
    spec, _ = read_compiled(tmp_path / "m.safetensors")
    save_file(tensors, tmp_path / "n.safetensors", metadata={"refusal_eval": canonical_json(spec | {"more": "x"})})
    assert intervention_sha256(*read_compiled(tmp_path / "n.safetensors")) == card["sha256"]
    again = write_intervention(tmp_path / "m.safetensors", "other", [FittedDirection.of_file(file)], asked)
    assert again["sha256"] == card["sha256"]


def test_whatever_changes_answers_changes_the_hash(file: Path, tmp_path: Path) -> None:
    base = NEUTRAL | {"mode": "gated", "layers": [2], "scale": 1.0, "gate": 0.1}
    changes: list[dict[str, Any]] = [{}, {"scale": 1.5}, {"gate": 0.2}, {"layers": [3]}, {"layers": [2, 3]}]
    changes += [{"mode": "add"}, {"mode": "pull"}, {"mode": "pull", "towards": "positive"}]
    changes += [{"mode": "ablate"}, {"mode": "ablate", "offset": "midpoint"}, {"mode": "ablate", "scale": 0.5}]
    found = {intervention_sha256(*compiled([FittedDirection.of_file(file)], base | change)) for change in changes}
    random_direction(tmp_path / "other.safetensors", LAYERS, seed=1, **SMALL)
    found.add(intervention_sha256(*compiled([FittedDirection.of_file(tmp_path / "other.safetensors")], base)))
    assert len(found) == len(changes) + 1


def test_the_hashes_of_known_interventions_are_frozen() -> None:
    # If this fails, every response of a steered model has become unreachable. Do not adapt the test.
    spec = {"version": 1, "mode": "add", "layers": [0, 2], "gate": None}
    tensors = {"0.add": np.arange(4, dtype=np.float32), "2.add": np.full(4, -0.5, dtype=np.float32)}
    assert intervention_sha256(spec, tensors) == "49035fd5d4b59315d5f6d6d824c9607feab9ba5b5f0e277b1749ee5620908811"
    spec = {"version": 1, "mode": "constellation", "layers": [2], "gate": 0.85}
    tensors = {"2.targets": np.arange(8, dtype=np.float32).reshape(2, 4), "2.share": np.full(1, 0.5, dtype=np.float32)}
    tensors["2.units"] = np.full((2, 4), 0.25, dtype=np.float32)
    assert intervention_sha256(spec, tensors) == "68eefdc10b583c0b1bf62f8dfa53389bd49f6540faff04f324afc938becdd9d8"


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("asked", "reported"),
    [
        ({"mode": "add", "scale": 1.0, "layers": [4]}, r"has no vector for layer 4; it has those of layers 2-3, 5"),
        ({"mode": "add", "scale": 1.0, "layers": {"best": 4}}, r"`best: 4` asks for more layers than .* ranks \(3\)"),
    ],
)
def test_layers_that_the_direction_lacks_are_refused(file: Path, asked: dict[str, Any], reported: str) -> None:
    with pytest.raises(UserError, match=reported):
        compiled([FittedDirection.of_file(file)], NEUTRAL | asked)


@pytest.fixture
def chance(file: Path) -> Path:
    """Return the control of the direction."""
    return control_of(file, file.with_name("chance.safetensors"))


def test_a_control_of_gated_pushes_the_tokens_that_the_direction_would_push(file: Path, chance: Path) -> None:
    asked: dict[str, Any] = {"mode": "gated", "scale": 0.5, "gate": 0.1}
    real, control = parts(file, **asked), parts(chance, **asked)
    assert (real["3.unit"] == control["3.unit"]).all() and (real["3.add"] != control["3.add"]).any()
    np.testing.assert_allclose(control["3.add"], 0.5 * load_file(chance)["direction"][1], rtol=1e-6)


@pytest.mark.parametrize(("towards", "sign"), [("negative", -1), ("positive", 1)])
def test_a_control_of_pull_is_as_far_from_the_middle_of_both_means_another_way(
    file: Path, chance: Path, towards: str, sign: int
) -> None:
    tensors = load_file(chance)
    middle = (tensors["mean_negative"][1].astype(np.float64) + tensors["mean_positive"][1]) / 2
    real, control = (parts(path, mode="pull", scale=0.5, towards=towards)["3.target"] for path in (file, chance))
    np.testing.assert_allclose(control, middle + sign * tensors["direction"][1] / 2, rtol=0, atol=1e-5)
    assert np.linalg.norm(control - middle) == pytest.approx(np.linalg.norm(real - middle), rel=1e-5)


def test_a_control_of_a_constellation_finds_the_same_task_and_pulls_another_way(file: Path, chance: Path) -> None:
    real, control = (of_tasks([path])[1] for path in (file, chance))
    assert (real["3.units"] == control["3.units"]).all()
    target = parts(chance, mode="pull", scale=0.5)["3.target"]
    assert (control["3.targets"] == target).all() and (real["3.targets"] != target).any()


@pytest.mark.parametrize(
    ("key", "value"), [("model", "other"), ("positions", "answer_mean"), ("dtype", "bfloat16"), ("width", 8)]
)
def test_directions_of_a_constellation_are_alike(
    constellation: list[Path], tmp_path: Path, key: str, value: Any
) -> None:
    random_direction(tmp_path / "unlike.safetensors", LAYERS, **SMALL | {key: value})
    with pytest.raises(UserError, match=rf"unlike.safetensors does not fit .*translate.safetensors: its `{key}` is"):
        of_tasks([*constellation, tmp_path / "unlike.safetensors"])
    random_direction(tmp_path / "few.safetensors", [2, 3], **SMALL)
    with pytest.raises(UserError, match=r"its `layers` is \[2, 3\], and not \[2, 3, 5\]; fit all directions"):
        of_tasks([*constellation, tmp_path / "few.safetensors"])


def test_a_mean_of_zero_is_like_nothing(constellation: list[Path], tmp_path: Path) -> None:
    random_direction(tmp_path / "zero.safetensors", LAYERS, **SMALL, size=0.0)
    with pytest.raises(UserError, match=r"zero.safetensors: the negative side's mean at layer 3 is zero, and no token"):
        of_tasks([*constellation, tmp_path / "zero.safetensors"])
    with pytest.raises(UserError, match=r"with scale 1e\+39, layer 3 needs more than float32 holds"):
        of_tasks(constellation, scale=1e39)


@pytest.mark.parametrize("mode", ["add", "ablate", "gated", "pull"])
def test_numbers_beyond_float32_are_refused(file: Path, mode: str) -> None:
    with pytest.raises(UserError, match=r"with scale 1e\+39, layer 3 needs more than float32 holds"):
        parts(file, mode=mode, scale=1e39, gate=0.1)


def test_a_zero_vector_has_no_direction(file: Path) -> None:
    card = dict(FittedDirection.of_file(file).card)
    tensors = load_file(file) | {"direction": np.zeros((3, 16), dtype=np.float32)}
    save_file(tensors, file, metadata={"refusal_eval": json.dumps(card)})
    for mode in ("ablate", "gated"):
        with pytest.raises(UserError, match="the vector of layer 3 is zero and has no direction"):
            parts(file, mode=mode, scale=1.0, gate=0.1)


def with_config(file: Path, config: dict[str, Any]) -> Path:
    write_json(file.parent / "config.json", config)
    return file.parent


@pytest.mark.parametrize(
    ("config", "reported"),
    [
        ({"architectures": ["QwenForCausalLM"]}, "the architecture is QwenForCausalLM, and it was fitted on a model"),
        ({"num_hidden_layers": 12}, "the number of decoder layers is 12, and it was fitted on a model with 8"),
        ({"text_config": {"hidden_size": 32}}, "the width is 32, and it was fitted on a model with 16"),
        ({"quantization_config": {"bits": 4}}, "has quantized weights, and interventions were never tried on these"),
    ],
)
def test_a_direction_of_another_model_is_refused_by_its_configuration(
    file: Path, config: dict[str, Any], reported: str
) -> None:
    with pytest.raises(UserError, match=reported):
        refuse_other_model(FittedDirection.of_file(file), with_config(file, config), "the engine of `m`")


@pytest.mark.parametrize("change", [{}, {"num_hidden_layers": 8, "hidden_size": 16}, {"vision_config": {"x": 1}}])
def test_a_model_that_fits_or_does_not_tell_passes(file: Path, change: dict[str, Any]) -> None:
    folder = with_config(file, {"architectures": ["LlamaForCausalLM"], **change})
    refuse_other_model(FittedDirection.of_file(file), folder, "it")


def test_files_that_are_no_directions_are_refused(file: Path) -> None:
    tensors, card = load_file(file), dict(FittedDirection.of_file(file).card)
    wrong = {"direction": tensors["direction"][:2]}, {"mean_positive": np.full((3, 16), np.inf, dtype=np.float32)}
    for change, reported in zip(wrong, (r"is \(2, 16\), and should be \(3, 16\)", "NaN or infinite"), strict=True):
        save_file(tensors | change, file, metadata={"refusal_eval": json.dumps(card)})
        with pytest.raises(UserError, match=reported):
            FittedDirection.of_file(file)
    save_file(tensors, file)
    with pytest.raises(UserError, match="is not a direction"):
        FittedDirection.of_file(file)
    file.write_bytes(b"x")
    for path in (file, file.with_name("nothing")):
        with pytest.raises(UserError, match="is not a direction"):
            read_direction(path)


# ---------------------------------------------------------------- keys, loads and the command line


def of_file(file: Path, scale: float = 1.0, name: str = "m") -> CompiledIntervention:
    out, card = file.with_name(f"{name}.safetensors"), file.with_name(f"{name}.json")
    engine = {**ENGINE, "tokenizer_folder": str(file.parent)}
    asked = NEUTRAL | {"mode": "add", "layers": [2], "scale": scale}
    counts = [{"positive": 12, "negative": 1}]
    compile_intervention.main([str(file)], counts, engine, name, asked, str(out), str(card))
    return CompiledIntervention.of_card(read_json(card), str(out))


def steered_settings(one: CompiledIntervention | None) -> RequestSettings:
    changes = {} if one is None else {"intervention": one.identity}
    return RequestSettings("e", IDENTITY, SAMPLING, changes=changes)


def test_keys_of_steered_models_are_their_own_and_others_stay_as_they_were(file: Path, tmp_path: Path) -> None:
    plain = settings_of(ENGINE, SAMPLING)
    one, other = of_file(file), of_file(file, 2.0, "n")
    keys = [settings.key([1, 2, 3], 7, None) for settings in map(steered_settings, (None, one, other))]
    assert keys[0] == plain.key([1, 2, 3], 7, None) and len(set(keys)) == 3
    settings = RequestSettings("e", IDENTITY, SAMPLING, changes={"intervention": {"sha256": "c" * 64, "version": 1}})
    # If this fails, every response of a steered model has become unreachable. Do not adapt the test.
    assert settings.key([1, 2, 3], 7, None) == "ba0166fdebb4ef4604f9ca30cd7bf64cbf86912525beeb6008ec7159cafb05ec"
    write_requests(tmp_path / "r.jsonl", [Ask("p", [1, 2, 3], [(0, 7)])], settings, 100)
    header = read_requests(tmp_path / "r.jsonl")
    assert header.header["intervention"] == {"sha256": "c" * 64, "version": 1}
    assert sha256_asked(header.settings.changes) == "c" * 64


def plan_of(*interventions: CompiledIntervention) -> LoadPlan:
    how = ("python", "cpu", "seeded", 1, 0.0, "store")
    changes = [LoadedIntervention(interventions)] if interventions else []
    return LoadPlan(engine_of({}), "engine", "f", None, *how, changes=changes)


def pending(*interventions: CompiledIntervention | None) -> list[Pending]:
    return [Pending(Request("p", 0, 0, "k", 1), steered_settings(one)) for one in interventions]


def test_a_load_serves_the_one_intervention_that_its_requests_ask_for(file: Path) -> None:
    one, other = of_file(file), of_file(file, 2.0, "n")
    (loaded,) = plan_of(one).load(Path("log"), pending(one, one)).changes
    assert loaded.one.sha256 == one.sha256 and Path(loaded.one.file).is_absolute()
    assert plan_of().load(Path("log"), pending(None)).changes == []
    assert plan_of(one).load(Path("log")).changes == [loaded]
    with pytest.raises(UserError, match="one load is asked for 2 interventions"):
        plan_of(one, other).load(Path("log"), pending(one, other))
    with pytest.raises(UserError, match="one load is asked for 2 interventions"):
        plan_of(one).load(Path("log"), pending(one, None))
    for another in (plan_of(other), plan_of()):
        with pytest.raises(UserError, match="which no longer exists; run again"):
            another.load(Path("log"), pending(one))


def test_a_compiled_file_that_changed_is_refused_before_an_engine_starts(file: Path) -> None:
    one = of_file(file)
    of_file(file, 3.0)  # the same name
    with pytest.raises(UserError, match="has changed since its requests were planned"):
        plan_of(one).load(Path("log"), pending(one))
    Path(one.file).write_bytes(b"x")
    with pytest.raises(UserError, match="is not a compiled intervention"):
        plan_of(one).load(Path("log"), pending(one))


def test_the_worker_and_the_hash_are_on_the_command_line_and_only_with_an_intervention(file: Path) -> None:
    one = of_file(file).unchanged()
    engine = engine_of({"max_model_len": 64})
    loads = [
        EngineLoad(Path("log"), "seeded", "f", "python", "cpu", changes=changes)
        for changes in ([], [LoadedIntervention([one])])
    ]
    commands = [engine.command(load, "f", "sock") for load in loads]
    more = [word for word in commands[1] if word not in commands[0]]
    assert more[0] == "--worker-cls=steered_worker.SteeredWorker"
    asked = json.loads(more[1].removeprefix("--additional-config="))
    assert asked == {"intervention": {"file": one.file, "sha256": one.sha256}} and len(more) == 2
    assert [word for word in commands[0] if word not in commands[1]] == []


def test_each_mode_is_compiled_and_done_by_the_worker(repository: Path) -> None:
    stream = ast.parse((repository / "scripts/refusal_eval/engines/vllm_worker/steered_stream.py").read_text())
    tables = [
        node.value for node in stream.body if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "MODES"
    ]
    (table,) = [table for table in tables if isinstance(table, ast.Dict)]
    assert {ast.literal_eval(key) for key in table.keys if key} == set(COMPILED) == set(MODES)


def test_the_worker_hashes_and_names_things_as_the_workflow_does(repository: Path) -> None:
    worker = "".join(
        path.read_text() for path in (repository / "scripts/refusal_eval/engines/vllm_worker").glob("*.py")
    )
    rooms = ("features/steering/intervention_file", "features/steering/loaded_intervention")
    ours = "".join((repository / f"scripts/refusal_eval/{room}.py").read_text() for room in rooms)
    lines = ["VERSION = 1 ", 'HASHED = ("gate", "layers", "mode", "version")', 'RECORD = "intervention.json"']
    lines += ['COUNTS = "intervention_gate.json"']
    for line in (*lines, 'COUNTING = "refusal-eval-gate"', 'PLAIN = "refusal-eval-plain"'):
        assert line in worker
        assert line in ours


@pytest.mark.parametrize(
    ("record", "reported"),
    [
        ({}, None),
        ({"fired": []}, "does not show that the intervention of `m` is at work on layers [2]: it says"),
        ({"layers": [2, 3]}, "does not show"),
        ({"sha256": "0" * 64}, "does not show"),
        (None, "at work on layers [2]: it says nothing"),
    ],
)
def test_a_server_that_does_not_show_that_all_hooks_fired_is_refused(
    file: Path, tmp_path: Path, record: dict[str, Any] | None, reported: str | None
) -> None:
    one, asked = of_file(file), list[Any]()
    state = {"sha256": one.sha256, "mode": "add", "layers": [2], "fired": [2]}

    async def ask(path: str, body: Any) -> Any:
        asked.append((path, body["max_tokens"], body["ignore_eos"]))
        if record is not None:
            (tmp_path / "intervention.json").write_text(json.dumps(state | record))
        return reply(-0.5 if "request_id" in body else -0.25)

    if reported is None:
        assert asyncio.run(proven(one, ask, str(tmp_path))) == state
        # A prefill step and decode steps; then an answer without the intervention, and one with it.
        assert asked == [("/v1/completions", 3, True), *[("/v1/completions", 8, True)] * 2]
        return
    with pytest.raises(UserError) as raised:
        asyncio.run(proven(one, ask, str(tmp_path)))
    assert reported in str(raised.value)


def reply(logprob: float) -> Any:
    return {"choices": [{"logprobs": {"token_logprobs": [logprob] * 8}}]}


@pytest.mark.parametrize(
    ("mode", "scale", "differs", "stops"),
    [
        ("add", 1.0, (), True),
        ("add", 1.0, (2,), False),  # one certain answer does not stop it
        ("add", 0.0, (), False),
        ("gated", 1.0, (), False),  # nothing of the proof may pass
    ],
)
def test_an_intervention_that_fires_and_changes_no_answer_stops_the_load(
    file: Path, tmp_path: Path, mode: str, scale: float, differs: tuple[int, ...], stops: bool
) -> None:
    one = replace(of_file(file, scale), mode=mode, gate=0.9 if mode == "gated" else None)
    (tmp_path / "intervention.json").write_text(json.dumps({"sha256": one.sha256, "layers": [2], "fired": [2]}))
    salted = list[bool]()

    async def ask(path: str, body: Any) -> Any:
        without = body.get("request_id") == "refusal-eval-plain"
        salted.append(without == ("cache_salt" in body))
        return reply(-0.5 if without or body["prompt"][0] not in differs else -0.25)

    if not stops:
        assert asyncio.run(proven(one, ask, str(tmp_path)))["fired"] == [2]
    else:
        with pytest.raises(UserError, match=r"of `m` is at work on layers \[2\] and changes nothing: 3 greedy answers"):
            asyncio.run(proven(one, ask, str(tmp_path)))
    assert all(salted), "what is computed without it stays out of the cache of prompts"


@pytest.mark.parametrize(
    ("record", "reported"),
    [
        ({"refused": "in a decode step nothing fired"}, "It refused the intervention: in a decode step nothing fired."),
        ({"fired": []}, "It does not answer: HTTP 500."),
        (None, "It does not answer: HTTP 500."),
    ],
)
def test_a_server_that_fails_at_the_question_is_refused_with_what_its_worker_said(
    file: Path, tmp_path: Path, record: dict[str, Any] | None, reported: str
) -> None:
    async def ask(path: str, body: Any) -> Any:
        if record is not None:
            (tmp_path / "intervention.json").write_text(json.dumps(record))
        raise ConnectionError("HTTP 500")

    with pytest.raises(UserError) as raised:
        asyncio.run(proven(of_file(file), ask, str(tmp_path)))
    assert str(raised.value) == (
        f"the engine cannot be given the intervention of `m`. {reported} No answer was asked for"
    )


GATED = CompiledIntervention("m", "0" * 64, 1, "gated", (2, 3), "file", 0.85)


@pytest.mark.parametrize("tells", [True, False])
def test_a_server_tells_how_many_tokens_passed_the_gate_when_it_is_asked_by_name(tmp_path: Path, tells: bool) -> None:
    counts = {"tokens": 10, "passed": {"2": 1, "3": 0}}
    (tmp_path / "intervention_gate.json").write_text('{"tokens": "of an earlier question"}')

    async def ask(path: str, body: Any) -> Any:
        assert (path, body["max_tokens"], body["request_id"]) == ("/v1/completions", 1, "refusal-eval-gate")
        if tells:
            (tmp_path / "intervention_gate.json").write_text(json.dumps(counts))

    if tells:
        assert asyncio.run(gate_counts(GATED, ask, str(tmp_path))) == counts
    else:
        with pytest.raises(ConnectionError, match="the worker says nothing of the gate"):
            asyncio.run(gate_counts(GATED, ask, str(tmp_path)))


def test_a_server_is_not_asked_for_a_gate_that_its_mode_has_not(file: Path) -> None:
    async def ask(path: str, body: Any) -> Any:
        raise AssertionError(path)

    assert asyncio.run(gate_counts(of_file(file), ask, str(file.parent))) == {}


def test_a_load_in_which_no_token_passed_the_gate_is_refused() -> None:
    with pytest.raises(UserError) as reported:
        refuse_nothing_passed(GATED, {"tokens": 10, "passed": {"2": 0, "3": 0}})
    assert str(reported.value) == (
        "no token passed the gate of 0.85 of `m` in the loads that gave these answers, so they are those of the model "
        "without the intervention: lower `gate`, or run again to take them as they are"
    )
    for counts in ({}, {"tokens": 0, "passed": {"2": 0}}, {"tokens": 10, "passed": {"2": 0, "3": 1}}):
        refuse_nothing_passed(GATED, counts)


# ---------------------------------------------------------------- in a study


STEERED = NEUTRAL | {"direction": "refusal", "mode": "add", "layers": [2, 3], "scale": -0.5}


@pytest.mark.parametrize(
    ("batch", "names"),
    [
        ("engine", ["engine/e", "engine/e/down", "engine/e/up"]),
        ("model", ["model/e/down", "model/e/other", "model/e/plain", "model/e/up"]),
        ("cell", [f"cell/e/{model}/s" for model in ("down", "other", "plain", "up")]),
    ],
)
def test_each_steered_model_is_a_batch_of_its_own(batch: str, names: list[str]) -> None:
    model = {"engine": "e", "sampling": {"max_tokens": 8}}
    entries = {name: model for name in ("plain", "other")}
    entries |= {name: model | {"intervention": STEERED} for name in ("down", "up")}
    study = Study(validated(entries, {"s": "comply"}, ["words"], model_entries=entries, batch=batch))
    assert list(study.generation_batches) == names
    assert steered_models(study) == ["down", "up"]
    steered = names[1] if batch == "engine" else names[0]
    assert loaded_files(study, steered)["intervention"] == ["results/s/interventions/down.json"]
    assert loaded_files(study, study.batch_of[Cell("plain", "s")])["intervention"] == []
    assert request_params(study, "down", "s")["intervention"] is True
    assert "intervention" not in request_params(study, "plain", "s")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "add along the direction refusal, scale -0.5, after layers 2 and 3, counted from 0"),
        ({"layers": [2]}, "add along the direction refusal, scale -0.5, after layer 2, counted from 0"),
        (
            {"mode": "ablate", "offset": "midpoint", "scale": None, "layers": {"best": 4}},
            "ablate along the direction refusal, scale 1, offset at the midpoint of both means, after the 4 layers "
            "that the direction ranks first",
        ),
        (
            {"mode": "gated", "gate": 0.1},
            "gated along the direction refusal, scale -0.5, gate 0.1, after layers 2 and 3, counted from 0",
        ),
        (
            {"mode": "constellation", "direction": ["b", "a"], "gate": 0.85, "layers": {"best": 4}},
            "constellation: each token moves towards the most similar of the means of the negative sides of directions "
            "b and a, scale -0.5, gate 0.85, after the 4 layers that the directions together rank first",
        ),
        (
            {"mode": "pull", "scale": 0.3},
            "pull towards the mean of the negative side along the direction refusal, scale 0.3, after layers 2 and 3, "
            "counted from 0",
        ),
    ],
)
def test_the_methods_section_says_what_is_done(change: dict[str, Any], words: str) -> None:
    text = intervention_text(Intervention.of_plain(STEERED | change))
    assert text.replace("`", "") == f"an intervention on the residual stream ({words})"


def test_the_methods_section_says_how_the_direction_was_fitted_and_which_layers_are_the_best(file: Path) -> None:
    one = of_file(file)
    card = read_json(Path(one.file).with_suffix(".json"))
    text = intervention_text(Intervention.of_plain(STEERED | {"layers": {"best": 1}}), card).replace("`", "")
    assert text == (
        "an intervention on the residual stream (add along the direction refusal, scale -0.5, after the 1 layer that "
        "the direction ranks first (2, counted from 0); the direction is the difference of means, in activations of "
        "smollm2-plain at the last token of the prompt, from 12 positive prompts and 1 negative prompt, those that "
        "rank the layers included)"
    )
    manifest = {"interventions": {"m": card}}
    assert how_asked({"intervention": STEERED}, manifest, "m") == [
        intervention_text(Intervention.of_plain(STEERED), card)
    ]


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("add", ""),
        ("ablate", ""),
        ("gated", "it is added to tokens that are similar to the direction that it controls"),
        ("pull", "it moves tokens towards a point equally far from the middle of both means, in a random direction"),
        (
            "constellation",
            "it moves tokens towards a point equally far from the middle of their task's two means, in a random "
            "direction",
        ),
    ],
)
def test_the_methods_section_says_what_a_control_does(mode: str, words: str) -> None:
    fitted = {"direction": "chance", "model": "m", "positions": "last_prompt_token", "n": N}
    asked = STEERED | {"mode": mode, "direction": ["chance"] if mode == "constellation" else "chance"}
    asked |= {"gate": 0.5} if "gate" in MODES[mode].model_fields else {}
    texts = [
        intervention_text(Intervention.of_plain(asked), {"layers": [2, 3], "directions": [fitted | {"method": method}]})
        for method in ("random", "md")
    ]
    said = f"; as a control, {words}" if words else ""
    assert f"layers 2 and 3, counted from 0{said}; the direction" in texts[0]
    assert "as a control, it" not in texts[1]


def test_the_methods_section_says_how_each_direction_of_a_constellation_was_fitted(constellation: list[Path]) -> None:
    card = {"layers": [3], "directions": [FittedDirection.of_file(path).card | {"n": N} for path in constellation]}
    asked = STEERED | CONSTELLATION | {"direction": ["translate", "mood", "reword"]}
    text = intervention_text(Intervention.of_plain(asked), card)
    for name in ("translate", "mood", "reword"):
        assert text.replace("`", "").count(f"; the direction {name} is the difference of means, in activations of") == 1


def test_every_method_and_position_of_a_direction_has_words_in_the_methods_section() -> None:
    assert set(steering_words.FITTED) == set(get_args(Method))
    assert position_text("prompt_token-5") == "at token -5 of the prompt, counted from its end"


def test_prompts_that_made_a_direction_are_not_evaluated_with_it() -> None:
    rows = [{"id": f"p{n}", "messages": [{"role": "user", "content": f"question {n}"}]} for n in range(3)]
    other, refusal = (
        {"direction": name, "prompts": prompts}
        for name, prompts in (("other", []), ("refusal", [sides.content_sha256(rows[1]["messages"])]))
    )
    for directions in ([refusal], [refusal, other], [other, refusal]):
        card = {"model": "steered", "directions": directions}
        with pytest.raises(UserError, match=r"1 of these 3 prompts made the direction `refusal` \(the first: p1\)"):
            refuse_fitted(rows, card)
    refuse_fitted(rows[::2], card)
    with pytest.raises(UserError, match="also where a category leaves it out"):
        refuse_fitted(rows, card, evaluated=False)


@pytest.mark.parametrize(
    "messages",
    [
        ["QUESTION  one\n"],
        ["\uff31uestion one"],  # a letter of another width
        ["Hello", "question one"],
        ["Question one", "and then?"],
    ],
)
def test_a_prompt_in_another_form_or_as_a_turn_of_a_dialogue_made_the_direction_too(messages: list[str]) -> None:
    made = sides.content_sha256([{"role": "user", "content": "question one"}])
    card = {"model": "steered", "directions": [{"direction": "refusal", "prompts": [made]}]}
    said = [{"role": "user", "content": text} for text in messages]
    with pytest.raises(UserError, match=r"1 of these 1 prompts made the direction"):
        refuse_fitted([{"id": "p", "messages": said}], card)
    refuse_fitted([{"id": "p", "messages": [said[0] | {"role": "assistant"}]}], card)
