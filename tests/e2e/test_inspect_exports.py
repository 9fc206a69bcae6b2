"""inspect_ai reads the logs that an export writes, in an environment of its own."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from exported_study import BLOCK, JUDGES, answers, exported, labels, made_of_rows, rows

pytestmark = [pytest.mark.full, pytest.mark.feature("exports", "recorded_logs")]
STOPS = {"truncated": "max_tokens", "truncated_reasoning": "max_tokens", "too_long": "model_length"}
STOPS |= {"blocked": "content_filter", "failed": None}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exports")
    made_of_rows(folder)
    return folder


def read(oracle: str, folder: Path) -> list[dict[str, Any]]:
    """Return what inspect_ai makes of the logs of an export."""
    program = str(Path(__file__).with_name("read_with_inspect.py"))
    files = sorted(map(str, folder.rglob("*.eval")))
    run = subprocess.run([oracle, program, *files], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_it_reads_every_answer_with_its_state_texts_and_labels(study: Path, oracle: str) -> None:
    results = study / "study" / "results" / "made"
    own, verdicts, seen = answers(results), labels(results), 0
    logs = read(oracle, exported(study, "inspect", "all"))
    assert {(log["model"], log["task"]) for log in logs} == {(m, s) for m in "ab" for s in ("easy", "hard")}
    for log in logs:
        assert log["status"] == "success" and log["epochs"] == 2 and log["prompts"] == 6
        assert log["listed"] == len(log["samples"]) == 12
        for sample in log["samples"]:
            place = log["task"], log["model"], sample["asked"][-1], sample["epoch"] - 1
            answer = own[place]
            assert sample["stop_reason"] == STOPS.get(answer["state"], "stop")
            assert sample["completion"] == (answer["answer"] or (answer["blocked"] or {}).get("partial") or "")
            if answer["state"] != "failed":
                assert sample["reasoning"] == ([answer["reasoning"]] if answer["reasoning"] else [])
            assert (sample["error"] is not None) == (answer["state"] == "failed")
            assert sample["stopped"] == (BLOCK["category"] if answer["state"] == "blocked" else None)
            assert sample["metadata"]["expectation"] == {"easy": "comply", "hard": "refuse"}[log["task"]]
            assert len(sample["asked"]) == (2 if log["model"] == "b" else 1)  # the system message
            for judge in JUDGES:
                label, _ = verdicts.get((judge, *place), (None, None))
                assert sample["scores"].get(judge) == label
            seen += 1
    assert seen == len(rows())


def test_it_shows_the_rates_of_the_results_table(study: Path, oracle: str) -> None:
    frame = pd.read_csv(study / "study" / "results" / "made" / "results_table" / "results.csv")
    plain = frame[(frame["estimand"] == "refusal_rate") & frame["category"].isna() & frame["parameter"].isna()]
    rates = plain.set_index(["judge", "model", "split", "reading"])["value"]
    for log in read(oracle, exported(study, "inspect", "answers")):
        for judge in JUDGES:
            for reading in ("strict", "broad"):
                assert log["rates"][judge][reading] == rates[judge, log["model"], log["task"], reading]


def test_labels_alone_are_a_log_that_it_reads(study: Path, oracle: str) -> None:
    logs = read(oracle, exported(study, "inspect", "labels"))
    samples = [sample for log in logs for sample in log["samples"]]
    assert len(samples) == len(rows()) and not any(sample["completion"] or sample["asked"] for sample in samples)
    assert sum("keyword" in sample["scores"] for sample in samples) > 10
