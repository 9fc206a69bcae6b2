"""Results and Snakemake's records of how they were made: only those of one run are taken for current."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from refusal_eval.study import snakemake_records
from refusal_eval.study.snakemake_records import MARKS, about_lost_records, write_record

RESULTS = "results/small"


@pytest.fixture
def two_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the results and records of two runs, and copies of what the first one left."""
    monkeypatch.chdir(tmp_path)
    write_record(RESULTS, {"study": "small"})
    assert about_lost_records(RESULTS) is None
    for name in (RESULTS, str(MARKS)):
        shutil.copytree(name, tmp_path / "copies" / name)
    write_record(RESULTS, {"study": "small"})
    assert about_lost_records(RESULTS) is None
    return tmp_path


@pytest.mark.parametrize("name", [RESULTS, str(MARKS)])
def test_what_is_restored_from_a_copy_of_an_earlier_run_is_not_taken_for_current(two_runs: Path, name: str) -> None:
    shutil.copytree(two_runs / "copies" / name, two_runs / name, dirs_exist_ok=True)
    message = about_lost_records(RESULTS)
    assert message and "are not of one run" in message and "delete everything in results/small except audit/" in message


def test_results_and_records_that_are_restored_together_are_of_one_run(two_runs: Path) -> None:
    shutil.copytree(two_runs / "copies", two_runs, dirs_exist_ok=True)
    assert about_lost_records(RESULTS) is None


@pytest.mark.parametrize("written", range(3))
def test_a_run_that_is_killed_while_it_leaves_its_mark_locks_nobody_out(
    two_runs: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    write, calls = snakemake_records.write_json, list[Any]()

    def killed(path: Path, value: Any) -> None:
        if len(calls) == written:
            raise KeyboardInterrupt
        calls.append(path)
        write(path, value)

    with monkeypatch.context() as stopped:
        stopped.setattr(snakemake_records, "write_json", killed)
        with pytest.raises(KeyboardInterrupt):
            write_record(RESULTS, {"study": "small"})
    assert about_lost_records(RESULTS) is None
    write_record(RESULTS, {"study": "small"})
    assert about_lost_records(RESULTS) is None
    shutil.copytree(two_runs / "copies" / RESULTS, two_runs / RESULTS, dirs_exist_ok=True)
    assert about_lost_records(RESULTS)
