"""The cache is shared by studies and clones: what is in it is never fetched again, and never taken away from others."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_server import HubServer
from project import Project, make_project


@pytest.fixture
def fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """Return a study with rows and weights of a hub, all of it in its cache."""
    project = make_project(tmp_path / "first")
    model = project.folder / "model"
    with HubServer() as hub:
        weights = hub.add("model", "org/model", {path.name: path.read_bytes() for path in model.iterdir()})
        rows = hub.add("dataset", "org/rows", {"data/test.jsonl": b'{"prompt": "one?"}\n{"prompt": "two?"}\n'})
        source = {"kind": "hub", "repo": "org/rows", "revision": rows, "split": "test"}
        project.catalogue("engines", "tiny", weights={"kind": "hub", "repo": "org/model", "revision": weights})
        project.catalogue("datasets", "own", splits={"one": {"source": source, "expectation": "comply"}})
        project.study(splits=["one"], judges=["words"], gold=[], cache_dir=str(tmp_path / "cache"))
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        project.snakemake("fetch")
        yield project


def fetches(project: Project) -> dict[str, int]:
    """Return how many jobs of each rule would fetch something."""
    return {rule: count for rule, count in project.planned().items() if rule.startswith("fetch")}


def test_a_fresh_clone_with_newer_scripts_uses_the_cache_of_another(fetched: Project, tmp_path: Path) -> None:
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert {"weights.json", "tokenizer_manifest.json", "rows.jsonl"} <= {path.name for path in files}
    for path in files:
        os.utime(path, (1_000_000_000, 1_000_000_000))
    assert fetches(fetched) == {}
    clone = Project(tmp_path / "clone")
    shutil.copytree(fetched.folder, clone.folder, ignore=shutil.ignore_patterns(".snakemake", "results"))
    assert fetches(clone) == {}
    clone.snakemake("--until", "requests")
    assert all(path.stat().st_mtime == 1_000_000_000 for path in files)


def test_what_is_deleted_from_the_cache_is_fetched_again(fetched: Project, tmp_path: Path) -> None:
    (rows,) = (tmp_path / "cache").rglob("rows.jsonl")
    (manifest,) = (tmp_path / "cache").rglob("weights.json")
    rows.unlink()
    manifest.unlink()
    assert fetches(fetched) == {"fetch_rows": 1, "fetch_weights": 1}
