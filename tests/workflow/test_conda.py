"""`--sdm conda`: rules run in the environment of envs/workflow.yaml, and without that option nothing changes."""

import os
import re
import sys
from pathlib import Path

import pytest
from project import ROOT, Project, make_project

ENVIRONMENT = ROOT / "envs" / "workflow.yaml"
# Answers as conda does. The environment that it makes is the one that the tests run in, and keeps a list of its jobs.
STAND_IN = f"""#!{sys.executable}
import json, pathlib, sys
command = sys.argv[1:]
here = pathlib.Path(__file__).parents[1]
if command == ["--version"]:
    print("conda 25.7.0")
elif command[0] == "info":
    print(json.dumps({{"conda_prefix": str(here), "platform": "linux-64"}}))
elif command[0] == "config":
    print(json.dumps({{"get": {{"channel_priority": "strict"}}}}))
elif command[:2] == ["env", "create"]:
    prefix = pathlib.Path(command[command.index("--prefix") + 1])
    (prefix / "bin").mkdir(parents=True)
    python = prefix / "bin" / "python"
    python.write_text(f'#!/bin/sh\\necho "$@" >> {{here}}/jobs\\nexec {sys.executable} "$@"\\n')
    python.chmod(0o755)
    with open(here / "created", "a") as handle:
        print(command[command.index("--file") + 1], file=handle)
"""


@pytest.fixture
def conda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a stand-in for conda on the PATH; return its folder."""
    folder = tmp_path / "conda"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "conda").write_text(STAND_IN)
    (folder / "bin" / "conda").chmod(0o755)
    (folder / "bin" / "activate").write_text('export CONDA_PREFIX="$1" PATH="$1/bin:$PATH"\n')
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
    return folder


def test_each_rule_with_a_script_names_the_environment_and_only_engine_loads_a_container() -> None:
    in_container = set()
    for file in sorted((ROOT / "workflow").rglob("*.smk")):
        for name, rule in re.findall(r"^rule (\w+):\n((?: .*\n|\n)*)", file.read_text(), re.MULTILINE):
            assert ('conda:\n        "../../envs/workflow.yaml"' in rule) == ("script:" in rule), name
            in_container |= {name} if "container:" in rule else set()
    assert in_container == {"generate", "judge", "activations", "gradients", "search_prompts"}


def test_rules_run_in_one_environment_that_conda_makes_of_the_lock(conda: Path, tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    project.snakemake("--sdm", "conda", "--until", "prompts")
    (copy,) = (conda / "created").read_text().split()
    assert Path(copy).read_bytes() == ENVIRONMENT.read_bytes()
    assert len(re.findall(r"make_prompts\.py", (conda / "jobs").read_text())) == 2


def test_without_the_option_no_conda_is_asked_for(conda: Path, finished: Project) -> None:
    assert finished.planned() == {}
    assert not list(conda.glob("created")) and not list(conda.glob("jobs"))
