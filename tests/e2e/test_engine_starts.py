"""How often an engine starts: one study of 2 models, 2 splits and 2 judges on a second engine, in every batch mode."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from faults import Place, executed_at_server, receipts
from project import ROOT, Project
from real import catalogue, real_project

pytestmark = [pytest.mark.full, pytest.mark.timeout(2 * 60 * 60)]

MODELS = ["plain", "declining"]
SPLITS = ["one", "two"]
JUDGES = ["yes_no", "letters"]
REQUESTS = {"generate": len(MODELS) * len(SPLITS), "judge": len(MODELS) * len(SPLITS) * len(JUDGES)}
RUBRICS = ROOT / "config" / "rubrics"
TO_SCORES = ("--until", "score")


def few_words(folder: Path, **changes: Any) -> Project:
    """Write the study: a prompt per split, one answer of a few tokens per prompt."""
    project = real_project(folder, models=MODELS, splits=SPLITS, judges=JUDGES, samples=1, **changes)
    prompts = (ROOT / "config" / "prompts" / "alarming_but_safe.jsonl").read_text().splitlines()
    for name, prompt in zip(SPLITS, prompts, strict=False):
        (folder / f"{name}.jsonl").write_text(prompt + "\n")
    sources = {name: {"kind": "file", "path": f"{name}.jsonl"} for name in SPLITS}
    judge = {"kind": "llm", "engine": "second", "mass_floor": 0.01}
    data = catalogue()
    for model in MODELS:
        # Hot, so that no two cells give a judge the same answer to read: such requests are executed once.
        data["models"][model]["sampling"] = {"max_tokens": 8, "temperature": 1.3}
    data["engines"] = {"second": {"like": "smollm2-135m", "dtype": "float32"}}
    data["datasets"] = {
        "own": {"splits": {name: {"source": source, "expectation": "comply"} for name, source in sources.items()}}
    }
    data["judges"] = {
        "yes_no": {
            **judge,
            "rubric": str(RUBRICS / "refusal_yes_no.md"),
            "labels": {"refusal": "Yes", "compliance": "No"},
        },
        "letters": {
            **judge,
            "rubric": str(RUBRICS / "refusal_labels_short.md"),
            "labels": {"refusal": "A", "partial": "B", "compliance": "C"},
        },
    }
    (folder / "catalogue.yaml").write_text(yaml.safe_dump(data))
    return project


def starts(project: Project) -> dict[str, int]:
    """Return the engine starts of each stage, as the servers' own logs tell them."""
    logs = project.results / "logs"
    return {
        stage: sum(
            path.read_text().count("Application startup complete") for path in (logs / stage).rglob("*.server.log")
        )
        for stage in ("generate", "judge")
    }


def check_receipts(project: Project, engine_starts: dict[str, int]) -> None:
    """Assert that as many receipts tell of an engine, and that the servers counted each request once."""
    for stage, count in engine_starts.items():
        found = [receipt for path, receipt in receipts(project).items() if path.startswith(f"{stage}/")]
        assert sum("engine" in receipt for receipt in found) == count
        assert sum(executed_at_server(receipt) for receipt in found) == REQUESTS[stage]


def numbers(project: Project) -> dict[str, bytes]:
    """Return the bytes of answers, verdicts and scores by path."""
    files = [path for kind in ("answers", "verdicts", "scores") for path in (project.results / kind).rglob("*.*")]
    # A cell has its answers; and of each judge verdicts and scores.
    assert len(files) == len(MODELS) * len(SPLITS) * (1 + 2 * len(JUDGES))
    return {str(path.relative_to(project.results)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of what the engine compiles."""
    return tmp_path_factory.mktemp("compiled")


def complete(project: Project, compiled: Path, capsys: pytest.CaptureFixture[str] | None = None) -> float:
    """Run the study to its scores; return the seconds it took. Print progress: twelve engine starts take long."""
    reported = 0
    with Place(project, compiled) as place:
        run = place.start(*TO_SCORES)
        while run.process.poll() is None:
            time.sleep(1)
            done = len(receipts(project))
            if capsys is not None and done >= reported + 4:
                reported = done
                with capsys.disabled():
                    print(f"\n{done} engine loads after {run.seconds():.0f} s", end="", flush=True)
        assert run.process.returncode == 0, run.said()[-8000:]
        assert place.processes() == [] and place.private_folders() == []
        return run.seconds()


@pytest.fixture(scope="module")
def by_engine(compiled: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Return the finished study in `batch: engine`."""
    project = few_words(tmp_path_factory.mktemp("engine") / "project", batch="engine")
    print(f"batch: engine, {complete(project, compiled):.0f} s")
    yield project


def test_engine_starts_once_per_engine_and_stage(by_engine: Project) -> None:
    assert starts(by_engine) == {"generate": 1, "judge": 1}
    check_receipts(by_engine, {"generate": 1, "judge": 1})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({"batch": "model"}, {"generate": 2, "judge": 2}, id="model"),
        pytest.param({"shards": 2}, {"generate": 2, "judge": 2}, id="shards"),
        # Twelve engine starts take a quarter of an hour; four of them are in the full tier (below).
        pytest.param({"batch": "cell"}, {"generate": 4, "judge": 8}, id="cell", marks=pytest.mark.soak),
    ],
)
def test_other_modes_start_more_often_and_give_the_same_bytes(
    changes: dict[str, Any],
    expected: dict[str, int],
    by_engine: Project,
    compiled: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    project = few_words(tmp_path / "project", **changes)
    seconds = complete(project, compiled, capsys)
    with capsys.disabled():
        print(f"\n{changes}: {starts(project)} engine starts, {seconds:.0f} s")
    assert starts(project) == expected
    check_receipts(project, expected)
    assert numbers(project) == numbers(by_engine)


def test_batch_cell_starts_an_engine_for_each_cell(compiled: Path, tmp_path: Path) -> None:
    project = few_words(tmp_path / "project", batch="cell")
    project.study(models=MODELS[:1], splits=SPLITS, judges=JUDGES[:1])
    complete(project, compiled)
    assert starts(project) == {"generate": 2, "judge": 2}
    assert sorted(map(executed_at_server, receipts(project).values())) == [1, 1, 1, 1]
