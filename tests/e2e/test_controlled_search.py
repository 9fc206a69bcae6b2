"""A search for prompts through the real DAG, on a tiny Llama in the engine environment: killed, continued, divided."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from direction_study import ENGINE_PYTHON
from project import ROOT, Project, change_yaml, make_project

from refusal_eval.core.files import read_jsonl

pytestmark = pytest.mark.feature("controlled")
RECEIPT = "results/small/controlled/made/receipts/0-of-1.json"
ROWS = "results/small/controlled/made/rows.jsonl"


def lines(project: Project) -> list[str]:
    """Return the whole lines in the store of texts."""
    files = sorted(project.store.glob("controlled/*/*.jsonl"))
    return [line for file in files for line in file.read_text().split("\n")[:-1]]


def searching(folder: Path) -> Project:
    """Write a study with 12 texts to search for, whose target's answers are in the store."""
    project = make_project(folder)
    subprocess.run(
        [str(ENGINE_PYTHON), str(ROOT / "tests" / "tiny_llama.py"), str(folder / "model")],
        check=True,
        capture_output=True,
    )
    source = {
        "kind": "controlled",
        "seeds": "one",
        "by": "third",
        "target": "plain",
        "samples": 2,
        "w1": 1.0,
        "w2": 1.0,
    }
    source |= {"refusals": {"split": "two", "judge": "words", "tokens": 6}, "steps": 5, "candidates": 4}
    made = {"splits": {"made": {"source": source, "expectation": "comply"}}}
    change_yaml(folder / "catalogue.yaml", lambda data: data | {"datasets": data["datasets"] | {"mine": made}})
    project.catalogue("engines", "tiny", dtype="float32", max_model_len=512)
    project.catalogue("models", "plain", sampling={"max_tokens": 100})
    project.study(models=["terse"], splits=["made"], judges=["words"], gold=[])
    project.snakemake("--", "results/small/requests/plain/two.jsonl")
    project.answer_everything("requests")
    return project


@pytest.mark.full
def test_a_killed_search_keeps_its_texts_and_goes_on_to_the_same_rows(tmp_path: Path) -> None:
    project = searching(tmp_path / "project")
    command = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), "--configfile", "study.yaml"]
    run = subprocess.Popen(
        [*command, "--cores", "2", RECEIPT],
        cwd=project.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while len(lines(project)) < 2 and run.poll() is None:
        time.sleep(0.02)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    time.sleep(15)  # the guard ends the program
    first = lines(project)
    assert 2 <= len(first) < 12 and not (project.folder / RECEIPT).exists()
    project.snakemake("--unlock", RECEIPT)
    again = project.snakemake(RECEIPT)
    assert f"12 texts; the store lacks {12 - len(first)}" in again.stderr
    assert lines(project)[: len(first)] == first and len(lines(project)) == 12
    project.snakemake("--", ROWS)
    rows = list(read_jsonl(project.folder / ROWS))
    assert len(rows) == 12 and {row["state"] for row in rows} <= {"written", "cut", "same", "empty"}
    assert len({json.dumps(row["messages"]) for row in rows}) > 9

    # Searched for once more from the beginning, without a break and by two jobs.
    shutil.rmtree(project.store / "controlled")
    shutil.rmtree(project.results / "controlled")

    def divided(data: dict) -> dict:
        data["datasets"]["mine"]["splits"]["made"]["source"]["shards"] = 2
        return data

    change_yaml(project.folder / "catalogue.yaml", divided)
    project.snakemake("--", ROWS)
    assert len(list(project.store.glob("controlled/*/*.jsonl"))) == 2
    assert list(read_jsonl(project.folder / ROWS)) == rows
