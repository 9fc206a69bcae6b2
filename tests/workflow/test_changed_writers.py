"""Writers with an adapter or an intervention, which the study does not list: what they are asked, and by which load."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
from adapter_folders import random_adapter
from direction_study import direction_study
from project import ROOT, Project, change_yaml, make_project

from refusal_eval.ask.requests import read_requests
from refusal_eval.config.load_study import load_study, study_values
from refusal_eval.config.problems import ConfigError
from refusal_eval.core.files import read_jsonl
from refusal_eval.study.batches import Cell
from refusal_eval.study.study import Study
from refusal_eval.workflow.generation import fetched_changes, loaded_files

ASK = "Reword it.\n<q-{{ nonce }}>{{ prompt }}</q-{{ nonce }}>"
SHAPE = {"layers": 1, "width": 8, "q_proj": 8, "v_proj": 4}
HUB = {"kind": "hub", "repo": "owner/adapter", "revision": "0123456789abcdef0123456789abcdef01234567"}


def with_writer(project: Project, **writer: Any) -> None:
    """Let a model of these changes, which the study does not list, write a split that it evaluates."""
    (project.folder / "ask.md").write_text(ASK)
    source = {"kind": "written", "split": "one", "by": "writer", "template": "ask.md"}
    splits = {"anew": {"source": source, "where": {"state": "written"}, "expectation": "comply"}}
    writing = {"engine": "tiny", "sampling": {"max_tokens": 300}, **writer}
    change_yaml(
        project.folder / "catalogue.yaml",
        lambda data: (
            data
            | {
                "models": data["models"] | {"writer": writing},
                "datasets": data["datasets"] | {"made": {"splits": splits}},
            }
        ),
    )


def loaded(project: Project) -> Study:
    file = str(project.folder / "study.yaml")
    with contextlib.chdir(project.folder):
        return Study(load_study(study_values(file), file, str(ROOT)))


@pytest.mark.feature("written", "lora")
def test_an_adapter_of_a_writer_is_asked_and_its_loads_are_shards_of_each_level_also_on_slurm(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    random_adapter(project.folder / "adapter", shape=SHAPE)
    with_writer(project, lora={"kind": "folder", "path": "adapter"})
    project.study(models=["plain"], splits=["one", "anew"], judges=["words"], gold=[], shards=2, figures=[])
    planned, said = project.planned_and_said("--profile", str(ROOT / "profiles" / "slurm"))
    loads = [one.removeprefix("Generating answers: ") for one in said if one.startswith("Generating")]
    assert loads == [f"{batch}, load {n}-of-2" for batch in ("engine/tiny", "engine/tiny/_level1") for n in (0, 1)]
    assert planned["identify_adapter"] == planned["check_adapter"] == 1

    asked = [f"results/small/requests/{cell}.jsonl" for cell in ("plain/one", "writer/anew.asked")]
    project.snakemake("--", *asked)
    plain, writer = (read_requests(project.folder / path).header for path in asked)
    assert "lora" not in plain and writer["lora"] and writer["engine_id"] == plain["engine_id"]
    study = loaded(project)
    assert study.generation_batches["engine/tiny"] == [Cell("plain", "one"), Cell("writer", "anew.asked")]
    assert any("adapters" in path for path in loaded_files(study, "engine/tiny")["lora"])

    assert len(project.missing("requests")) == 3 * 6 + 6
    project.answer_everything("requests")
    project.snakemake("--", "results/small/requests/plain/anew.jsonl")
    answers = list(read_jsonl(project.results / "answers" / "writer" / "anew.asked.jsonl"))
    prompts = list(read_jsonl(project.results / "prompts" / "anew.jsonl"))
    kept = [row["answer"] for row in answers if "cannot" not in row["answer"]]
    assert 0 < len(kept) < 6 and [row["messages"][0]["content"] for row in prompts] == kept


@pytest.mark.feature("written", "lora")
def test_an_adapter_of_a_writer_is_fetched(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    with_writer(project, lora=HUB)
    project.study(models=["plain"], splits=["anew"], judges=["words"], gold=[])
    (file,) = fetched_changes(loaded(project))
    assert file.endswith("adapter.json")
    assert project.planned("--until", "fetch_adapter")["fetch_adapter"] == 1


@pytest.mark.feature("written", "steering")
def test_a_steered_writer_has_a_load_of_its_own_and_its_directions(tmp_path: Path) -> None:
    project = direction_study(tmp_path / "project", with_weights=False, splits=["anew"], directions=["refusal"])
    asked = {"direction": "refusal", "mode": "add", "layers": [1, 2], "scale": -0.5}
    with_writer(project, intervention=asked)
    planned, said = project.planned_and_said()
    loads = [one.removeprefix("Generating answers: ") for one in said if one.startswith("Generating")]
    assert loads == ["engine/tiny/_level1, load 0-of-1", "engine/tiny/writer, load 0-of-1"]
    assert planned["intervention"] == planned["direction"] == 1
    project.study(directions=[])
    with pytest.raises(ConfigError) as error:
        loaded(project)
    assert "writer.intervention.direction: `refusal` is not one of the study's `directions`; add it" in str(error.value)
