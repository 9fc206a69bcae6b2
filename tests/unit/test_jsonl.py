"""Whole JSONL files read at once: the same rows, and the same complaints, as line by line."""

import pytest

from refusal_eval.core import jsonl
from refusal_eval.core.files import BadFile, read_jsonl, write_jsonl
from refusal_eval.core.jsonl import read_rows

ROWS = [{"answer": 'a "quoted",\\ \u2028 line\n', "logprob": -1e-17, "n": i, "none": None} for i in range(7)]


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch):
    monkeypatch.setattr(jsonl, "_AT_ONCE", 3)


@pytest.mark.parametrize("count", [0, 1, 3, 7])
def test_rows_are_those_that_were_written(tmp_path, count):
    write_jsonl(tmp_path / "a.jsonl", ROWS[:count])
    assert read_rows(tmp_path / "a.jsonl") == ROWS[:count]


def test_blank_lines_are_skipped_and_the_last_line_may_have_no_end(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"a":1}\n\n  \n{"a":2}\n{"a":3}\n\n{"a":4}')
    assert read_rows(tmp_path / "a.jsonl") == [{"a": n} for n in (1, 2, 3, 4)]


@pytest.mark.parametrize("line", ['{"a":5', '{"a":5},{"a":6}', "{'a': 5}", '{"a":5}]', "[5", "5,"])
def test_a_line_that_is_no_value_is_told_by_its_number(tmp_path, line):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a":1}\n' * 4 + line + "\n" + '{"a":1}\n')
    with pytest.raises(BadFile, match="line 5: not valid JSON"):
        read_rows(path)
    with pytest.raises(BadFile, match="line 5: not valid JSON"):
        list(read_jsonl(path))


@pytest.mark.parametrize(
    "lines",
    [
        ['{"a":1},{"b":2}', '{"c":[1', "2]}"],
        ["1],[2", "[[1", "2]]"],
        ['{"a":1},{"b":2}', '{"c":"x', 'y"}'],
        ['1,"x"', "[1", "2]"],
        ["1,2", "", "3"],
    ],
)
def test_lines_are_not_joined_into_other_rows(tmp_path, lines):
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join([*lines, ""]))
    with pytest.raises(BadFile, match="line 1: not valid JSON"):
        read_rows(path)
