"""A study with open pins in the real DAG: refused, pinned, run, and rerun where a pin changed and nowhere else."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hub_server import HubServer
from program import refusal_eval
from project import Project, change_yaml, make_project

from refusal_eval.core.files import read_json, sha256_of_file


def rows(word: str) -> dict[str, bytes]:
    lines = "".join(json.dumps({"prompt": f"{word} {i}?"}) + "\n" for i in range(4))
    return {"README.md": b"# x", "test.jsonl": lines.encode()}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubServer]:
    with HubServer() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.address)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield server


@pytest.fixture
def project(hub: HubServer, tmp_path: Path) -> Project:
    """Return a study of a local split and two on the hub, whose commits it leaves open."""
    project = make_project(tmp_path / "project")
    splits = {}
    for name in ("first", "second"):
        hub.add("dataset", f"org/{name}", rows(name))
        source = {"kind": "hub", "repo": f"org/{name}", "revision": None, "split": "test"}
        splits[name] = {"source": source, "expectation": "comply", "unverified": ["the commit"]}
    change_yaml(
        project.folder / "catalogue.yaml",
        lambda data: data | {"datasets": data["datasets"] | {"hub": {"splits": splits}}},
    )
    project.study(splits=["one", "first", "second"], models=["plain"], judges=["words"], gold=[])
    return project


def pin(project: Project, *arguments: str) -> str:
    run = refusal_eval("pin", "study.yaml", *arguments, cwd=project.folder)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@pytest.mark.full
def test_a_changed_pin_reruns_its_own_cells_only(
    hub: HubServer, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = project.snakemake("-n", check=False)
    said = refused.stdout + refused.stderr
    assert refused.returncode != 0 and said.count("the commit hash is not known yet") == 2
    assert "catalogue.yaml:" in said and "run `refusal-eval pin study.yaml`" in said
    pin(project)
    project.snakemake("--until", "requests")
    project.answer_everything("requests")
    project.snakemake()
    assert project.planned() == {}
    # What the lock says beside the pins reruns nothing but the manifest, which has the hash of the lock.
    lock = project.folder / "study.lock.yaml"
    change_yaml(lock, lambda data: data | {"models": []})
    assert project.planned() == {"manifest": 1, "methods": 1}
    project.snakemake()
    assert read_json(project.results / "manifest.json")["lock_sha256"] == sha256_of_file(lock)
    assert project.planned() == {}
    # One moves: its rows are fetched again, and its own cells run.
    hub.add("dataset", "org/second", rows("newer"))
    pin(project, "--upgrade")
    planned, reported = project.planned_and_said()
    assert (planned["fetch_rows"], planned["prompts"], planned["requests"]) == (1, 1, 1)
    assert [message for message in reported if "Making the prompts" in message] == ["Making the prompts of second"]
    project.snakemake("--until", "requests")
    assert (
        project.answer_everything("requests") == 0
        and "newer 0?" in (project.results / "prompts" / "second.jsonl").read_text()
    )
    project.snakemake()
    # With the hub gone, the lock file and the cache are enough, also for what has to be made again.
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    asked = len(hub.requests)
    shutil.rmtree(project.folder / ".cache" / "rows")
    shutil.rmtree(project.results / "prompts")
    project.snakemake()
    assert len(hub.requests) == asked
    assert yaml.safe_load(lock.read_text())["datasets"][1]["repo"] == "org/second"
