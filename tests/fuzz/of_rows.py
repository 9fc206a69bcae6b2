"""Files of data that users bring: rows of prompts and of gold."""

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fuzz.mutations import as_json, as_jsonl
from fuzz.targets import file_of, is_text, target

from refusal_eval.core.states import LABELS
from refusal_eval.data.gold import make_gold
from refusal_eval.data.hub_card import check_card
from refusal_eval.data.prompts import make_prompts
from refusal_eval.data.rows import read_rows
from refusal_eval.data.selection import read_clusters

ROWS: list[Any] = [
    {"prompt": "How do I boil an egg?", "category": "food", "subject": "a", "n": 1},
    {"prompt": "Wie geht's? 中文 \u2028", "category": None, "subject": "b", "n": 2.5},
    {"prompt": "Third", "category": "x", "subject": "a", "n": None},
]
CHATS: list[Any] = [
    {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "Hi."},
            {"role": "user", "content": "Why?"},
        ]
    },
    {"messages": [{"role": "user", "content": "Second"}]},
]
GOLD: list[Any] = [
    {"prompt": "a", "answer": "No.", "label": "yes", "weight": 1.5, "model": "m", "harm": "yes", "part": "hard"},
    {"prompt": "b", "answer": "Sure.", "label": "no", "weight": 1, "model": "m", "harm": "no", "part": "easy"},
    {"prompt": "b", "answer": "Perhaps.", "label": "no", "weight": 2, "model": "n", "harm": "", "part": ""},
]
PLAIN = {"prompt": "prompt", "category": "category", "cluster": "subject"}


def _csv(rows: Any, encoding: str = "utf-8") -> bytes:
    if not (isinstance(rows, list) and rows and isinstance(rows[0], dict)):
        return str(rows).encode(errors="replace")
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(rows[0])
    for row in rows:
        writer.writerow(row.values() if isinstance(row, Mapping) else [row])
    return text.getvalue().encode(encoding, errors="replace")


def _checked(rows: list[dict[str, Any]], columns: Mapping[str, str], mode: str | None = None) -> None:
    prompts, _ = make_prompts(rows, columns, "rows", mode=mode)
    assert len({prompt["id"] for prompt in prompts}) == len(prompts) > 0
    for prompt in prompts:
        assert is_text(prompt["cluster"]) and (prompt["category"] is None or is_text(prompt["category"]))
        for message in prompt["messages"]:
            assert message["role"] in ("system", "user", "assistant") and is_text(message["content"])


@target("prompts: JSONL", [ROWS], as_jsonl)
def prompts_jsonl(data: bytes, folder: Path) -> None:
    _checked(read_rows(file_of(folder, "a.jsonl", data)), PLAIN)


@target("prompts: JSON", [ROWS], as_json)
def prompts_json(data: bytes, folder: Path) -> None:
    _checked(read_rows(file_of(folder, "a.json", data)), PLAIN)


@target("prompts: CSV", [ROWS], _csv)
def prompts_csv(data: bytes, folder: Path) -> None:
    _checked(read_rows(file_of(folder, "a.csv", data)), PLAIN)


@target("prompts: messages", [CHATS], as_jsonl)
def prompts_messages(data: bytes, folder: Path) -> None:
    _checked(read_rows(file_of(folder, "a.jsonl", data)), {"messages": "messages"})


@target("prompts: dialogues", [CHATS], as_jsonl)
def prompts_dialogues(data: bytes, folder: Path) -> None:
    _checked(read_rows(file_of(folder, "a.jsonl", data)), {"messages": "messages"}, "cumulative")


@target("prompts: named categories", [ROWS], as_jsonl)
def prompts_of_named_categories(data: bytes, folder: Path) -> None:
    rows = read_rows(file_of(folder, "a.jsonl", data))
    prompts, _ = make_prompts(rows, PLAIN, "rows", categories={"food": "eating"})
    assert all(is_text(prompt["category"]) for prompt in prompts if prompt["category"] is not None)
    assert "food" not in {prompt["category"] for prompt in prompts}


def _of_encoding(encoding: str) -> None:
    @target(f"prompts: CSV in {encoding}", lambda _: [_csv(ROWS, encoding)])
    def prompts_csv_in_encoding(data: bytes, folder: Path) -> None:
        _checked(read_rows(file_of(folder, "a.csv", data), encoding=encoding), PLAIN)


for name in ("utf-16", "utf-32", "utf-7", "gb18030", "cp1252", "punycode", "unicode_escape"):
    _of_encoding(name)


def _parquet(folder: Path) -> list[bytes]:
    import pyarrow as pa
    import pyarrow.parquet

    path, found = folder / "a.parquet", []
    for compression in ("none", "snappy"):
        pyarrow.parquet.write_table(pa.Table.from_pylist(ROWS), path, compression=compression)
        found.append(path.read_bytes())
    return found


@target("prompts: Parquet", _parquet)
def prompts_parquet(data: bytes, folder: Path) -> None:
    _checked(read_rows(file_of(folder, "a.parquet", data)), PLAIN)


@target("gold", [GOLD], as_jsonl)
def gold(data: bytes, folder: Path) -> None:
    columns = {"prompt": "prompt", "answer": "answer", "label": "label", "weight": "weight", "answering_model": "model"}
    rows, _ = make_gold(
        *(read_rows(file_of(folder, "a.jsonl", data)), columns, {"yes": "refusal", "no": "compliance"}, "rows"),
        flags={"harm": {"column": "harm", "raised": "yes", "not_raised": "no"}},
        slices={"column": "part", "names": {"hard": "one", "easy": "two"}},
    )
    for row in rows:
        assert set(row["flags"].values()) <= {True, False} and row.get("slice") in (None, "one", "two")
        assert row["label"] in LABELS and is_text(row["answer"]) and 0 < row["weight"] < float("inf")


@target("clusters", [[{"id": "a", "cluster": "x"}, {"id": "b", "cluster": "y"}]], _csv)
def clusters(data: bytes, folder: Path) -> None:
    read_clusters(read_rows(file_of(folder, "a.csv", data)), "a.csv")


CARD = b"""---
license: mit
configs:
- config_name: default
  data_files:
  - split: test
    path: "data/*.jsonl"
  - split: train
    path: ["data/a.jsonl", data/b.jsonl]
- config_name: other
  data_dir: data
---
# A data set
"""


# Fetching tells whatever is raised here as a mistake in the card; what is looked for are hangs and memory.
@target("card of a data set", [CARD], None, (Exception,))
def card(data: bytes, folder: Path) -> None:
    check_card(file_of(folder, "README.md", data).parent, "data set")
