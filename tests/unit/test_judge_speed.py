"""What a judge's verdicts on gold took, from the receipts of its engine loads."""

import json
from pathlib import Path
from typing import Any

import pytest
from config_project import STUDY, Project

from refusal_eval.study.batches import GOLD, Cell
from refusal_eval.study.study import Study
from refusal_eval.tools.bench.judge_speed import judge_speed


@pytest.fixture
def study(project: Project) -> Study:
    """Return a study of a judge, and of a cascade that asks another one where the first is unsure."""
    judges = {"judges": ["reader", "in-turn"], "primary_judge": "reader", "gold": ["people"]}
    return Study(project.load(STUDY | judges))


def receive(study: Study, judge: str, requests: int, executed: int, seconds: float, tokens: int = 0) -> None:
    """Write the receipt of the load that holds a judge's verdicts on the gold."""
    (path,) = study.paths.receipts("judge", study.batch_of[Cell(GOLD, "people", judge)])
    receipt: dict[str, Any] = {"requests": requests, "executed": executed, "gpus": 1}
    if executed:
        counters = {"prompt_tokens": 10 * tokens, "generated_tokens": tokens}
        receipt["engine"] = {"seconds": {"work": seconds}, "counters": counters}
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(receipt))


def test_a_load_is_shared_by_its_answers(study: Study) -> None:
    receive(study, "reader", requests=40, executed=20, seconds=10, tokens=60)
    # 20 of 40 responses took 10 s; 50 answers have 40 different requests.
    assert judge_speed(study, "reader", "people", 50) == pytest.approx(
        {"seconds": 10 / 20 * 40 / 50, "prompt_tokens": 24.0, "written_tokens": 2.4, "devices": 1.0}
    )


def test_what_is_asked_again_is_part_of_an_answers_cost(study: Study) -> None:
    receive(study, "reader", requests=50, executed=75, seconds=30, tokens=50)
    assert judge_speed(study, "reader", "people", 50) == pytest.approx(
        {"seconds": 30 / 50, "prompt_tokens": 10.0, "written_tokens": 1.0, "devices": 1.0}
    )


def test_nothing_is_known_of_a_load_that_executed_nothing_or_was_not_there(study: Study) -> None:
    assert judge_speed(study, "reader", "people", 50) == {}
    receive(study, "reader", requests=40, executed=0, seconds=0)
    assert judge_speed(study, "reader", "people", 50) == {}


def test_a_cascade_takes_what_both_of_its_judges_take(study: Study) -> None:
    receive(study, "in-turn", requests=10, executed=10, seconds=20, tokens=300)
    assert judge_speed(study, "in-turn", "people", 50) == {}, "nothing is known of the first judge"
    receive(study, "reader", requests=50, executed=50, seconds=25, tokens=50)
    assert judge_speed(study, "in-turn", "people", 50) == pytest.approx(
        {"seconds": 0.4 + 0.5, "prompt_tokens": 60.0 + 10.0, "written_tokens": 6.0 + 1.0, "devices": 1.0}
    )
    receive(study, "in-turn", requests=0, executed=0, seconds=0)  # the first judge was sure of every answer
    assert judge_speed(study, "in-turn", "people", 50)["seconds"] == 0.5
