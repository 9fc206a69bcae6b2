"""The rows of files of answers that are those of one model and one split of a study."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.config.log_reader import LogRow, reader_of, split_name
from refusal_eval.recorded.log_answers import rows_of_model


def rows_in(files: Sequence[str], named: Mapping[str, Any]) -> list[LogRow]:
    """Return the rows of files; of several each row with its split.

    Args:
        named: their `reader` and their `columns`, as an entry names them.

    Raises:
        UserError: for what cannot be read.
    """
    columns = {field: [names] if isinstance(names, str) else names for field, names in named["columns"].items()}
    rows = [(file, reader_of(Path(file), named["reader"]).read(Path(file), columns).rows) for file in files]
    if len(rows) == 1:
        return rows[0][1]
    return [row | {"split": split_name(row, file)} for file, own in rows for row in own]


def cell_rows(
    files: Sequence[str], named: Mapping[str, Any], split: str, others: Collection[str]
) -> Sequence[Mapping[str, Any]]:
    """Return the rows of a model for a split: those that name it, or all of them where they name none.

    Files whose rows all name other splits of the study have none for this one.

    Args:
        others: the names of the study's other splits.

    Raises:
        UserError: for what cannot be read, and for files without that model.
    """
    rows = rows_of_model(rows_in(files, named), named["model"], shown_files(files))
    own = [row for row in rows if split_name(row, files[0]) == split]
    return own if own or all(row.get("split") in others for row in rows) else rows


def shown_files(files: Sequence[str]) -> str:
    """Return the name of files, for messages."""
    return files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"
