"""A model and two LoRA adapters of it, with the real engine: one load, and the model's own answers stay as they are."""

import logging
from pathlib import Path
from typing import Any

import pytest
from adapter_folders import random_adapter
from project import Project, change_yaml
from real import SHORT, real_project

from refusal_eval.ask.store import StoreReader
from refusal_eval.core.files import read_json
from refusal_eval.core.packing import unpack_floats

LOG = logging.getLogger(__name__)
# Under `strict` no two requests are computed together on a CPU, so that none could get the weights of another.
STUDY: dict[str, Any] = {"splits": ["safe"], "judges": ["keyword"], "determinism": "seeded"}


def project_of(folder: Path, models: list[str]) -> Project:
    """Return a study of the plain model and two adapters of it, of ranks 8 and 12."""
    project = real_project(folder, models=models, **STUDY)
    random_adapter(folder / "first", seed=1)
    random_adapter(folder / "second", seed=2, rank=12)
    tuned = {
        name: {"like": "smollm2-plain", "label": name, "sampling": SHORT, "lora": {"kind": "folder", "path": name}}
        for name in ("first", "second")
    }
    engines = {"smollm2-135m": {"like": "smollm2-135m", "start_timeout": 3600}}
    change_yaml(folder / "catalogue.yaml", lambda data: {**data, "engines": engines, "models": data["models"] | tuned})
    return project


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a study of all three, run to its answers."""
    project = project_of(tmp_path_factory.mktemp("together") / "project", ["plain", "first", "second"])
    project.snakemake("--until", "answers")
    return project


def responses(project: Project, model: str) -> dict[tuple[str, int], dict[str, Any]]:
    """Return {(prompt, sample): response with its key} of a model."""
    (file,) = [file for file in project.request_files("requests") if file.path.parent.name == model]
    records = StoreReader(project.store, file.header["engine_id"]).lookup(file.keys())
    return {
        (row.prompt_id, row.sample): {**records[row.key]["response"], "key": row.key}
        for row in file.requests()
        if row.key is not None
    }


@pytest.mark.full
def test_one_load_serves_the_model_and_its_adapters(together: Project) -> None:
    (path,) = (together.results / "receipts" / "generate").rglob("*.json")
    receipt = read_json(path)
    assert receipt["executed"] == receipt["engine"]["counters"]["requests"] == 3 * 4 * 2
    arguments = receipt["engine"]["serving"]["arguments"]
    assert "--max-lora-rank=16" in arguments
    assert "--max-loras=3" in arguments, "on a CPU the last slot stays empty"
    probed = receipt["engine"]["adapters"]
    assert set(probed) == {"first", "second"}
    assert all(one["difference"] > 0.1 for one in probed.values())
    assert receipt["engine"]["plain_beside_adapters"]["difference"] < 0.1
    assert str(together.folder) not in " ".join(arguments)


@pytest.mark.full
def test_adapters_change_answers_and_keys(together: Project) -> None:
    found = {model: responses(together, model) for model in ("plain", "first", "second")}
    keys = {response["key"] for model in found.values() for response in model.values()}
    assert len(keys) == 3 * 4 * 2
    for one, other in (("plain", "first"), ("plain", "second"), ("first", "second")):
        changed = [found[one][at]["token_ids"] != found[other][at]["token_ids"] for at in found[one]]
        assert sum(changed) > len(changed) / 2, (one, other)


def test_the_models_own_answers_are_those_of_an_engine_without_lora(together: Project, tmp_path: Path) -> None:
    """On a CPU vLLM 0.32 takes the weights of its last slot for requests without an adapter."""
    alone = project_of(tmp_path / "project", ["plain"])
    alone.snakemake("--until", "answers")
    (path,) = (alone.results / "receipts" / "generate").rglob("*.json")
    assert "--enable-lora" not in read_json(path)["engine"]["serving"]["arguments"]
    own, beside = responses(alone, "plain"), responses(together, "plain")
    assert own.keys() == beside.keys() and len(own) == 8
    # What is computed together changes rounding, and now and then a token.
    same = [own[place]["token_ids"] == beside[place]["token_ids"] for place in own]
    assert sum(same) >= len(same) - 1
    apart = [abs(unpack_floats(own[at]["logprobs"])[0] - unpack_floats(beside[at]["logprobs"])[0]) for at in own]
    assert max(apart) < 0.1
