"""Reads neutral rows, of JSONL or Parquet."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.config.log_reader import NO_ENDS, LogContent, LogReader
from refusal_eval.core.answer_ends import state_of
from refusal_eval.core.errors import UserError
from refusal_eval.core.states import BLOCKED
from refusal_eval.data.rows import head_columns, read_rows
from refusal_eval.features.recorded_logs.bounded_files import first_object, objects_of, refuse_large
from refusal_eval.features.recorded_logs.neutral_row import FIELDS, neutral_row


class NeutralReader(LogReader):
    """Reads neutral rows."""

    name = "rows"
    reads = "neutral rows (.jsonl, .parquet)"
    in_folders = ("answers.parquet",)  # of our exports

    @classmethod
    def takes(cls, path: Path) -> bool:
        if path.suffix.lower() == ".parquet":
            try:
                columns = head_columns(path) or set()
            except UserError:
                return False
        elif path.suffix.lower() == ".jsonl":
            columns = set(first_object(path) or ())
        else:
            return False
        return columns <= FIELDS and "answer" in columns and bool({"prompt", "messages"} & columns)

    def blocked_models(self, path: Path, columns: Mapping[str, Sequence[str]]) -> set[str | None]:
        return {row.get("model") for _, _, row in _values(path) if state_of(row) == BLOCKED}

    def read(self, path: Path, columns: Mapping[str, Sequence[str]]) -> LogContent:
        if columns:
            raise UserError(f"{path} has neutral rows, whose columns have names of their own; leave `columns` out")
        rows = []
        for number, what, values in _values(path):
            row = neutral_row(values, f"{path}, {what} {number}")
            rows.append({"source": {"file": path.name, "line": number}} | row)
        said = any({"state", "finish_reason", "blocked"} & row.keys() for row in rows)
        return LogContent(rows, [] if said or not rows else [NO_ENDS])


def _values(path: Path) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yield number, what is counted, and value of each row."""
    if path.suffix.lower() == ".parquet":
        refuse_large(path)
        yield from ((number, "row", row) for number, row in enumerate(read_rows(path), 1))
    else:
        yield from ((number, "line", row) for number, row in objects_of(path))
