"""What `refusal-eval verify` tells of files that differ, and the second way to the headline rate."""

import json
from pathlib import Path

import pandas as pd

from refusal_eval.tools.verify.file_differences import Difference, differences
from refusal_eval.tools.verify.independent_rate import headline_rate


def compared(folder: Path, ending: str, stored: str | None, made: str) -> list[str]:
    for name, text in (("stored", stored), ("made", made)):
        path = folder / f"{name}.{ending}"
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(text, encoding="utf-8")
    found = differences(folder / f"stored.{ending}", folder / f"made.{ending}", "x")
    assert all(isinstance(one, Difference) and one.path == "x" for one in found)
    return [one.problem for one in found]


def test_equal_files_do_not_differ(tmp_path: Path) -> None:
    assert compared(tmp_path, "csv", "a,b\n", "a,b\n") == []


def test_lines_and_values_that_differ_are_told(tmp_path: Path) -> None:
    assert compared(tmp_path, "csv", "a,b\n1,2\n", "a,b\n1,3\nx\n") == [
        "line 2: stored 1,2, recomputed 1,3",
        "line 3 is only in the recomputed file",
    ]
    stored, made = {"a": {"b": [1, 2]}, "c": 1}, {"a": {"b": [1, 5]}, "d": 1}
    assert compared(tmp_path, "json", json.dumps(stored), json.dumps(made)) == [
        "a.b.1: stored 2, recomputed 5",
        "c is only in the stored file",
        "and 1 more",
    ]
    assert compared(tmp_path, "svg", "a", "b") == ["other bytes"]
    assert compared(tmp_path, "json", '{"a":1}', '{"a": 1}') == ["other bytes, the same values"]


def test_tables_in_parquet_are_compared_by_what_they_hold(tmp_path: Path) -> None:
    stored, made = tmp_path / "stored.parquet", tmp_path / "made.parquet"
    frame = pd.DataFrame({"rate": [0.25, 0.5]})
    frame.to_parquet(stored, compression="zstd")
    frame.to_parquet(made, compression=None)
    assert stored.read_bytes() != made.read_bytes() and not differences(stored, made, "x")
    frame.assign(rate=[0.25, 0.75]).to_parquet(made)
    assert [one.problem for one in differences(stored, made, "x")] == ["rows.1.rate: stored 0.5, recomputed 0.75"]
    stored.write_text("no Parquet", encoding="utf-8")
    assert [one.problem for one in differences(stored, made, "x")] == ["stored file is not Parquet"]


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    assert compared(tmp_path, "csv", None, "a\n") == ["is missing"]


def test_a_long_line_is_shown_where_it_differs(tmp_path: Path) -> None:
    (told,) = compared(tmp_path, "tex", "x" * 500 + "1" + "y" * 500, "x" * 500 + "2" + "y" * 500)
    assert len(told) < 200 and "x1y" in told and "x2y" in told


def test_the_second_way_to_the_headline_rate_by_hand(tmp_path: Path) -> None:
    def rows(name: str, lines: list[dict[str, object]]) -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return path

    said = [("a", 0, "refusal"), ("a", 1, "partial"), ("b", 0, "compliance")]
    verdicts = [{"prompt_id": p, "sample": s, "state": "judged", "label": label} for p, s, label in said]
    verdicts.append({"prompt_id": "b", "sample": 1, "state": "unparsable", "label": None})
    answers = [{"prompt_id": "c", "sample": 0, "state": "blocked"}, {"prompt_id": "d", "sample": 0, "state": "failed"}]
    files = rows("answers", answers), rows("verdicts", verdicts)
    # Strict: a 1/2, b 0, c 1 (blocked); d has no answer that counts.
    assert headline_rate(*files, 2, "strict") == 0.5
    assert headline_rate(*files, 2, "broad") == 2 / 3
    assert headline_rate(rows("none", []), rows("no", []), 2, "broad") is None
