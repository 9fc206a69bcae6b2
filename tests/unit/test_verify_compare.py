"""What `refusal-eval verify` tells of files that differ, and the second way to the headline rate."""

import json
from pathlib import Path

import pandas as pd
import pytest

from refusal_eval.tools.verify.file_differences import differences
from refusal_eval.tools.verify.independent_rate import headline_rate


@pytest.mark.parametrize(
    ("ending", "stored", "made", "reported"),
    [
        ("csv", "a,b\n", "a,b\n", []),
        ("csv", None, "a\n", ["is missing"]),
        (
            "csv",
            "a,b\n1,2\n",
            "a,b\n1,3\nx\n",
            ["line 2: stored 1,2, recomputed 1,3", "line 3 is only in the recomputed file"],
        ),
        (
            "json",
            '{"a": {"b": [1, 2]}, "c": 1}',
            '{"a": {"b": [1, 5]}, "d": 1}',
            ["a.b.1: stored 2, recomputed 5", "c is only in the stored file", "and 1 more"],
        ),
        ("json", '{"a":1}', '{"a": 1}', ["other bytes, the same values"]),
        ("json", "{", "{}", ["stored file is not JSON"]),
        ("svg", "a", "b", ["other bytes"]),
        # A long line is shown where it differs.
        (
            "tex",
            "x" * 500 + "1" + "y" * 500,
            "x" * 500 + "2" + "y" * 500,
            [f"line 1: stored {'x' * 20}1{'y' * 39}..., recomputed {'x' * 20}2{'y' * 39}..."],
        ),
    ],
)
def test_what_is_reported_of_files_that_differ(
    tmp_path: Path, ending: str, stored: str | None, made: str, reported: list[str]
) -> None:
    files = tmp_path / f"stored.{ending}", tmp_path / f"made.{ending}"
    for path, text in zip(files, (stored, made), strict=True):
        if text is not None:
            path.write_text(text, encoding="utf-8")
    assert differences(*files) == reported


def test_tables_in_parquet_are_compared_by_what_they_hold(tmp_path: Path) -> None:
    stored, made = tmp_path / "stored.parquet", tmp_path / "made.parquet"
    frame = pd.DataFrame({"rate": [0.25, 0.5]})
    frame.to_parquet(stored, compression="zstd")
    frame.to_parquet(made, compression=None)
    assert stored.read_bytes() != made.read_bytes() and not differences(stored, made)
    frame.assign(rate=[0.25, 0.75]).to_parquet(made)
    assert differences(stored, made) == ["rows.1.rate: stored 0.5, recomputed 0.75"]
    stored.write_text("no Parquet", encoding="utf-8")
    assert differences(stored, made) == ["stored file is not Parquet"]


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
