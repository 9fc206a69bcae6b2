"""People's labels of answers, out of a table."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.config.log_reader import messages_of
from refusal_eval.core.errors import UserError
from refusal_eval.features.recorded_logs.table_reader import TableReader

END = "</think>"
USUAL = ("label", "human_label", "gold", "final_label", "annotation")  # what a column with labels is called


def gold_rows(path: Path, columns: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """Return the answers of a table with people's labels: `messages`, `answer`, `label` and, if it says it, `model`.

    Args:
        path: a table of answers like any other, with a column of labels.
        columns: which of its columns hold what; `label` by default is the first of `USUAL`.

    Raises:
        UserError: for what cannot be read, and where no answer has a label.
    """
    if path.suffix.lower() not in (".jsonl", ".json", ".csv", ".parquet") or not path.is_file():
        raise UserError(f"{path} is no table (.jsonl, .json, .csv, .parquet) with people's labels")
    named = [{"label": [name]} for name in USUAL] if "label" not in columns else [{}]
    wrong: UserError | None = None
    for more in named:
        try:
            rows = TableReader().read(path, {**columns, **more}).rows
            break
        except UserError as error:
            wrong = wrong or error
    else:
        assert wrong is not None
        raise wrong
    found = [
        {"messages": messages_of(row), "answer": _without_reasoning(row["answer"]), "label": row["labels"][0]["label"]}
        | ({"model": row["model"]} if "model" in row else {})
        for row in rows
        if row.get("labels") and row["answer"].strip()
    ]
    if not found:
        raise UserError(f"{path}: no answer has a label")
    return found


def _without_reasoning(answer: str) -> str:
    """Return an answer as judges see those of models that reason."""
    return answer.rpartition(END)[2].strip() or answer
