"""Two hosted models on the stub provider: what a script makes of the provider's own log is what the study says."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from program import in_process
from project import Project, change_yaml, make_project
from stub_provider import StubProvider
from stub_replies import REFUSAL

pytestmark = pytest.mark.feature("hosted", "who_refused")
SCRIPT = Path(__file__).parents[1] / "independent" / "who_refused.py"
KINDS = {"gpt": "openai", "claude": "anthropic"}


class Done(NamedTuple):
    """A finished study, and what the provider logged of it."""

    project: Project
    log: Path


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Done]:
    folder = tmp_path_factory.mktemp("who-refused")
    project, log = make_project(folder / "project"), folder / "stub.jsonl"
    with StubProvider(log=log, key=None, blocked=0.2, declared=0.1, refused=0.2, varies=True) as stub:
        engines: dict[str, Any] = {
            kind: {"kind": kind, "address": stub.address, "served": f"{name}-stub", "as_of": "2026-11-01"}
            for name, kind in KINDS.items()
        }
        models = {name: {"engine": kind, "sampling": {"max_tokens": 40}} for name, kind in KINDS.items()}
        added = {"engines": engines, "models": models}
        change_yaml(project.folder / "catalogue.yaml", lambda data: data | {k: data[k] | added[k] for k in added})
        (project.folder / "words.yaml").write_text(f'refusal_openings: ["{REFUSAL.lower().rstrip(".")}"]\n')
        for split in ("one", "two"):
            rows = [f'{{"prompt": "{split}: question {i}?"}}\n' for i in range(30)]
            (project.folder / f"{split}.jsonl").write_text("".join(rows))
        project.study(models=list(KINDS), judges=["words"], gold=[])
        project.snakemake()
        stub.settled()
    yield Done(project, log)


def recomputed(log: Path, results: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), str(log), str(results)], capture_output=True, text=True)


def test_both_rates_and_who_refused_are_what_the_log_of_the_provider_gives(done: Done) -> None:
    run = recomputed(done.log, done.project.results)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "0 numbers disagree" in run.stdout
    # Both rates, and eleven parties, of two models on two splits.
    assert f"{'refusal_rate_model_alone':32}{4:7} recomputed" in run.stdout
    assert f"{'refused_by':32}{44:7} recomputed" in run.stdout
    used = run.stdout.partition("Refused by: ")[2].splitlines()[0].split(", ")
    assert {"model", "declared", "classifier", "filter_prompt", "gateway"} <= set(used)


def test_the_study_is_verified(done: Done) -> None:
    folder = done.project.folder
    run = in_process("verify", str(folder / "study.yaml"), "--directory", str(folder), cwd=folder.parent)
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_block_that_the_study_takes_for_something_else_is_found(done: Done, tmp_path: Path) -> None:
    lines = done.log.read_text().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if '"by": "classifier"' in line)
    lines[at] = lines[at].replace('"by": "classifier"', '"by": "gateway"')
    (tmp_path / "log.jsonl").write_text("".join(lines))
    run = recomputed(tmp_path / "log.jsonl", done.project.results)
    assert run.returncode == 1 and "refused_by classifier" in run.stdout and "refused_by gateway" in run.stdout
