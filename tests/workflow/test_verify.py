"""`refusal-eval verify`: a finished study is found to be what its answers and verdicts give, a change is reported."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from program import in_process
from project import Project


def verify(project: Project) -> subprocess.CompletedProcess[str]:
    file = str(project.folder / "study.yaml")
    return in_process("verify", file, "--directory", str(project.folder), "--cores", "2", cwd=project.folder.parent)


def all_files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_finished_study_is_what_its_verdicts_give(finished: Project) -> None:
    # As those that a reviewer has are: without Snakemake's records of how they were made.
    records = {"mark": "elsewhere", "folder": "/elsewhere", "results": "results/small"}
    record = {"file": str(finished.folder / "study.yaml"), "study": "small", "records": records}
    (finished.results / "study.json").write_text(json.dumps(record))
    before = all_files(finished.results), all_files(finished.store / "studies")
    done = verify(finished)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "scores and tables are what its answers and verdicts give" in done.stdout
    assert (all_files(finished.results), all_files(finished.store / "studies")) == before


def test_a_changed_verdict_is_found_everywhere_it_counts_and_so_are_an_edited_table_and_a_lost_file(
    finished: Project,
) -> None:
    path = finished.results / "verdicts" / "words" / "plain" / "one.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    row = json.loads(lines[0])
    row["label"] = "refusal" if row["label"] != "refusal" else "compliance"
    path.write_text(json.dumps(row) + "\n" + "".join(lines[1:]))
    table = finished.results / "tables" / "judges.csv"
    table.write_text(table.read_text().replace("people", "peeple", 1))
    (finished.results / "tables" / "votes.md").unlink()
    done = verify(finished)
    assert done.returncode == 1
    reported = {line.split(":")[0] for line in done.stdout.splitlines()}
    counting = {"scores/words/plain/one.parquet", "results_table/results.csv", "tables/scores.tex"}
    assert counting <= reported
    assert not any("terse" in name or "label/" in name for name in reported)
    assert re.search(
        r"results_table/results.csv: the headline rate of words, plain, one is .* and a second way", done.stdout
    )
    lines = done.stdout.splitlines()
    assert any(line.startswith("tables/judges.csv: line 2: stored ") for line in lines), done.stdout
    assert "tables/votes.md: is missing" in lines and "of the study's files" in done.stderr


def test_an_unfinished_study_is_told_apart(finished: Project) -> None:
    (finished.results / "verdicts" / "words" / "plain" / "one.jsonl").unlink()
    done = verify(finished)
    assert done.returncode == 1 and "the study is not finished" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.full
def test_results_of_another_study_that_were_touched_are_reported_in_one_sentence(finished: Project) -> None:
    finished.study(samples=2)
    finished.snakemake("--touch")
    done = verify(finished)
    assert done.returncode == 1 and "Traceback" not in done.stdout + done.stderr
    assert "the stored answers and verdicts are not those of the study as it is" in done.stderr
