"""A new user's way: `refusal-eval new` on a local model folder, then Snakemake, to a finished table."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from program import refusal_eval
from project import ROOT
from real import first_layers, real_project


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_from_a_model_folder_to_a_finished_table(tmp_path: Path) -> None:
    first_layers(real_project(tmp_path / "project"), tmp_path / "my-finetune", layers=4)
    (tmp_path / ".cache").symlink_to(ROOT / ".cache")  # downloads are shared with all tests, and with the demo
    arguments = ["--model", "my-finetune", "--against", "smollm2-plain", "--splits", "should_decline"]
    made = refusal_eval("new", *arguments, "--samples", "1", "--max-tokens", "8", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    command = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), "--cores", "2"]
    command += ["--configfile", "my-finetune.yaml"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
    assert run.returncode == 0, run.stderr[-6000:]
    assert "Refusal rates (%) of study my-finetune, K = 1, judged by Keyword lists" in run.stdout
    assert run.stdout.splitlines()[-1].startswith("Next: snakemake --report report.zip --configfile my-finetune.yaml")
    table = (tmp_path / "results" / "my-finetune" / "tables" / "refusal.md").read_text()
    assert "my-finetune" in table and "SmolLM2-135M" in table
    assert max(map(len, (run.stdout + run.stderr).splitlines())) <= 200
