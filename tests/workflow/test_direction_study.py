"""Directions in the real DAG: what they add to a study, and that a study without them plans what it always did."""

from pathlib import Path

import pytest
from direction_study import SIDES, direction_study
from project import Project, change_yaml, copy_of

# The manifest has the hashes of directions and separations; the methods section names the prompts behind directions.
METHODS = {"manifest": 1, "methods": 1}
SCORED = {"model": "plain", "positive": {"split": "two", "judge": "words", "above": 0.1}}
SCORED |= {"negative": {"split": "two", "judge": "words", "below": -0.1}}
FAR = {"name": "far", "models": ["plain"], "positive": {"split": "two"}, "negative": {"split": "extra"}}


@pytest.fixture(scope="module")
def finished_without(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a finished study without directions; do not change it."""
    project = direction_study(tmp_path_factory.mktemp("study") / "project", with_weights=False, directions=[])
    project.snakemake("--until", "requests")
    project.answer_everything("requests")
    project.snakemake()
    return project


@pytest.fixture
def finished(finished_without: Project, tmp_path: Path) -> Project:
    return copy_of(finished_without, tmp_path / "project")


def test_a_study_without_directions_has_no_job_about_them(finished_without: Project) -> None:
    assert finished_without.planned() == {}
    planned = finished_without.planned("--forceall")
    assert not {"activations", "direction"} & set(planned) and planned["prompts"] == planned["requests"] == 1


def test_a_direction_adds_its_own_jobs_and_changes_no_cell(finished: Project) -> None:
    finished.study(directions=["refusal", "chance"])
    planned = finished.planned()
    assert planned.pop("activations") == 2 and planned.pop("direction") == 2
    assert planned.pop("prompts") == planned.pop("requests") == 2, "of the two splits that directions alone use"
    assert planned == METHODS | {"direction_cosines": 1}


def test_splits_by_a_score_are_answered_judged_and_scored_but_not_shown(finished: Project) -> None:
    change_yaml(finished.folder / "catalogue.yaml", lambda data: data | {"directions": {"scored": SCORED}})
    finished.study(directions=["scored"])
    planned = finished.planned()
    names = ("prompts", "requests", "generate", "answers", "cpu_verdicts", "score", "activations", "direction")
    assert {name: planned.pop(name) for name in names} == dict.fromkeys(names, 1)
    assert planned == METHODS


def test_the_layers_of_several_directions_are_captured_together(tmp_path: Path) -> None:
    project = direction_study(tmp_path / "project", with_weights=False, directions=["refusal", "first"])
    change_yaml(
        project.folder / "catalogue.yaml",
        lambda data: data | {"directions": {"refusal": {**SIDES, "layers": [2]}, "first": {**SIDES, "layers": [0]}}},
    )
    planned = project.planned(
        "results/small/directions/first.safetensors", "results/small/directions/refusal.safetensors"
    )
    assert planned["activations"] == 2 and planned["direction"] == 2


def test_a_separation_adds_its_own_jobs_and_shares_activations_with_directions(finished: Project) -> None:
    finished.study(separation=[FAR])
    jobs = {"prompts": 2, "requests": 2, "activations": 2, "separation": 1, "figure": 1}
    assert finished.planned() == jobs | METHODS
    finished.study(separation=[FAR], directions=["refusal"])
    assert finished.planned() == jobs | METHODS | {"direction": 1}


def test_a_steered_model_is_planned_from_activations_to_its_answers_and_changes_no_other_cell(
    finished: Project,
) -> None:
    steered = {"like": "plain", "intervention": {"direction": "refusal", "mode": "ablate", "layers": [0, 1]}}
    control = {"like": "steered", "intervention": {"direction": "chance"}}
    models = {"steered": steered, "control": control}
    change_yaml(finished.folder / "catalogue.yaml", lambda d: d | {"models": d["models"] | models})
    finished.study(
        models=["plain", "steered", "control"], directions=["refusal", "chance"], tables=[], figures=[], comparisons=[]
    )
    planned = finished.planned()
    assert {name: planned[name] for name in ("activations", "direction", "intervention")} == {
        "activations": 2, "direction": 2, "intervention": 2
    }  # fmt: skip
    assert {name: planned[name] for name in ("generate", "answers", "cpu_verdicts", "score")} == {
        "generate": 2, "answers": 2, "cpu_verdicts": 2, "score": 2
    }  # fmt: skip
