"""Attention steering in the catalogue: what it needs of its engine, its splits and its study is said at once."""

import json
from typing import Any

import pytest
from config_project import BASE, PLAIN_ENGINE, STUDY, UNFOCUSED, Project, changed
from config_project import CATALOGUE as SHARED

from refusal_eval.ask.requests import RequestSettings
from refusal_eval.engines.engine_client import request_body

pytestmark = pytest.mark.feature("attention", "eager", "steering")

CATALOGUE = changed(SHARED, ("models", "unfocused"), UNFOCUSED)
CATALOGUE = changed(CATALOGUE, ("engines", "plain-engine"), PLAIN_ENGINE)
ASKED: dict[str, Any] = {"kind": "attention", "span": "label", "alpha": 0.1}
STUDIED = STUDY | {"models": ["plain", "unfocused"], "splits": ["kept-rows"]}


@pytest.fixture(autouse=True)
def with_the_model(project: Project) -> None:
    project.write(BASE, CATALOGUE)


def reported(project: Project, study: dict[str, Any] = STUDIED, **model: Any) -> list[str]:
    """Return the mistakes of a model with attention steering, whose entry has these keys, without file and line."""
    project.write(BASE, changed(CATALOGUE, ("models", "unfocused"), CATALOGUE["models"]["unfocused"] | model))
    return [line.split(": ", 1)[1] for line in project.mistakes(study)]


@pytest.mark.parametrize("change", [{}, {"alpha": 1}, {"layers": [0, 5]}, {"layers": None}])
def test_it_is_valid_with_its_keys(project: Project, change: dict[str, Any]) -> None:
    assert reported(project, intervention=ASKED | change) == []
    (entry,) = [project.load(STUDIED)["model_entries"]["unfocused"]["intervention"]]
    assert entry == ASKED | {"layers": None} | {k: v for k, v in change.items() if v is not None}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": 0}, "alpha: must be more than 0, not 0"),
        ({"alpha": 1.5}, "alpha: must be at most 1, not 1.5"),
        ({"alpha": None}, "alpha: this key is missing"),
        ({"span": None}, "span: this key is missing"),
        ({"alfa": 0.5}, "alfa: unknown key `alfa`; did you mean `alpha`?"),
        ({"layers": [1, 1]}, "`layers` are different whole numbers from 0 on"),
        ({"layers": []}, "layers: must not be empty"),
        ({"kind": "atention"}, "kind: unknown kind 'atention'; did you mean `attention`? (allowed: attention)"),
        ({"scale": 0.5}, "scale: is for modes `add`, `gated`, `pull`, `ablate`, `constellation` and `reposition` only"),
        ({"span": "lable"}, "span: split `kept-rows` keeps no column `lable` (`columns.keep`); did you mean `label`?"),
    ],
)
def test_a_mistake_in_it_is_reported_in_one_line(project: Project, change: dict[str, Any], message: str) -> None:
    (line,) = reported(project, intervention=ASKED | change)
    assert line.startswith("models.unfocused.intervention") and message in line


def test_a_key_of_it_in_an_intervention_along_a_direction_is_said_to_be_of_its_kind(project: Project) -> None:
    steered = CATALOGUE["models"]["steered"]
    broken = steered | {"intervention": steered["intervention"] | {"span": "label"}}
    project.write(BASE, changed(CATALOGUE, ("models", "steered"), broken))
    (line,) = project.mistakes(STUDY | {"models": ["plain"]})
    assert "span: is for kind `attention` only, and this one is `add`; leave it out" in line


def test_an_engine_of_vllm_is_refused_and_the_one_that_can_is_named(project: Project) -> None:
    (line,) = reported(project, engine="hub-engine")
    assert line == (
        "models.unfocused.engine: engine `hub-engine` is of kind `vllm`; this entry needs one of kind `eager`"
    )


def test_an_intervention_along_a_direction_is_refused_on_this_engine(project: Project) -> None:
    steered = CATALOGUE["models"]["steered"] | {"engine": "plain-engine"}
    project.write(BASE, changed(CATALOGUE, ("models", "steered"), steered))
    lines = project.mistakes(STUDY | {"models": ["plain", "steered"], "directions": ["refusal"]})
    assert any(
        "engine `plain-engine` is of kind `eager`; this entry needs one of kind `vllm`" in line for line in lines
    )


@pytest.mark.parametrize("key", ["tensor_parallel", "quantization", "args"])
def test_keys_of_vllm_are_refused_on_this_engine(project: Project, key: str) -> None:
    value = {"tensor_parallel": 2, "quantization": "fp8", "args": {"enforce-eager": True}}[key]
    project.write(BASE, changed(CATALOGUE, ("engines", "plain-engine", key), value))
    (line,) = project.mistakes(STUDIED)
    assert f"`{key}` is for engines of kind `vllm`; leave it out" in line


def test_a_model_that_is_like_a_steered_one_takes_nothing_of_its_direction(project: Project) -> None:
    like = {"like": "steered", "engine": "plain-engine", "intervention": ASKED}
    project.write(BASE, changed(CATALOGUE, ("models", "unfocused"), like))
    assert project.load(STUDIED)["model_entries"]["unfocused"]["intervention"] == ASKED | {"layers": None}


def test_splits_must_keep_the_column_and_have_one_turn(project: Project) -> None:
    lines = reported(project, STUDIED | {"splits": ["kept-rows", "talk-rows"]})
    second, first = sorted((line.removeprefix("models.unfocused.intervention") for line in lines), reverse=True)
    assert "split `talk-rows` keeps no column `label` (`columns.keep`); add it: `columns: {keep: [label]}`" in first
    assert "split `talk-rows` asks several turns" in second
    (line,) = reported(project, STUDIED | {"splits": ["hub-rows"]})
    assert line.startswith("models.unfocused.intervention.span: split `hub-rows` keeps no column `label`")


def test_layers_that_the_model_does_not_have_are_refused_once_its_files_are_here(project: Project) -> None:
    beyond = ASKED | {"layers": [2, 7]}
    assert reported(project, intervention=beyond) == []
    project.write("weights/config.json", json.dumps({"num_hidden_layers": 3}))
    (line,) = reported(project, intervention=beyond)
    assert line == "models.unfocused.intervention.layers[1]: the model has 3 layers, counted from 0: the last one is 2"


def test_a_sweep_is_for_directions(project: Project) -> None:
    (line,) = reported(project, sweep={"scale": [0.1, 0.2]})
    assert line.endswith("`sweep` is for interventions along a direction; write a model for each value instead")


def test_requests_say_where_only_if_they_are_steered() -> None:
    settings = RequestSettings(sampling={"max_tokens": 4}, changes={"attention": {"alpha": 0.1, "layers": [1]}})
    steered = request_body([5, 6, 7], settings.at([1, 2]), None)
    assert steered["attention"] == {"alpha": 0.1, "layers": [1], "positions": [1, 2]}
    plain = request_body([5, 6, 7], settings.at([]), None)
    assert plain == request_body([5, 6, 7], RequestSettings(sampling={"max_tokens": 4}), None)
    own = settings.key([5, 6, 7], 1, 64, [1, 2])
    assert own != settings.key([5, 6, 7], 1, 64, [1]) != settings.key([5, 6, 7], 1, 64)
    assert settings.key([5, 6, 7], 1, 64) == RequestSettings(sampling={"max_tokens": 4}).key([5, 6, 7], 1, 64)
