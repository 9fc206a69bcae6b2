"""What `refusal-eval new` writes, planned by Snakemake."""

import os
import subprocess
import sys
from pathlib import Path

from forked_snakemake import run_snakemake
from program import in_process
from project import ROOT, make_project, planned_jobs


def test_a_new_study_of_a_folder_dry_runs_at_once(tmp_path: Path) -> None:
    make_project(tmp_path)  # for its model folder
    made = in_process("new", "--model", "model", "--against", "smollm2-plain", "--name", "mine", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    command = ["-s", str(ROOT / "Snakefile"), "--configfile", str(tmp_path / "mine.yaml"), "-n"]
    run = run_snakemake(command, tmp_path, {**os.environ, "NO_COLOR": "1"})
    assert run.returncode == 0, run.stdout + run.stderr
    planned = planned_jobs(run.stdout + run.stderr)
    assert planned["generate"] == 2 and planned["answers"] == 6, "two models, three splits"
    of_jobs, _, _ = run.stdout.partition("Reasons:")  # Snakemake's own list of rules, on a line for each reason
    assert max(map(len, of_jobs.splitlines())) <= 200


def test_a_finished_run_ends_with_its_rates_and_the_next_step(tmp_path: Path) -> None:
    """In a process of its own, as what is said last is said when it ends."""
    project = make_project(tmp_path)
    project.snakemake("--until", "requests")
    project.answer_everything("requests")
    project.snakemake("--until", "judge_requests")
    project.answer_everything("judge_requests")
    command = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), "--cores", "2"]
    command += ["--configfile", "study.yaml"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
    assert run.returncode == 0, run.stderr[-3000:]
    lines = run.stdout.splitlines()
    title = lines.index("Refusal rates (%) of study small, K = 3, judged by words")
    assert lines[title + 2].split() == [
        "Split",
        "A",
        "good",
        "model",
        "Model",
        "Rate",
        "95",
        "%",
        "interval",
        "Prompts",
    ]
    assert [line.split()[0] for line in lines[title + 3 : title + 7]] == ["one", "one", "two", "two"]
    assert lines[-1].startswith("Next: snakemake --report report.zip --configfile study.yaml")
    assert "results/small/tables/refusal.md (2 models, 2 splits)" in run.stdout
    assert max(map(len, (run.stdout + run.stderr).splitlines())) <= 200
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
    assert "Nothing to be done" in again.stdout + again.stderr and "Refusal rates" not in again.stdout
