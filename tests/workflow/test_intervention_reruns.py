"""Interventions in the real DAG: a load of their own, and one that changes reruns its own cells and no others."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from direction_files import random_direction
from project import Project, change_yaml, copy_of, make_project

from refusal_eval.core.files import read_json

pytestmark = pytest.mark.full

LAYERS, SMALL = [0, 1, 2, 3], {"model_layers": 4, "width": 8}
ASKED: dict[str, Any] = {"direction": "refusal", "mode": "add", "layers": [1, 2], "scale": -0.5}


def entry(**changes: Any) -> dict[str, Any]:
    return {"engine": "tiny", "sampling": {"max_tokens": 300}, "intervention": ASKED | changes}


@pytest.fixture(scope="module")
def steered_once(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a finished study of a model and two steered ones; do not change it."""
    project = make_project(tmp_path_factory.mktemp("study") / "project")
    models = {"down": entry(), "up": entry(scale=0.5)}
    change_yaml(project.folder / "catalogue.yaml", lambda data: data | {"models": data["models"] | models})
    project.study(models=["plain", "down", "up"], judges=["words"], gold=[])
    direction(project)
    project.snakemake("--until", "requests")
    project.answer_everything("requests")
    project.snakemake()
    return project


@pytest.fixture
def steered(steered_once: Project, tmp_path: Path) -> Project:
    """Return a copy of a finished study."""
    return copy_of(steered_once, tmp_path / "project")


def direction(project: Project, seed: int = 0, **card: Any) -> None:
    random_direction(project.results / "directions" / "refusal.safetensors", LAYERS, seed=seed, **(SMALL | card))


def test_each_steered_model_has_a_load_of_its_own_and_keys_of_its_own(steered: Project) -> None:
    receipts = {path.parent.name: read_json(path) for path in (steered.results / "receipts").rglob("*.json")}
    assert {name: receipt["requests"] for name, receipt in receipts.items()} == dict.fromkeys(
        ("tiny", "down", "up"), (6 + 5) * 3
    )
    files = steered.request_files("requests")
    keys = list(itertools.chain.from_iterable(file.keys() for file in files))
    assert len(set(keys)) == len(keys) == 3 * (6 + 5) * 3
    assert steered.planned() == {}


def test_another_scale_reruns_its_models_cells_only(steered: Project) -> None:
    steered.catalogue("models", "up", intervention=ASKED | {"scale": 0.75})
    planned = steered.planned()
    assert (planned["intervention"], planned["requests"], planned["generate"]) == (1, 2, 1)
    told = [message for message in steered.planned_messages() if "down" in message or "plain" in message]
    assert told == []


def test_another_direction_asks_all_steered_models_again_and_the_same_one_nothing(steered: Project) -> None:
    direction(steered)  # the same bytes, written anew
    steered.snakemake("--until", "requests")
    assert steered.missing("requests") == set()
    direction(steered, seed=1)
    steered.snakemake("--until", "requests")
    files = [file for file in steered.request_files("requests") if file.path.parent.name != "plain"]
    assert steered.missing("requests") == {key for file in files for key in list(file.keys())}


def test_an_intervention_that_is_taken_away_asks_the_plain_model(steered: Project) -> None:
    steered.catalogue("models", "up", intervention=None)
    steered.snakemake()  # all of it is in the store: the plain model was asked the same
    tables = [(steered.results / "answers" / model / "one.jsonl").read_bytes() for model in ("plain", "up")]
    assert tables[0] == tables[1]


def test_a_direction_of_another_model_fails_before_any_batch(steered: Project) -> None:
    (steered.folder / "model" / "config.json").write_text('{"eos_token_id": 258, "num_hidden_layers": 6}')
    run = steered.snakemake(check=False)
    assert run.returncode != 0
    assert "the number of decoder layers is 6, and it was fitted on a model with 4" in run.stdout + run.stderr
    assert "Generating answers: engine/tiny/" not in run.stdout + run.stderr  # of the steered models
