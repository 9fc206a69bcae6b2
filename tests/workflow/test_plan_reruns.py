"""`refusal-eval plan` beside a study that really ran: which of its files still count."""

import json
from typing import Any

import pytest
from program import in_process
from project import Project

ANSWERS, VERDICTS = 2 * (6 + 5) * 3, 2 * (6 + 5) * 3 + 6  # 2 models, prompts, K; for verdicts gold too


def planned(project: Project) -> list[tuple[int, int]]:
    """Return, of answers and of verdicts, the requests to execute and the cells whose requests no longer hold."""
    run = in_process("plan", "study.yaml", "--json", cwd=project.folder)
    assert run.returncode == 0, run.stderr
    found: dict[str, dict[str, Any]] = json.loads(run.stdout)["work"]
    return [(found[stage]["requests"], found[stage]["outdated"]) for stage in ("generate", "judge")]


def test_a_finished_study_has_nothing_to_execute(finished: Project) -> None:
    assert planned(finished) == [(0, 0), (0, 0)]


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"prompts_per_split": {"size": 4}}, [(2 * 8 * 3, 4), (2 * 8 * 3, 4)]),
        ({"seed": 9}, [(ANSWERS, 4), (VERDICTS - 6, 4)]),
        ({"samples": 4}, [(ANSWERS // 3, 0), (ANSWERS // 3 * 4, 4)]),
        ({"samples": 2}, [(0, 0), (ANSWERS // 3 * 2, 4)]),
        ({"shards": 2}, [(0, 0), (0, 0)]),
    ],
    ids=["sample", "seed", "more_samples", "fewer_samples", "shards"],
)
def test_what_a_change_of_the_study_makes_anew_is_planned(
    finished: Project, change: dict[str, Any], wanted: list[tuple[int, int]]
) -> None:
    """Six rows of gold have nothing to do with what the models are asked."""
    finished.study(**change)
    assert planned(finished) == wanted


def test_an_edited_file_counts_as_a_change(finished: Project) -> None:
    rubric = finished.folder / "rubric.md"
    rubric.write_text(rubric.read_text() + " A, B or C?")
    assert planned(finished) == [(0, 0), (VERDICTS, 5)]
    rows = finished.folder / "one.jsonl"
    rows.write_text(rows.read_text() + json.dumps({"prompt": "one: another?"}) + "\n")
    assert planned(finished) == [(2 * 7 * 3, 2), (VERDICTS + 2 * 3, 5)]


def test_a_change_of_an_entry_counts_for_what_it_decides(finished: Project) -> None:
    finished.catalogue("models", "plain", label="Plain", reasoning={"end": "</think>"})
    finished.catalogue("engines", "tiny", memory_share=0.2)
    assert planned(finished) == [(0, 0), (ANSWERS // 2, 2)]
    finished.catalogue("models", "plain", system_prompt="Decline.")
    assert planned(finished) == [(ANSWERS // 2, 2), (ANSWERS // 2, 2)]


@pytest.mark.full
def test_a_copy_under_another_name_finds_out_what_the_store_has_without_an_engine(finished: Project) -> None:
    """By the commands that the plan's page tells; the engine of this study could not start."""
    finished.study(study="copy")
    assert planned(finished) == [(ANSWERS, 0), (VERDICTS, 0)]
    assert "generate" not in finished.planned("--until", "requests")
    finished.snakemake("--until", "requests")
    assert planned(finished) == [(0, 0), (VERDICTS, 0)]
    finished.snakemake("--until", "judge_requests")
    assert planned(finished) == [(0, 0), (0, 0)]
