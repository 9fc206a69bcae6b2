"""LoRA adapters in the real DAG: they share the load of their engine, and one that changes reruns its own cells."""

import itertools
import os
from pathlib import Path

import pytest
from adapter_folders import random_adapter
from project import Project, change_yaml, copy_of, make_project

from refusal_eval.core.files import read_json

pytestmark = pytest.mark.full

SHAPE = {"layers": 1, "width": 8, "q_proj": 8, "v_proj": 4}
TUNED = {"engine": "tiny", "sampling": {"max_tokens": 300}}


@pytest.fixture(scope="module")
def adapted_once(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a finished study of a model and two adapters of it; do not change it."""
    project = make_project(tmp_path_factory.mktemp("study") / "project")
    models = {}
    for seed, name in enumerate(("first", "second")):
        random_adapter(project.folder / name, seed=seed, shape=SHAPE)
        models[name] = {**TUNED, "lora": {"kind": "folder", "path": name}}
    change_yaml(project.folder / "catalogue.yaml", lambda data: data | {"models": data["models"] | models})
    project.study(models=["plain", "first", "second"], judges=["words"], gold=[])
    project.snakemake("--until", "requests")
    project.answer_everything("requests")
    project.snakemake()
    return project


@pytest.fixture
def adapted(adapted_once: Project, tmp_path: Path) -> Project:
    """Return a copy of a finished study."""
    return copy_of(adapted_once, tmp_path / "project")


def test_one_batch_holds_them_all_and_no_key_is_shared(adapted: Project) -> None:
    (receipt,) = (adapted.results / "receipts" / "generate").rglob("*.json")
    assert read_json(receipt)["requests"] == 3 * (6 + 5) * 3
    files = adapted.request_files("requests")
    assert len({file.header["engine_id"] for file in files}) == 1
    keys = list(itertools.chain.from_iterable(file.keys() for file in files))
    assert len(set(keys)) == len(keys) == 3 * (6 + 5) * 3
    assert adapted.planned() == {}


def test_a_changed_adapter_reruns_its_models_cells_only(adapted: Project) -> None:
    random_adapter(adapted.folder / "second", seed=9, shape=SHAPE)
    planned, reported = adapted.planned_and_said()
    assert (planned["identify_adapter"], planned["check_adapter"], planned["requests"]) == (1, 1, 2)
    assert reported and not [message for message in reported if "first" in message or "plain" in message]
    adapted.snakemake("--until", "requests")
    of_second = [file for file in adapted.request_files("requests") if file.path.parent.name == "second"]
    assert adapted.missing("requests") == {key for file in of_second for key in list(file.keys())}
    adapted.answer_everything("requests")
    assert not adapted.missing("requests")
    adapted.snakemake()
    assert adapted.planned() == {}


def test_adapters_are_compared_with_older_weights_that_are_put_in_their_engines_place(adapted: Project) -> None:
    weights = adapted.folder / "model" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(bytes(data))
    os.utime(weights, (1, 1))
    planned = adapted.planned()
    assert (planned["identify_engine"], planned["check_adapter"]) == (1, 2)


def test_the_same_adapter_under_another_path_asks_nothing_new(adapted: Project) -> None:
    (adapted.folder / "second").rename(adapted.folder / "moved")
    adapted.catalogue("models", "second", lora={"kind": "folder", "path": "moved"})
    adapted.snakemake()
    assert adapted.missing("requests") == set()
    assert not read_json(next((adapted.results / "receipts" / "generate").rglob("*.json")))["executed"]


def test_an_adapter_that_is_taken_away_asks_the_plain_model(adapted: Project) -> None:
    adapted.catalogue("models", "second", lora=None)
    adapted.snakemake()  # all of it is in the store: the plain model was asked the same
    tables = [(adapted.results / "answers" / model / "one.jsonl").read_bytes() for model in ("plain", "second")]
    assert tables[0] == tables[1]


def test_an_adapter_that_cannot_be_served_fails_before_any_batch(adapted: Project) -> None:
    random_adapter(adapted.folder / "second", seed=9, shape=SHAPE, use_dora=True)
    run = adapted.snakemake(check=False)
    assert run.returncode != 0
    assert "the adapter uses DoRA; vLLM cannot serve it" in run.stdout + run.stderr
    assert "Generating answers" not in run.stdout + run.stderr
