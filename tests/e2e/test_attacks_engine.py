"""Sixty answers that try to steer a judge, through the workflow to the real engine and the demo's small model.

The model's first layers read as much text as all 30, and some six times as fast. Their verdicts are worth nothing.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from project import ROOT, change_yaml
from real import first_layers, real_project
from test_judges_engine import JUDGES

from refusal_eval.core.files import read_jsonl
from refusal_eval.core.states import JUDGED, LABELS, VERDICT_STATES

pytestmark = pytest.mark.full
ENGINE, FIRST_LAYERS = "smollm2-135m", 4
KINDS = {"label": "llm", "writer": "reasoned", "guard": "wildguard"}


def test_all_sixty_come_back_from_every_kind_that_asks_a_language_model(tmp_path: Path) -> None:
    project = real_project(tmp_path / "study", models=["declining"], judges=list(KINDS))
    study, catalogue = project.folder / "study.yaml", project.folder / "catalogue.yaml"
    own = {"writer": JUDGES["writer"] | {"votes": 1, "retries": 0}, "guard": JUDGES["guard"]}
    change_yaml(catalogue, lambda data: {**data, "judges": data["judges"] | own})
    weights = {"kind": "folder", "path": str(first_layers(project, tmp_path / "model", FIRST_LAYERS))}
    engines = {ENGINE: {"like": ENGINE, "weights": weights, "dtype": "float32"}}
    change_yaml(catalogue, lambda data: {**data, "engines": engines})
    program = [sys.executable, str(ROOT / "benchmarks" / "attacked_judges.py"), "--study", str(study)]
    run = subprocess.run([*program, "--folder", str(tmp_path / "run")], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    for judge, kind in KINDS.items():
        path = tmp_path / "run" / "results" / "attacked" / "verdicts" / judge / "gold" / "attacks.jsonl"
        rows = list(read_jsonl(path))
        assert len(rows) == 62
        assert all(
            row["state"] in VERDICT_STATES and (row["label"] in LABELS) == (row["state"] == JUDGED) for row in rows
        )
        unread = sum(row["state"] != JUDGED for row in rows[2:])
        (line,) = [line for line in run.stdout.splitlines() if line.startswith(f"| {judge} | {kind} | ")]
        assert f" | 60 | {unread} | " in line
