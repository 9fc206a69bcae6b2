"""`refusal-eval store` and `refusal-eval store --prune` on a study that has run: what they remove, no study misses."""

import json

import pytest
import yaml
from program import in_process
from project import Project

from refusal_eval.ask.requests import read_requests
from refusal_eval.ask.store import StoreReader

RENDERED_AND_EXECUTED = {"requests", "generate", "judge_requests", "judge", "answers", "llm_verdicts"}


def store_info(project: Project, *arguments: str, named: bool = True) -> tuple[int, str]:
    """Run the tool on the study, or on all that are known; return its exit code and what it says, in one line."""
    run = in_process("store", *(["study.yaml"] if named else []), *arguments, cwd=project.folder)
    return run.returncode, " ".join((run.stdout + run.stderr).split())


@pytest.fixture
def responses(finished: Project) -> int:
    """Return the number of responses in the store."""
    return sum(len(lines_of(file)) for file in finished.store.glob("*/*.jsonl"))


def lines_of(file) -> list[bytes]:
    return [line for line in file.read_bytes().splitlines() if line.startswith(b'{"key"')]


def test_of_a_finished_study_everything_is_asked_for(finished: Project, responses: int) -> None:
    code, reported = store_info(finished, "--prune", "--yes")
    assert code == 0
    assert "study.yaml: 9 of 9 cells rendered" in reported and f" 0 of {responses}, 0 bytes" in reported
    assert "To be removed nothing" in reported


def test_studies_that_ship_and_never_ran_here_hinder_no_pruning(finished: Project, responses: int) -> None:
    finished.study(models=["plain"])
    code, reported = store_info(finished, "--prune", "--yes", named=False)
    assert code == 1 and "results/small holds results of a study that no study.json tells" in reported
    record = {"file": str(finished.folder / "study.yaml"), "study": "small"}
    (finished.results / "study.json").write_text(json.dumps(record))
    code, reported = store_info(finished, "--prune", "--yes", named=False)
    assert code == 0, reported
    for shipped in ("config.yaml", "cpu_scale.yaml", "paper.yaml"):
        assert f"{shipped}: has no results here and is not counted" in reported
    assert "study.yaml: 5 of 5 cells rendered" in reported
    left = sum(len(lines_of(file)) for file in finished.store.glob("*/*.jsonl"))
    assert 0 < left < responses and f"Removed {responses - left} responses" in reported
    (finished.folder / "results" / "cpu_scale").mkdir()
    code, reported = store_info(finished, "--prune", "--yes", named=False)
    assert code == 1 and "cpu_scale.yaml is not valid" in reported


def test_a_model_that_was_taken_away_can_be_pruned_and_the_rest_runs_nothing(finished: Project, responses: int) -> None:
    theirs = {file.path.parent.name: set(file.keys()) for file in finished.request_files("requests")}
    finished.study(models=["plain"])
    code, reported = store_info(finished, "--prune", "--yes")
    assert code == 0 and "study.yaml: 5 of 5 cells rendered" in reported
    left = sum(len(lines_of(file)) for file in finished.store.glob("*/*.jsonl"))
    assert 0 < left < responses and f"Removed {responses - left} responses" in reported
    (engine,) = {file.parent for file in finished.store.glob("*/*.jsonl")}
    reader = StoreReader(finished.store, engine.name)
    assert reader.missing(theirs["plain"]) == [] and set(reader.missing(theirs["terse"])) == theirs["terse"]
    finished.snakemake("--until", "llm_verdicts", "--forcerun", "answers", "llm_verdicts")
    assert not RENDERED_AND_EXECUTED & set(finished.planned())


def test_a_study_with_another_results_folder_keeps_its_responses(finished: Project) -> None:
    other = yaml.safe_load((finished.folder / "study.yaml").read_text())
    other |= {"study": "other", "models": ["terse"], "judges": ["words"], "gold": [], "results_dir": "scratch"}
    (finished.folder / "other.yaml").write_text(yaml.safe_dump(other))
    finished.snakemake("--configfile", "other.yaml", "--until", "requests")
    asked = [read_requests(path) for path in (finished.folder / "scratch" / "other" / "requests").rglob("*.jsonl")]
    finished.study(models=["plain"])
    finished.snakemake("--until", "requests")
    code, reported = store_info(finished, "--prune", "--yes")
    assert code == 1 and "scratch/other holds results of other.yaml, which was not looked at" in reported
    code, reported = store_info(finished, "--prune", "--yes", named=False)
    assert code == 0 and "other.yaml: 2 of 2 cells rendered" in reported and "Removed" in reported
    for file in asked:
        assert not StoreReader(finished.store, file.header["engine_id"]).missing(file.keys())


def test_a_study_that_would_ask_for_something_else_has_to_run_first(finished: Project, responses: int) -> None:
    finished.catalogue("models", "terse", sampling={"max_tokens": 300, "temperature": 0.7})
    code, reported = store_info(finished, "--prune", "--yes")
    assert code == 1
    assert "study.yaml: 4 request files would be written again" in reported
    assert "run `snakemake --cores all --configfile study.yaml` first" in reported
    assert sum(len(lines_of(file)) for file in finished.store.glob("*/*.jsonl")) == responses


def test_a_study_that_snakemake_cannot_plan_is_reported_in_its_words(finished: Project) -> None:
    (finished.folder / "one.jsonl").unlink()
    code, reported = store_info(finished, "--prune", "--yes")
    assert code == 1 and "one.jsonl" in reported and "Traceback" not in reported
