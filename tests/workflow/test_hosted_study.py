"""A study of hosted models on the stub provider, from prompts to tables: what is asked, what is kept, what is said."""

import contextlib
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hosted_study import KEY_VARIABLE, MODELS, SECRET, answers, hosted_project, started, stub, wait_until
from program import in_process
from project import Project, copy_of
from stub_provider import StubProvider

WHOLE = 2 * 2 * 20 * 3  # requests of the study


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, SECRET)


@pytest.fixture(scope="module")
def provider() -> Iterator[StubProvider]:
    with stub() as running:
        yield running


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, provider: StubProvider) -> Project:
    """Return a finished study; do not change it."""
    project = hosted_project(tmp_path_factory.mktemp("hosted") / "project", provider.address)
    project.study(budget=5)
    with pytest.MonkeyPatch.context() as patch, listed_processes() as seen:
        patch.setenv(KEY_VARIABLE, SECRET)
        project.snakemake()
    assert not seen
    provider.settled()
    return project


def test_a_study_with_a_fifth_of_its_answers_blocked_runs_to_its_tables(done: Project, provider: StubProvider) -> None:
    assert len(provider.entries) == WHOLE  # nothing twice
    for model, kind in MODELS.items():
        entries = [entry for entry in provider.entries if entry["dialect"] == kind]
        said = Counter((e["expect"]["by"], e["expect"]["stage"]) for e in entries if e["kind"] == "blocked")
        rows = answers(done, model)
        blocks = Counter((row["blocked"]["by"], row["blocked"]["stage"]) for row in rows if row["state"] == "blocked")
        assert said == blocks and sum(blocks.values()) > 12
        assert sum(bool(row.get("declared")) for row in rows) == sum(e["kind"] == "declared" for e in entries)
        assert {row["state"] for row in rows} <= {"complete", "truncated", "blocked"}
    run = in_process("verify", "study.yaml", cwd=done.folder)
    assert run.returncode == 0, run.stdout + run.stderr
    assert done.planned() == {}
    assert holders_of_the_secret(done) == []


def test_what_a_finished_study_holds_and_has_cost_is_shown_without_its_key(done: Project) -> None:
    found = {verb: in_process(verb, "study.yaml", cwd=done.folder) for verb in ("status", "store", "plan", "check")}
    assert all(run.returncode == 0 and SECRET not in run.stdout + run.stderr for run in found.values()), found
    assert "Money: " in found["status"].stdout and "left of 5.00" in found["status"].stdout
    assert "served openai-large" in " ".join(found["store"].stdout.split())
    assert "The store has every response: no engine will be started." in found["plan"].stdout


def test_a_later_day_asks_again_and_keeps_the_earlier_responses(
    done: Project, provider: StubProvider, tmp_path: Path
) -> None:
    project = copy_of(done, tmp_path / "project")
    earlier = {path: path.read_bytes() for path in project.store.rglob("*.jsonl")}
    asked = len(provider.entries)
    for kind in MODELS.values():
        project.catalogue("engines", f"{kind}-stub", as_of="2026-11-20")
    project.snakemake("--until", "answers")
    provider.settled()
    assert len(provider.entries) == asked + WHOLE
    assert all(path.read_bytes() == content for path, content in earlier.items())
    for kind in MODELS.values():
        project.catalogue("engines", f"{kind}-stub", as_of="2026-11-01")
    project.snakemake("--until", "answers")
    assert len(provider.entries) == asked + WHOLE  # what was answered on the first day is there


@pytest.mark.parametrize("verb", [("plan",), ("status",), ("check", "--model", "gpt"), ("check", "--model", "claude")])
def test_what_the_program_says_and_keeps_of_hosted_models_is_without_the_key(
    done: Project, provider: StubProvider, tmp_path: Path, verb: tuple[str, ...]
) -> None:
    project, asked = copy_of(done, tmp_path / "project"), len(provider.entries)
    with listed_processes() as seen:
        run = in_process(verb[0], "study.yaml", *verb[1:], cwd=project.folder)
    assert run.returncode == 0 and run.stdout, run.stderr
    assert (len(provider.entries) > asked + 2) == (verb[0] == "check")
    assert not seen and SECRET not in run.stdout + run.stderr and holders_of_the_secret(project) == []


@pytest.mark.parametrize(
    ("model", "options", "sampling", "line"),
    [
        ("gpt", {"unsupported": ["max_tokens"]}, {}, "parameters: {max_tokens: max_completion_tokens}"),
        ("gpt", {"only_default": ["temperature"]}, {"temperature": 0.7}, "parameters: {temperature: null}"),
        ("claude", {"unsupported": ["temperature"]}, {"temperature": 0.7}, "parameters: {temperature: null}"),
    ],
)
def test_a_parameter_that_is_not_taken_costs_one_request_and_the_line_to_write_is_named(
    tmp_path: Path, model: str, options: dict[str, Any], sampling: dict[str, Any], line: str
) -> None:
    with stub(**options) as provider:
        project = hosted_project(tmp_path / "project", provider.address)
        project.study(models=[model], budget=5)
        project.catalogue("models", model, sampling={"max_tokens": 40, **sampling})
        run = project.snakemake("--keep-going", check=False)
        assert run.returncode != 0 and line in run.stdout + run.stderr
        assert len(provider.entries) == 1 and provider.billed["input"] == 0
        # What it says is what helps.
        project.catalogue("engines", f"{MODELS[model]}-stub", **yaml.safe_load(line))
        project.snakemake("--until", "answers")
        assert len(provider.entries) == 1 + WHOLE / 2


@pytest.mark.parametrize("model", MODELS)
def test_a_wrong_key_ends_the_load_at_once_and_is_in_no_file(
    tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = f"sk-wrong-{SECRET}"
    monkeypatch.setenv(KEY_VARIABLE, wrong)
    told = {"status": 401, "body": {"error": {"message": f"Incorrect API key provided: {wrong}"}}}
    with stub(script=[told]) as provider, listed_processes() as seen:
        project = hosted_project(tmp_path / "project", provider.address)
        project.study(models=[model])
        run = project.snakemake("--keep-going", "--verbose", check=False)
        assert run.returncode != 0 and KEY_VARIABLE in run.stderr
        log = project.results / "logs" / "generate" / "engine" / f"{MODELS[model]}-stub" / "0-of-1.log"
        assert len(provider.entries) == 1 and log.stat().st_mtime - provider.entries[0]["time"] < 2
    assert not seen and SECRET not in run.stdout + run.stderr and holders_of_the_secret(project) == []


def test_a_region_that_is_not_served_ends_the_load(tmp_path: Path) -> None:
    with stub(always="403 region") as provider:
        project = hosted_project(tmp_path / "project", provider.address)
        project.study(models=["gpt"])
        run = project.snakemake("--keep-going", check=False)
        assert run.returncode != 0 and "does not serve this region" in run.stderr
        assert len(provider.entries) == 1


def test_prompts_that_a_gateway_moderates_cost_a_request_each_and_are_blocked(tmp_path: Path) -> None:
    with stub(always="OpenRouter 403 moderation") as provider:
        project = hosted_project(tmp_path / "project", provider.address, prompts=4)
        project.study(models=["gpt"])
        project.snakemake()
        assert len(provider.entries) == 2 * 4 * 3
    rows = answers(project, "gpt")
    assert {row["state"] for row in rows} == {"blocked"} and len(rows) == 24
    assert {row["blocked"]["by"] for row in rows} == {"gateway"}
    assert {row["blocked"]["category"] for row in rows} == {"violence"}


def test_a_killed_run_leaves_the_secret_nowhere_and_the_next_one_asks_for_the_rest(tmp_path: Path) -> None:
    with stub(latency=0.1) as provider, listed_processes() as seen:
        project = hosted_project(tmp_path / "project", provider.address)
        project.study(budget=5, requests_in_flight=4)
        run = started(project, "--verbose")
        wait_until(lambda: len(provider.entries) > WHOLE / 4)
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
        provider.settled()
        assert holders_of_the_secret(project) == [] and len(provider.entries) < WHOLE / 2
        project.snakemake("--nolock", "--until", "answers")
        provider.settled()
        assert WHOLE <= len(provider.entries) <= WHOLE + 4
    assert not seen and holders_of_the_secret(project) == []


def holders_of_the_secret(project: Project) -> list[str]:
    """Return the files of the study's folder that hold the key: results, store, caches, logs, Snakemake's records."""
    return [
        str(path.relative_to(project.folder))
        for path in project.folder.rglob("*")
        if SECRET in str(path) or (path.is_file() and SECRET.encode() in path.read_bytes())
    ]


@contextlib.contextmanager
def listed_processes() -> Iterator[set[str]]:
    """Yield the command lines with the key that any process had meanwhile."""
    found, over = set[str](), threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            for process in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    if SECRET.encode() in (line := process.read_bytes()):
                        found.add(line.decode("utf-8", "replace"))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()
