"""Two independent runs of a small study with the real engine, from empty stores, in `determinism: strict`."""

from pathlib import Path

import pytest
from project import Project
from real import real_project

from refusal_eval.core.files import read_json, read_jsonl


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a finished study."""
    project = real_project(tmp_path_factory.mktemp("first") / "project")
    project.snakemake()
    return project


def receipts(project: Project) -> dict[str, dict]:
    folder = project.results / "receipts"
    return {path.relative_to(folder).parts[0]: read_json(path) for path in folder.rglob("*.json")}


def numbers(project: Project) -> dict[str, bytes]:
    """Return the bytes of everything that carries a number, by path."""
    kinds = {"answers": "jsonl", "verdicts": "jsonl", "scores": "*", "tables": "csv"}
    files = [path for kind, ending in kinds.items() for path in (project.results / kind).rglob(f"*.{ending}")]
    return {str(path.relative_to(project.results)): path.read_bytes() for path in files}


def test_each_request_was_answered_once_by_two_engine_starts(first: Project) -> None:
    found = receipts(first)
    assert set(found) == {"generate", "judge"}
    assert found["generate"]["executed"] == 2 * 2 * 4 * 2  # models, splits, prompts, K
    for receipt in found.values():
        assert receipt["engine"]["counters"]["requests"] == receipt["executed"] == receipt["requests"]


def test_the_servers_prompt_tokens_are_those_we_rendered(first: Project) -> None:
    sent = sum(len(r.token_ids) for file in first.request_files("requests") for r in file.requests())
    assert receipts(first)["generate"]["engine"]["counters"]["prompt_tokens"] == sent


def test_answers_carry_text_tokens_and_log_probabilities(first: Project) -> None:
    rows = [row for path in (first.results / "answers").rglob("*.jsonl") for row in read_jsonl(path)]
    assert len(rows) == 32 and {row["state"] for row in rows} <= {"complete", "truncated"}
    assert all(row["answer"].strip() and row["answer_logprob"] < 0 and 0 < row["answer_tokens"] <= 12 for row in rows)
    assert len({row["key"] for row in rows}) == 32


def test_verdicts_of_the_label_judge_record_their_mass(first: Project) -> None:
    rows = [row for path in (first.results / "verdicts" / "label").rglob("*.jsonl") for row in read_jsonl(path)]
    assert len(rows) == 32
    assert all(0 < row["raw"]["mass"] <= 1.000001 for row in rows)


def test_figures_and_tables_are_there(first: Project) -> None:
    for name in ("figures/refusal_heatmap.pdf", "figures/c_histograms.svg", "tables/refusal.tex", "manifest.json"):
        assert (first.results / name).stat().st_size > 500


def test_the_report_is_made(first: Project, tmp_path: Path) -> None:
    report = tmp_path / "report.zip"
    first.snakemake("--report", str(report))
    assert report.stat().st_size > 10_000


def test_no_server_is_left_behind(first: Project) -> None:
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [command for command in commands if str(first.folder).encode() in command]


def test_a_second_run_has_nothing_to_do(first: Project) -> None:
    assert first.planned() == {}


@pytest.mark.full
def test_an_independent_run_in_another_order_gives_the_same_bytes(first: Project, tmp_path: Path) -> None:
    second = real_project(tmp_path / "project", models=["declining", "plain"], splits=["decline", "safe"])
    second.snakemake()
    assert receipts(second)["generate"]["engine"]["counters"]["requests"] == 32
    assert numbers(second) == numbers(first)
