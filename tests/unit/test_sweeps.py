"""Sweeps: one entry of the catalogue that stands for several models, and the curves that steered models make."""

import re
from typing import Any

import pytest
from config_project import BASE, CATALOGUE, STUDY, Project, changed

from refusal_eval.config.entries import Model
from refusal_eval.config.study_entry import StudyConfig
from refusal_eval.features.steering.sweep import curves

STUDIED = STUDY | {"models": ["plain", "steered", "control"], "directions": ["refusal", "chance"]}
SWEEP: dict[str, Any] = {"scale": [-0.5, 1]}
OFF = {"enabled": False, "reason": "Read its terms.", "terms": "https://example.org/terms"}


def swept(sweep: Any, **model: Any) -> dict[str, Any]:
    """Return a catalogue whose models `steered` and `control` are sweeps."""
    catalogue = changed(CATALOGUE, ("models", "steered"), CATALOGUE["models"]["steered"] | {"sweep": sweep} | model)
    return changed(catalogue, ("models", "control"), {"like": "steered", "intervention": {"direction": "chance"}})


def test_a_study_that_names_a_sweep_has_all_its_models(project: Project) -> None:
    layers = [[15], [15, 16, 17, 20], {"best": 2}]
    project.write(BASE, swept(SWEEP | {"layers": layers}))
    study = StudyConfig.model_validate(project.load(STUDIED))
    assert study.models == ["plain"] + [
        f"{name}.scale{scale}.layers{which}" if which[0].isdigit() else f"{name}.scale{scale}.{which}"
        for name in ("steered", "control")
        for scale in ("-0.5", "1")
        for which in ("15", "15to17-20", "best2")
    ]
    asked = study.model_entries["control.scale1.layers15to17-20"].intervention
    assert asked is not None
    assert (asked.direction, asked.scale, asked.layers) == ("chance", 1, [15, 16, 17, 20])
    assert all(model.sweep is None for model in study.model_entries.values())


def test_models_of_a_sweep_have_labels_of_their_own(project: Project) -> None:
    catalogue = swept(SWEEP, label="Qwen, steered")
    project.write(BASE, changed(catalogue, ("models", "control", "label"), "Random"))
    labels = [model["label"] for model in project.load(STUDIED)["model_entries"].values()]
    scales = ("scale \u22120.5", "scale 1")
    assert labels == [None, *(f"{name}, {scale}" for name in ("Qwen, steered", "Random") for scale in scales)]


def test_a_mistake_in_a_model_of_a_sweep_has_the_line_of_its_entry(project: Project) -> None:
    catalogue = swept(SWEEP)
    asked = {"mode": "gated"}
    project.write(
        BASE,
        changed(
            catalogue, ("models", "steered", "intervention"), catalogue["models"]["steered"]["intervention"] | asked
        ),
    )
    found = project.mistakes(STUDIED)
    assert {re.sub(r".*yaml:\d+: ", "", line).split(": ")[0] for line in found} == {
        "models.steered.intervention.gate",
        "models.control.intervention.gate",
    }


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        ({}, "sweep: name `scale`, `layers` or `mode`, or several of them: what its models differ in"),
        ({"scale": []}, "sweep.scale: must not be empty"),
        ({"scale": [1, 1]}, "sweep.scale: names a value twice"),
        ({"layers": [[1], [1]]}, "sweep.layers: names a value twice"),
        ({"layers": [[1, 1]]}, "sweep.layers[0]: names layer 1 twice"),
        ({"scales": [1]}, "sweep.scales: unknown key `scales`; did you mean `scale`?"),
    ],
)
def test_a_mistake_in_a_sweep_is_one_line(project: Project, sweep: dict[str, Any], message: str) -> None:
    project.write(BASE, changed(CATALOGUE, ("models", "steered"), CATALOGUE["models"]["steered"] | {"sweep": sweep}))
    (line,) = project.mistakes(STUDIED)
    assert f": models.steered.{message}" in line


def test_a_sweep_needs_an_intervention_and_names_that_are_free(project: Project) -> None:
    project.write(BASE, changed(CATALOGUE, ("models", "plain", "sweep"), SWEEP))
    (line,) = project.mistakes(STUDY)
    assert line.endswith("models.plain: `sweep` changes an `intervention`, and this model has none")
    project.write(BASE, changed(swept(SWEEP), ("models", "steered.scale1"), {"like": "plain"}))
    (line,) = project.mistakes(STUDIED)
    assert line.endswith("sweep: makes a model `steered.scale1`, which another entry has; choose another name")


def test_two_sweeps_cannot_make_one_model(project: Project) -> None:
    catalogue = swept(SWEEP | {"layers": [[1]]})
    other = catalogue["models"]["steered"] | {"sweep": {"layers": [[1]]}}
    project.write(BASE, changed(catalogue, ("models", "steered.scale1"), other))
    (line,) = project.mistakes(STUDIED)
    assert line.endswith("makes a model `steered.scale1.layers1`, which another entry has; choose another name")


def test_a_model_may_inherit_from_one_of_a_sweep_wherever_it_stands(project: Project) -> None:
    catalogue = changed(swept(SWEEP, label="Steered"), ("models", "control", "label"), "Random")
    less = {"like": "steered.scale-0.5", "label": "Less", "intervention": {"scale": -0.25}}
    project.write(BASE, catalogue | {"models": {"less": less, **catalogue["models"]}})
    study = StudyConfig.model_validate(project.load(STUDIED | {"models": ["less", *STUDIED["models"]]}))
    entry, asked = study.model_entries["less"], study.model_entries["steered.scale-0.5"].intervention
    assert entry.sweep is None and entry.label == "Less" and asked is not None and entry.intervention is not None
    assert entry.intervention == asked.model_copy(update={"scale": -0.25})
    project.write(BASE, changed(catalogue, ("models", "less"), {"like": "steered.scale-0.4"}))
    (line,) = project.mistakes(STUDIED)
    assert "models.less.like: there is no other entry 'steered.scale-0.4' in `models`" in line


def test_a_sweep_of_layers_needs_no_layers_beside_it_and_others_do(project: Project) -> None:
    asked = {"direction": "refusal", "mode": "add", "scale": -0.5}
    catalogue = swept({"layers": [[3], [4]]}, intervention=asked)
    project.write(BASE, catalogue)
    names = project.load(STUDIED)["models"]
    assert names[1:] == [f"{name}.layers{layer}" for name in ("steered", "control") for layer in (3, 4)]
    project.write(BASE, swept(SWEEP, intervention=asked))
    assert {line.split(": ", 1)[1].split(" (")[0] for line in project.mistakes(STUDIED)} == {
        f"models.{name}.intervention.layers: this key is missing" for name in ("steered", "control")
    }


@pytest.mark.parametrize("sweep", [{}, {"scales": [1]}, {"scale": ["x"]}, {"layers": [[1, 1]]}, 3])
def test_what_a_sweep_with_a_mistake_would_say_is_not_missing(project: Project, sweep: Any) -> None:
    project.write(BASE, swept(sweep, intervention={"direction": "refusal", "mode": "add", "allow_overlap": 3}))
    found = {
        line.split("models.steered.")[1].split(":")[0] for line in project.mistakes(STUDIED) if ".steered." in line
    }
    assert len(found) == 2 and "intervention.allow_overlap" in found and any(at.startswith("sweep") for at in found)


# ---------------------------------------------------------------- curves


def model(**entry: Any) -> Model:
    return Model.model_validate({"engine": "e", "sampling": {"max_tokens": 8}} | entry)


def steered(scale: float | None, direction: str = "refusal", **changes: Any) -> Model:
    return model(intervention={"direction": direction, "mode": "add", "layers": [3], "scale": scale} | changes)


def test_models_that_differ_in_scale_only_are_a_curve_with_the_model_without_at_0() -> None:
    models = {"up": steered(1), "plain": model(), "down": steered(-0.5), "alone": model(system_prompt="x")}
    assert curves(models, {}) == {"refusal": {"down": -0.5, "plain": 0, "up": 1}}
    assert curves({"plain": model()}, {}) == {}


@pytest.mark.parametrize("names", [["plain", "zero", "up"], ["up", "zero", "plain"]])
def test_a_steered_model_of_scale_0_is_a_point_beside_the_plain_one(names: list[str]) -> None:
    models = {"plain": model(), "zero": steered(0), "up": steered(1)}
    (curve,) = curves({name: models[name] for name in names}, {}).values()
    assert curve == {"plain": 0, "zero": 0, "up": 1} and list(curve)[-1] == "up"


def test_an_alpha_and_a_scale_are_two_curves_and_reposition_has_no_plain_point() -> None:
    def by_alpha(alpha: float, **more: Any) -> Model:
        return steered({"alpha": alpha, "by": "quantile"}, **more)

    models = {"plain": model(), "a": steered(-1), "b": by_alpha(-1), "c": by_alpha(-0.5)}
    assert curves(models, {}) == {"scale": {"a": -1, "plain": 0}, "alpha": {"b": -1, "c": -0.5, "plain": 0}}
    repositioned = {"plain": model(), "a": steered(-1, mode="reposition"), "b": steered(0, mode="reposition")}
    assert curves(repositioned, {}) == {"refusal": {"a": -1, "b": 0}}


def test_a_sweep_over_alpha_mode_and_ways_to_choose_layers(project: Project) -> None:
    layers: list[dict[str, Any]] = [{"best": 1}, {"best": 2, "by": "correlation", "drop_deepest": 0.05}]
    scale = [{"alpha": alpha, "by": "quantile"} for alpha in (-0.5, 0.25)]
    sweep = {"scale": scale, "layers": layers, "mode": ["add", "reposition"]}
    sides = {"judge": "words", "split": "hub-rows"}
    direction = CATALOGUE["directions"]["refusal"] | {"positive": sides | {"above": 0.1}}
    direction |= {"negative": sides | {"below": -0.1}, "neutral": sides | {"within": 0.1}}
    catalogue = swept(sweep, intervention={"direction": "refusal"}, label="Steered")
    catalogue["directions"] |= {"refusal": direction, "chance": direction | {"method": "random", "of": "rmd"}}
    catalogue["models"]["control"]["label"] = "Random"
    project.write(BASE, catalogue)
    study = StudyConfig.model_validate(project.load(STUDIED))
    names = [name for name in study.models if name.startswith("steered")]
    assert names[:2] == ["steered.add.alpha-0.5.best1", "steered.add.alpha-0.5.best2correlationdrop0.05"]
    assert len(names) == 8 and names[-1] == "steered.reposition.alpha0.25.best2correlationdrop0.05"
    entry = study.model_entries[names[-1]]
    plain = entry.model_dump()["intervention"]
    assert (plain["mode"], plain["scale"], plain["layers"]) == ("reposition", scale[1], layers[1])
    assert study.model_entries[names[0]].model_dump()["intervention"]["layers"] == {"best": 1}
    assert entry.label == ("Steered, reposition, alpha 0.25, layers best 2 (by correlation, without the deepest 5 %)")


def test_a_curves_label_is_what_it_differs_in() -> None:
    models = {"plain": model(), "a": steered(1), "b": steered(1, "chance"), "c": steered(1, layers=[3, 4, 5])}
    assert list(curves(models, {})) == ["refusal, layers 3", "chance, layers 3", "refusal, layers 3\u20135"]
    ablated = {"a": steered(1), "b": steered(None, mode="ablate")}
    assert list(curves(ablated, {})) == ["add", "ablate"]
    assert curves(ablated, {})["ablate"] == {"b": 1}
    offsets = {"a": steered(None, mode="ablate"), "b": steered(None, mode="ablate", offset="midpoint")}
    assert list(curves(offsets, {})) == ["offset none", "offset midpoint"]


def test_a_curve_has_all_models_of_a_place_and_the_order_of_layers_says_nothing() -> None:
    models = {"plain": model(), "none": steered(0), "a": steered(1, layers=[3, 4]), "b": steered(2, layers=[4, 3])}
    assert curves(models, {}) == {"layers 3": {"none": 0, "plain": 0}, "layers 3\u20134": {"plain": 0, "a": 1, "b": 2}}
    again = {"a": steered(None, mode="ablate"), "b": steered(1, mode="ablate")}
    assert curves(again, {}) == {"refusal": {"a": 1, "b": 1}}


def test_curves_of_two_plain_models_say_which() -> None:
    other = {"system_prompt": "Be brief."}
    asked = steered(1).intervention
    models = {"plain": model(label="Plain"), "brief": model(**other), "a": steered(1)}
    models["b"] = model(intervention=asked, **other)
    assert curves(models, {}) == {"Plain": {"plain": 0, "a": 1}, "brief": {"brief": 0, "b": 1}}


def test_a_sweep_that_is_off_is_allowed_by_its_name(project: Project) -> None:
    catalogue = changed(swept(SWEEP), ("engines", "hub-engine"), CATALOGUE["engines"]["hub-engine"] | OFF)
    project.write(BASE, catalogue)
    assert len(project.mistakes(STUDIED)) > 0
    assert project.mistakes(STUDIED | {"allow": ["plain", "steered", "control"]}) == []


def test_a_model_like_one_of_a_sweep_does_not_carry_the_label_of_its_scale(project: Project) -> None:
    catalogue = changed(swept(SWEEP, label="Steered"), ("models", "control", "label"), "Random")
    less = {"like": "steered.scale-0.5", "intervention": {"scale": -0.25}}
    project.write(BASE, changed(catalogue, ("models", "less"), less))
    study = StudyConfig.model_validate(project.load(STUDIED | {"models": ["less", *STUDIED["models"]]}))
    assert study.model_entries["less"].label is None
    assert study.model_entries["steered.scale-0.5"].label == "Steered, scale \u22120.5"


def test_sweeps_may_inherit_from_sweeps_in_any_order(project: Project) -> None:
    catalogue = changed(swept(SWEEP, label="Steered"), ("models", "control", "label"), "Random")
    last = {"like": "less.scale0.75", "intervention": {"scale": 0.5}}
    less = {"like": "steered.scale1", "sweep": {"scale": [0.75]}}
    project.write(BASE, catalogue | {"models": {"last": last, "less": less, **catalogue["models"]}})
    study = StudyConfig.model_validate(project.load(STUDIED | {"models": ["last", *STUDIED["models"]]}))
    asked = study.model_entries["last"].intervention
    assert asked is not None and asked.scale == 0.5
