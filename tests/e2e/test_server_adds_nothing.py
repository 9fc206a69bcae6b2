"""The server adds nothing and fills nothing: a model folder's own generation defaults must not change a token."""

import json
import shutil
from pathlib import Path

import pytest
import yaml
from project import Project
from real import SHORT, real_project

from refusal_eval.ask.store import StoreReader
from refusal_eval.core.files import read_json

pytestmark = pytest.mark.full

HIDDEN = {
    "top_k": 1,
    "temperature": 0.01,
    "repetition_penalty": 1.9,
    "max_new_tokens": 3,
    "eos_token_id": 2,
    "bos_token_id": 1,
}


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the converted small model's folder."""
    project = real_project(tmp_path_factory.mktemp("weights") / "project")
    project.snakemake("--until", "identify_engine")
    return Path(read_json(project.results / "engines" / "smollm2-135m.json")["folder"])


def tokens(project: Project, model: str) -> list[list[int]]:
    """Return the generated token ids of a model's cells, in the order of the requests."""
    files = [file for file in project.request_files("requests") if file.path.parent.name == model]
    keys = [key for file in files for key in list(file.keys())]
    reader = StoreReader(project.store, files[0].header["engine_id"])
    found = reader.lookup(keys)
    return [found[key]["response"]["token_ids"] for key in keys]


def test_generation_config_of_the_folder_changes_no_token(tmp_path: Path, model_folder: Path) -> None:
    project = real_project(tmp_path / "project", models=["clean", "hidden"], judges=["keyword"])
    data = yaml.safe_load((project.folder / "catalogue.yaml").read_text())
    data["engines"] = {}
    for name, config in (("clean", {"eos_token_id": 2}), ("hidden", HIDDEN)):
        shutil.copytree(model_folder, project.folder / name)
        (project.folder / name / "generation_config.json").write_text(json.dumps(config))
        weights = {"kind": "folder", "path": name}
        data["engines"][name] = {
            "weights": weights,
            "max_model_len": 1024,
            "memory_share": 0.2,
            "args": {"enforce-eager": True},
        }
        data["models"][name] = {"engine": name, "label": name, "sampling": SHORT | {"temperature": 1.0}}
    (project.folder / "catalogue.yaml").write_text(yaml.safe_dump(data))
    project.snakemake("--until", "answers")
    clean, hidden = tokens(project, "clean"), tokens(project, "hidden")
    assert len(clean) == 16 and clean == hidden
    assert len({tuple(ids) for ids in clean}) > 12  # they are drawn, not greedy
