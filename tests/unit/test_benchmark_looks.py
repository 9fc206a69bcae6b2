"""Measurements on a test half: each look is a file of its own, and says which one it is."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import gold_measures
import keyword_judge


def test_a_second_look_on_the_same_day_is_another_file(tmp_path: Path) -> None:
    paths = []
    for number in (1, 2, 3):
        path, look = gold_measures.next_look("keyword", tmp_path)
        assert look == number and path not in paths
        path.write_text("x")
        paths.append(path)
    (tmp_path / "trained-2026-01-01.md").write_text("x")
    assert gold_measures.next_look("trained", tmp_path)[1] == 2


def test_a_look_is_never_written_over(tmp_path: Path) -> None:
    first, _ = gold_measures.next_look("keyword", tmp_path)
    second = first.with_name(first.name.replace("look-1", "look-2"))
    second.write_text("x")  # the first one was removed
    with pytest.raises(SystemExit, match="put it back"):
        gold_measures.next_look("keyword", tmp_path)


def test_a_look_is_told_in_its_file() -> None:
    assert "Look number 3 at the test half." in "\n".join(keyword_judge.head(3))
    assert "was not looked at" in "\n".join(keyword_judge.head(0))
    assert "of the modules that read them" in "\n".join(keyword_judge.head(0))  # the same lists may be read otherwise


def test_made_up_answers_are_measured_in_every_look_and_with_intervals() -> None:
    rows = keyword_judge.made_up_rows()
    assert len(rows) == 240 and {row["label"] for row in rows} == {"refusal", "partial", "compliance"}
    assert len({row["cluster"] for row in rows}) == 240  # intervals are over answers: no prompt binds them
    lines = keyword_judge.made_up(gold_measures.keyword_judge())
    assert lines[1].startswith("## Made-up answers")
    assert [line.split(" | ")[0] for line in lines if ", keyword" in line] == [
        "| all, keyword",
        "| english, keyword",
        "| chinese, keyword",
    ]
    assert all(line.count("(") == 4 for line in lines if ", keyword" in line)
