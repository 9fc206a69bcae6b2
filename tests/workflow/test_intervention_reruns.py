"""Interventions in the real DAG: a load of their own, and one that changes reruns its own cells and no others."""

import itertools
import shutil
from pathlib import Path
from typing import Any

import pytest
from direction_study import SIDES, direction_study
from project import Project, change_yaml, copy_of

from refusal_eval.ask.store import GATE
from refusal_eval.core.files import read_json, write_json

pytestmark = pytest.mark.full

ASKED: dict[str, Any] = {"direction": "refusal", "mode": "add", "layers": [1, 2], "scale": -0.5}
# Named, as `--until requests` ends before a direction, which needs requests of its own.
REQUESTS = [f"results/small/requests/{model}/one.jsonl" for model in ("plain", "down", "up", "control")]


def entry(**changes: Any) -> dict[str, Any]:
    return {"engine": "tiny", "sampling": {"max_tokens": 300}, "intervention": ASKED | changes}


@pytest.fixture(scope="module")
def steered_once(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a finished study of a model, two steered ones and their control; do not change it."""
    project = direction_study(tmp_path_factory.mktemp("study") / "project")
    models = {"down": entry(), "up": entry(scale=0.5), "control": entry(direction="chance", scale=1.0)}
    change_yaml(project.folder / "catalogue.yaml", lambda data: data | {"models": data["models"] | models})
    project.study(models=["plain", *models])
    project.snakemake(*REQUESTS)
    project.answer_everything("requests")
    project.snakemake()
    return project


@pytest.fixture
def steered(steered_once: Project, tmp_path: Path) -> Project:
    """Return a copy of a finished study."""
    return copy_of(steered_once, tmp_path / "project")


def test_each_steered_model_has_a_load_of_its_own_and_keys_of_its_own(steered: Project) -> None:
    receipts = {path.parent.name: read_json(path) for path in (steered.results / "receipts").rglob("*.json")}
    assert {name: receipt["requests"] for name, receipt in receipts.items()} == {
        "tiny": 18,
        "down": 18,
        "up": 18,
        "control": 18,
    }
    files = [file for file in steered.request_files("requests") if file.path.stem == "one"]
    keys = list(itertools.chain.from_iterable(file.keys() for file in files))
    assert len(set(keys)) == len(keys) == 4 * 18
    assert steered.planned() == {}


def test_a_store_that_moves_makes_nothing_again(steered: Project) -> None:
    steered.store.rename(steered.folder / "store")
    steered.study(store_dir="store")
    assert steered.planned() == {}


def test_a_direction_that_waits_for_verdicts_does_not_wait_for_those_of_the_model_that_it_steers(
    tmp_path: Path,
) -> None:
    sides = {"positive": {"split": "two", "judge": "label", "above": 0.1}}
    sides |= {"negative": {"split": "two", "judge": "label", "below": -0.1}}
    project = direction_study(tmp_path / "project", judges=["words", "label"])
    models = {"down": entry(), "control": entry(direction="chance")}
    directions = {"refusal": SIDES | sides, "chance": SIDES | sides | {"method": "random"}}
    change_yaml(
        project.folder / "catalogue.yaml",
        lambda data: data | {"models": data["models"] | models, "directions": directions},
    )
    project.study(models=["plain", *models], batch="engine")
    run = project.snakemake("--dry-run", check=False)
    assert run.returncode == 0 and "Cyclic" not in run.stdout + run.stderr
    assert project.planned()["judge"] == 3  # verdicts on the plain model's answers, the steered one's and its control's


def test_another_scale_reruns_its_models_cells_only(steered: Project) -> None:
    steered.catalogue("models", "up", intervention=ASKED | {"scale": 0.75})
    planned, reported = steered.planned_and_said()
    assert (planned["intervention"], planned["requests"], planned["generate"]) == (1, 1, 1)
    assert reported and not [message for message in reported if "down" in message or "plain" in message]


def test_another_direction_asks_all_steered_models_again_and_the_same_one_nothing(steered: Project) -> None:
    (steered.results / "directions" / "refusal.safetensors").unlink()
    steered.snakemake(*REQUESTS)  # the same bytes, out of the store
    assert steered.missing("requests") == set()
    change_yaml(
        steered.folder / "catalogue.yaml",
        lambda d: d | {"directions": {name: entry | {"seed": 1} for name, entry in d["directions"].items()}},
    )
    steered.snakemake(*REQUESTS)
    files = [file for file in steered.request_files("requests") if file.path.parent.name != "plain"]
    assert steered.missing("requests") == {key for file in files for key in list(file.keys())}


def test_a_constellation_is_another_one_when_one_of_its_directions_changes_and_no_other_model_is(
    steered: Project,
) -> None:
    mood = {**SIDES, "positive": SIDES["negative"], "negative": SIDES["positive"]}
    asked = {"mode": "constellation", "scale": 0.3, "gate": 0.5}
    tasks = {"tasks": entry(direction=["refusal", "mood"], **asked)}
    tasks |= {"tasks-control": entry(direction=["chance", "mood-chance"], **asked)}
    moods = {"mood": mood, "mood-chance": mood | {"method": "random"}}
    change_yaml(
        steered.folder / "catalogue.yaml",
        lambda d: d | {"directions": d["directions"] | moods, "models": d["models"] | tasks},
    )
    models = ["plain", "down", "up", "control", *tasks]
    steered.study(models=models, directions=["refusal", "chance", *moods])
    requests = [*REQUESTS, *(f"results/small/requests/{model}/one.jsonl" for model in tasks)]
    steered.snakemake(*requests)
    cards = {name: read_json(steered.results / "interventions" / f"{name}.json") for name in models[1:]}
    assert [reported["direction"] for reported in cards["tasks"]["directions"]] == ["refusal", "mood"]
    change_yaml(
        steered.folder / "catalogue.yaml",
        lambda d: d | {"directions": d["directions"] | {name: one | {"seed": 1} for name, one in moods.items()}},
    )
    steered.snakemake(*requests)
    after = {name: read_json(steered.results / "interventions" / f"{name}.json") for name in models[1:]}
    assert [name for name in models[1:] if after[name]["sha256"] != cards[name]["sha256"]] == [*tasks]
    own = [file for file in steered.request_files("requests") if file.path.parent.name in tasks]
    assert steered.missing("requests") == {key for file in own for key in list(file.keys())}


def test_a_retry_does_not_take_the_answers_of_a_gate_that_no_token_passed_and_a_person_may(steered: Project) -> None:
    gated = {"mode": "gated", "gate": 0.5}
    for name, change in {
        "down": gated,
        "up": gated | {"scale": 0.5},
        "control": gated | {"direction": "chance"},
    }.items():
        steered.catalogue("models", name, intervention=ASKED | change)
    steered.snakemake(*REQUESTS)
    steered.answer_everything("requests")
    card = read_json(steered.results / "interventions" / "down.json")
    (receipt,) = (steered.results / "receipts" / "generate").rglob("down/0-of-1.json")
    counts = {"tokens": 9, "passed": {"1": 0, "2": 0}, "share": 0.0}
    for file in steered.store.glob("*/*-requests-*.jsonl"):  # one of them holds the answers of `down`
        write_json(file.with_suffix(GATE), {"interventions": [card["sha256"]], "gate": counts})
    load = str(receipt.relative_to(steered.folder))
    run = steered.snakemake(load, "--attempt", "2", check=False)  # as Snakemake starts a job for the second time
    assert run.returncode != 0 and "no token passed the gate of 0.5 of `down`" in run.stdout + run.stderr
    steered.snakemake(load)
    assert read_json(receipt)["engine"] == {"gate": counts}


def test_an_intervention_that_is_taken_away_asks_the_plain_model(steered: Project) -> None:
    steered.catalogue("models", "up", intervention=None)
    steered.snakemake()  # all of it is in the store: the plain model was asked the same
    tables = [(steered.results / "answers" / model / "one.jsonl").read_bytes() for model in ("plain", "up")]
    assert tables[0] == tables[1]


def test_a_direction_of_another_model_fails_before_any_batch(steered: Project) -> None:
    shutil.copytree(steered.folder / "model", steered.folder / "deeper")
    config = steered.folder / "deeper" / "config.json"
    config.write_text(config.read_text().replace('"num_hidden_layers": ', '"num_hidden_layers": 1'))
    deeper = {"like": "tiny", "weights": {"kind": "folder", "path": "deeper"}}
    models = {"elsewhere": entry(other_weights=True), "its-control": entry(other_weights=True, direction="chance")}
    more = {
        "engines": {"deeper": deeper},
        "models": {name: model | {"engine": "deeper"} for name, model in models.items()},
    }
    change_yaml(
        steered.folder / "catalogue.yaml",
        lambda data: data | {section: data[section] | entries for section, entries in more.items()},
    )
    steered.study(models=["plain", "down", "up", "control", *models])
    run = steered.snakemake(check=False)
    assert run.returncode != 0
    assert "the number of decoder layers is 1" in run.stdout + run.stderr
    assert "Generating answers: engine/deeper" not in run.stdout + run.stderr
