"""What the verbs that look at a study say of one whose models have no weights here, before anything runs."""

from pathlib import Path

import pytest
from hosted_study import KEY_VARIABLE, MODELS, SECRET, hosted_project
from program import in_process
from project import Project

pytestmark = pytest.mark.feature("hosted")
ADDRESS = "https://api.example.org/v1"  # is never asked


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return hosted_project(tmp_path / "project", ADDRESS, prompts=2)


def said(project: Project, *arguments: str, code: int = 0) -> str:
    run = in_process(*arguments, cwd=project.folder)
    assert run.returncode == code, run.stdout + run.stderr
    return run.stdout + run.stderr


def test_there_is_nothing_to_pin(project: Project) -> None:
    assert "takes nothing from the hub or from addresses" in said(project, "pin", "study.yaml")
    assert not list(project.folder.glob("*.lock.yaml"))


@pytest.mark.parametrize("key", [None, SECRET])
def test_the_check_of_the_machine_says_whether_the_keys_are_set(
    project: Project, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    if key is None:
        monkeypatch.delenv(KEY_VARIABLE, raising=False)
    else:
        monkeypatch.setenv(KEY_VARIABLE, key)
    run = in_process("check", "study.yaml", cwd=project.folder)
    (line,) = [line for line in run.stdout.splitlines() if f" {KEY_VARIABLE} " in line]
    engines = ", ".join(sorted(f"{kind}-stub" for kind in MODELS.values()))
    if key is None:
        assert line.startswith("FAIL") and f"not set, and {engines} cannot be asked without it" in line
        assert run.returncode == 1
    else:
        assert line.startswith("ok") and f"set, for {engines}" in line and key not in run.stdout
    assert "no engine here needs" in run.stdout  # a GPU


def test_the_plan_says_what_is_paid_and_what_has_no_price(project: Project) -> None:
    priced = said(project, "plan", "study.yaml")
    assert "elsewhere" in priced and "terms of a server: gpt, claude" in priced and "0.01 USD" in priced
    project.catalogue("engines", "openai-stub", price=None)
    assert "Without a `price`, and not counted: openai-stub." in said(project, "plan", "study.yaml")
    project.catalogue("engines", "anthropic-stub", price=None)
    assert "Without a `price`, and not counted: anthropic-stub, openai-stub." in said(project, "plan", "study.yaml")
    for kind in MODELS.values():  # a server of one's own costs nothing
        project.catalogue("engines", f"{kind}-stub", address="http://127.0.0.1:8000/v1")
    assert "MONEY" not in said(project, "plan", "study.yaml")


def test_status_and_store_know_that_nothing_was_asked(project: Project) -> None:
    status = said(project, "status", "study.yaml", code=3)
    assert "gpt: 0 of 2 splits done" in status and "Money" not in status
    assert "nothing was generated" in said(project, "store", "study.yaml")


def test_judges_are_measured_on_gold_without_asking_the_models(project: Project) -> None:
    found = said(project, "bench-judges", "study.yaml", code=1)
    assert "gold" in found and "Traceback" not in found
