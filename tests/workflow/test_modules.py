"""Using this workflow from another Snakefile: the study stays whole, or the run stops with one sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from project import ROOT, STUDY, Project, make_project, planned_jobs

MODULE = "module refusal_eval:\n    snakefile: {snakefile}\n    config: config\nuse rule * from refusal_eval\n"
LOCAL = MODULE.format(snakefile=repr(str(ROOT / "workflow" / "Snakefile")))
ENTRY = MODULE.format(snakefile=repr(str(ROOT / "Snakefile")))
WITH_CONFIGFILE = 'configfile: "config/config.yaml"\n' + LOCAL
LEAN = {key: value for key, value in STUDY.items() if key not in ("gold", "batch")}


@pytest.fixture
def lean(tmp_path: Path) -> Project:
    """Return a study without gold, in the folder of a workflow whose own config has gold, batch and a primary judge."""
    project = make_project(tmp_path / "project")
    (project.folder / "study.yaml").write_text(yaml.safe_dump(LEAN))
    other = STUDY | {"study": "other", "primary_judge": "label", "comparisons": {"baseline": "plain"}}
    (project.folder / "config").mkdir()
    (project.folder / "config" / "config.yaml").write_text(yaml.safe_dump(other))
    return project


def dry_run(project: Project, snakefile: str, *arguments: str) -> tuple[dict[str, int], str]:
    """Return the planned jobs and the last lines of a dry run of another Snakefile in the study's folder."""
    (project.folder / "Snakefile").write_text(snakefile)
    command = [sys.executable, "-m", "snakemake", "-n", "--cores", "2", *arguments]
    environment = os.environ | {"NO_COLOR": "1", "XDG_CACHE_HOME": str(project.folder / "cache")}
    run = subprocess.run(command, cwd=project.folder, capture_output=True, text=True, env=environment)
    output = run.stdout + run.stderr
    assert "Traceback" not in output
    return (planned_jobs(output) if run.returncode == 0 else {}), output


def test_a_study_is_not_merged_with_the_config_of_the_snakefile_that_takes_the_module(lean: Project) -> None:
    jobs, output = dry_run(lean, WITH_CONFIGFILE, "--configfile", "study.yaml")
    assert not jobs
    assert "the config also holds `batch`, `comparisons`, `gold`, `primary_judge`, from another file" in output
    assert "take `configfile:` out of the Snakefile" in output


@pytest.mark.parametrize(
    ("snakefile", "arguments"),
    [
        pytest.param(LOCAL, ["--configfile", "study.yaml"], id="no configfile of its own"),
        pytest.param(ENTRY, ["--configfile", "study.yaml"], id="the entry of the clone"),
        pytest.param('configfile: "study.yaml"\n' + LOCAL, [], id="the study is the configfile"),
        pytest.param(LOCAL, ["--configfile", "study.yaml", "--config", "samples=3"], id="command line"),
    ],
)
def test_a_module_plans_the_jobs_of_the_study_alone(lean: Project, snakefile: str, arguments: list[str]) -> None:
    jobs, output = dry_run(lean, snakefile, *arguments)
    assert jobs == lean.planned(), output


def test_mistakes_name_the_configfile_of_the_snakefile_that_takes_the_module(lean: Project) -> None:
    lean.study(models=["plian"])
    _, output = dry_run(lean, 'configfile: "study.yaml"\n' + LOCAL)
    assert "study.yaml:" in output and "did you mean `plain`" in output


def test_a_module_without_config_says_how_to_pass_the_study_on(lean: Project) -> None:
    _, output = dry_run(lean, LOCAL.replace("    config: config\n", ""), "--configfile", "study.yaml")
    assert "`module:` passes the study on with `config: config`" in output


@pytest.mark.parametrize("path", ["workflow/Snakefile", "Snakefile"])
def test_a_module_of_a_repository_says_to_clone_it(lean: Project, path: str) -> None:
    repository = lean.folder / "repository"
    (repository / "workflow").mkdir(parents=True)
    for name in ("workflow/Snakefile", "Snakefile"):
        (repository / name).write_text((ROOT / name).read_text())
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "one"], ["tag", "v1"]):
        subprocess.run([*git, *command], check=True)
    snakefile = f'gitfile("{repository}", path="{path}", tag="v1")'
    _, output = dry_run(lean, MODULE.format(snakefile=snakefile), "--configfile", "study.yaml")
    assert "cannot run from an address" in output and "Clone the repository" in output


def test_workflow_snakefile_is_the_same_workflow_as_the_entry_of_the_clone(lean: Project) -> None:
    jobs, output = dry_run(lean, "", "--snakefile", str(ROOT / "workflow" / "Snakefile"), "--configfile", "study.yaml")
    assert jobs == lean.planned(), output
