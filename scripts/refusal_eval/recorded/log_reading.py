"""The rows of a file of answers that are those of one model and one split of a study."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.config.log_reader import LogRow, reader_of, split_name
from refusal_eval.recorded.log_answers import rows_of_model


def rows_in(file: str | Path, named: Mapping[str, Any]) -> list[LogRow]:
    """Return the rows of a file.

    Args:
        named: its `reader` and its `columns`, as an entry names them.

    Raises:
        UserError: for what cannot be read.
    """
    columns = {field: [names] if isinstance(names, str) else names for field, names in named["columns"].items()}
    return reader_of(Path(file), named["reader"]).read(Path(file), columns).rows


def cell_rows(
    file: str | Path, named: Mapping[str, Any], split: str, others: Collection[str]
) -> Sequence[Mapping[str, Any]]:
    """Return the rows of a model for a split: those that name it, or all of them where they name none.

    A file whose rows all name other splits of the study has none for this one.

    Args:
        others: the names of the study's other splits.

    Raises:
        UserError: for what cannot be read, and for a file without that model.
    """
    rows = rows_of_model(rows_in(file, named), named["model"], str(file))
    own = [row for row in rows if split_name(row, file) == split]
    return own if own or all(row.get("split") in others for row in rows) else rows
