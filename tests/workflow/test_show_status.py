"""`refusal-eval status` on a study that really ran: what it says at each stage, with which exit code."""

import json
import os
import shutil
import subprocess
from pathlib import Path

from program import in_process
from project import Project, make_project

DONE, FAILED, USAGE, INCOMPLETE = 0, 1, 2, 3


def show(
    project: Project, *arguments: str, study: str = "study.yaml", cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command as a user would, in the study's folder or from elsewhere."""
    return in_process("status", study, *arguments, cwd=cwd or project.folder)


def files(project: Project) -> dict[Path, int]:
    """Return all files of a study's folder with their time."""
    return {path: path.stat().st_mtime_ns for path in project.folder.rglob("*") if path.is_file()}


def test_a_study_from_nothing_to_an_engine_that_cannot_start(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    empty = show(project)
    assert empty.returncode == INCOMPLETE and "0 of 4 cells done" in empty.stdout
    assert not project.results.exists()
    assert json.loads(show(project, "--json").stdout)["cells"]
    project.catalogue("engines", "tiny", memory_share=1.0)
    project.snakemake("--until", "generate", check=False)
    failed = show(project)
    assert failed.returncode == FAILED and "too little memory" in failed.stdout


def test_a_finished_study_and_cells_of_it_from_wherever_one_looks(finished: Project, tmp_path: Path) -> None:
    before = files(finished)
    run = show(finished)
    assert (run.returncode, run.stderr) == (DONE, "")
    assert "plain: 2 of 2 splits done" in run.stdout and "Everything is done." in run.stdout
    assert "gold: 1 of 1 gold set done" in run.stdout
    assert "I cannot help" not in run.stdout and "question" not in run.stdout
    assert max(map(len, run.stdout.splitlines())) <= 120
    study = str((finished.folder / "study.yaml").relative_to(tmp_path))
    assert show(finished, "--directory", str(finished.folder), study=study, cwd=tmp_path).stdout == run.stdout
    assert files(finished) == before
    (finished.results / "answers" / "terse" / "two.jsonl").unlink()
    assert show(finished, "--cells", "plain/one", "--cells", "gold/people").returncode == DONE
    assert show(finished, "--cells", "terse/two").returncode == INCOMPLETE
    wrong = show(finished, "--cells", "trese/two")
    assert wrong.returncode == USAGE and "did you mean `terse/two`" in wrong.stderr


def test_figures_that_the_study_no_longer_makes_are_named_by_the_run_and_by_the_status(finished: Project) -> None:
    old, *_ = sorted((finished.results / "figures").glob("*.pdf"))
    finished.study(figures=[])
    run = finished.snakemake()
    assert "Nothing to be done" in run.stdout + run.stderr
    status = show(finished)
    assert status.returncode == DONE and old.is_file()
    for text in (run.stdout + run.stderr, status.stdout):
        named = " ".join(text.split()).partition("no longer makes these files in results/small; they may hold old ")[2]
        assert f"figures/{old.name}" in named


def test_it_agrees_with_what_snakemake_would_run(finished: Project) -> None:
    shutil.rmtree(finished.results / "answers" / "terse")
    shutil.rmtree(finished.results / "scores" / "words")
    shutil.rmtree(finished.results / "tables")  # Snakemake makes nothing again that nothing missing needs
    planned = finished.planned()
    run = show(finished, "--json")
    cells = [cell for cell in json.loads(run.stdout)["cells"] if cell["state"] != "done"]
    assert run.returncode == INCOMPLETE
    assert {(cell["judge"], cell["model"]) for cell in cells} == {
        (None, "terse"),
        ("words", "plain"),
        ("words", "terse"),
        ("label", "terse"),
    }
    assert planned["answers"] == sum(cell["step"] == "answers" for cell in cells)


def test_it_agrees_with_snakemake_where_times_are_out_of_order(finished: Project) -> None:
    """As after a copy, or a restored backup: Snakemake knows some files by their content, and others by their time."""
    found = {}
    for name in ("scores/words/plain/one.parquet", "requests/plain/one.jsonl", "prompts/one.jsonl"):
        path = finished.results / name
        before = path.stat()
        os.utime(path, (1, 1) if name.startswith("scores") else None)
        found[name] = (finished.planned() == {}, show(finished).returncode == DONE)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert {one for one, _ in found.values()} == {True, False} and all(one == other for one, other in found.values())


def test_a_bad_study_meets_the_message_that_snakemake_gives(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    project.study(models=["plian"])
    run = show(project)
    assert run.returncode == FAILED and run.stdout == "" and "Traceback" not in run.stderr
    reported = project.snakemake("-n", check=False)
    for line in run.stderr.strip().splitlines():
        assert line.strip() in reported.stdout + reported.stderr
    assert "did you mean `plain`" in run.stderr and not project.results.exists()
