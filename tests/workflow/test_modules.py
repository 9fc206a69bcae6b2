"""Using this workflow from another Snakefile: the study stays whole, or the run stops with one sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from forked_snakemake import run_snakemake
from project import ROOT, STUDY, Project, make_project, planned_jobs

MODULE = "module refusal_eval:\n    snakefile: {snakefile}\n    config: config\nuse rule * from refusal_eval\n"
LOCAL = MODULE.format(snakefile=repr(str(ROOT / "workflow" / "Snakefile")))
ENTRY = MODULE.format(snakefile=repr(str(ROOT / "Snakefile")))
WITH_CONFIGFILE = 'configfile: "config/config.yaml"\n' + LOCAL
DEPLOYED = """from snakemake.utils import min_version


min_version("6.10.0")


configfile: "config/config.yaml"


# declare https://github.com/owner/refusal-eval as a module
module refusal_eval:
    snakefile:
        {snakefile}
    config:
        config


# use all rules from https://github.com/owner/refusal-eval
use rule * from refusal_eval
"""  # as snakedeploy 0.17.1 writes it
HOSTS = ("github", "gitlab")
LEAN = {key: value for key, value in STUDY.items() if key not in ("gold", "batch")}


def lean_project(folder: Path) -> Project:
    project = make_project(folder)
    (project.folder / "study.yaml").write_text(yaml.safe_dump(LEAN))
    other = STUDY | {"study": "other", "primary_judge": "label", "comparisons": {"baseline": "plain"}}
    (project.folder / "config").mkdir()
    (project.folder / "config" / "config.yaml").write_text(yaml.safe_dump(other))
    return project


@pytest.fixture
def lean(tmp_path: Path) -> Project:
    """Return a study without gold, in the folder of a workflow whose own config has gold, batch and a primary judge."""
    return lean_project(tmp_path / "project")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """Return the jobs of the study without a module."""
    return lean_project(tmp_path_factory.mktemp("alone") / "project").planned()


def dry_run(project: Project, snakefile: str, *arguments: str, forked: bool = True) -> tuple[dict[str, int], str]:
    """Return the planned jobs and the last lines of a dry run of another Snakefile in the study's folder."""
    (project.folder / "Snakefile").write_text(snakefile)
    command = ["-n", "--cores", "2", *arguments]
    environment = os.environ | {"NO_COLOR": "1", "XDG_CACHE_HOME": str(project.folder / "cache")}
    run = (run_snakemake if forked else in_a_process)(command, project.folder, environment)
    output = run.stdout + run.stderr
    assert "Traceback" not in output
    return (planned_jobs(output) if run.returncode == 0 else {}), output


def in_a_process(arguments: list[str], cwd: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run snakemake as a user does."""
    command = [sys.executable, "-m", "snakemake", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=env)


def test_a_study_is_not_merged_with_the_config_of_the_snakefile_that_takes_the_module(lean: Project) -> None:
    jobs, output = dry_run(lean, WITH_CONFIGFILE, "--configfile", "study.yaml")
    assert not jobs
    assert "the config also holds `batch`, `comparisons`, `gold`, `primary_judge`, from another file" in output
    assert "take `configfile:` out of the Snakefile" in output


@pytest.mark.parametrize(
    ("snakefile", "arguments", "forked"),
    [
        pytest.param(ENTRY, ["--configfile", "study.yaml"], True, id="the entry of the clone"),
        pytest.param('configfile: "study.yaml"\n' + LOCAL, [], False, id="the study is the configfile"),
        pytest.param(
            LOCAL,
            ["--configfile", "study.yaml", "--config", "samples=3"],
            True,
            id="command line, no configfile of its own",
        ),
    ],
)
def test_a_module_plans_the_jobs_of_the_study_alone(
    lean: Project, alone: dict[str, int], snakefile: str, arguments: list[str], forked: bool
) -> None:
    jobs, output = dry_run(lean, snakefile, *arguments, forked=forked)
    assert jobs == alone, output


def test_mistakes_name_the_configfile_of_the_snakefile_that_takes_the_module(lean: Project) -> None:
    lean.study(models=["plian"])
    _, output = dry_run(lean, 'configfile: "study.yaml"\n' + LOCAL)
    assert "study.yaml:" in output and "did you mean `plain`" in output


def test_a_module_without_config_says_how_to_pass_the_study_on(lean: Project) -> None:
    _, output = dry_run(lean, LOCAL.replace("    config: config\n", ""), "--configfile", "study.yaml")
    assert "`module:` passes the study on with `config: config`" in output


@pytest.fixture
def hosted(lean: Project, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put this repository's Snakefiles into a bare clone, which git takes for that of a host; return its work tree."""
    work, bare = lean.folder / "work", lean.folder / "owner" / "refusal-eval.git"
    (work / "workflow").mkdir(parents=True)
    for name in ("workflow/Snakefile", "Snakefile"):
        (work / name).write_text((ROOT / name).read_text())
    git = ["git", "-C", str(work), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "one"], ["tag", "v1"]):
        subprocess.run([*git, *command], check=True)
    subprocess.run(["git", "clone", "--quiet", "--bare", str(work), str(bare)], check=True)
    for number, host in enumerate(HOSTS):
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", f"url.file://{lean.folder}/.insteadOf")
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", f"https://{host}.com/")
    monkeypatch.setenv("GIT_CONFIG_COUNT", str(len(HOSTS)))
    return work


@pytest.mark.parametrize(("host", "path"), [("gitlab", "Snakefile"), ("gitfile", "workflow/Snakefile")])
def test_a_module_of_a_repository_says_to_clone_it(lean: Project, hosted: Path, host: str, path: str) -> None:
    repository = "owner/refusal-eval" if host in HOSTS else hosted
    snakefile = MODULE.format(snakefile=f'{host}("{repository}", path="{path}", tag="v1")')
    _, output = dry_run(lean, snakefile, "--configfile", "study.yaml")
    assert "cannot run from an address" in output and "Clone the repository" in output
    assert "give the path of the clone's workflow/Snakefile to `module:`" in output


@pytest.mark.usefixtures("hosted")
def test_what_snakedeploy_writes_says_to_clone_the_repository_and_runs_with_the_path_of_a_clone(
    lean: Project, alone: dict[str, int]
) -> None:
    address = 'github("owner/refusal-eval", path="workflow/Snakefile", tag="v1")'
    _, output = dry_run(lean, DEPLOYED.format(snakefile=address))
    assert "cannot run from an address" in output and "Clone the repository" in output
    study = LEAN | {"catalogue": ["../catalogue.yaml"]}
    (lean.folder / "config" / "config.yaml").write_text(yaml.safe_dump(study))
    jobs, output = dry_run(lean, DEPLOYED.format(snakefile=f'"{ROOT / "workflow" / "Snakefile"}"'))
    assert jobs == alone, output


def test_workflow_snakefile_is_the_same_workflow_as_the_entry_of_the_clone(
    lean: Project, alone: dict[str, int]
) -> None:
    jobs, output = dry_run(lean, "", "--snakefile", str(ROOT / "workflow" / "Snakefile"), "--configfile", "study.yaml")
    assert jobs == alone, output
