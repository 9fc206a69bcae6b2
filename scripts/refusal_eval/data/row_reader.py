"""Rows of a split that hold more than a prompt, such as answers to it.

A reader is one class in the folder of its feature, found by `ROW_READERS` (config/kinds.py) under the key of a split's
entry that says how such rows are read.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from refusal_eval.data.rows import ColumnNames, TableRow


class RowReader:
    """Reads prompts, and what comes with them, out of rows.

    Attributes:
        field: the field of a prompt that holds what came with it.
        unused: what rows are that it leaves out, for the log.
        copies: what several rows with one prompt are, for the log.

    Args:
        columns: the value of its key, as a mapping.
    """

    field: ClassVar[str]
    unused: ClassVar[str]
    copies: ClassVar[str]

    def __init__(self, columns: ColumnNames) -> None:
        self.columns = columns

    def named_columns(self) -> list[str | None]:
        """Return the columns that it reads."""
        raise NotImplementedError

    def read(self, row: TableRow, columns: ColumnNames, place: str) -> dict[str, Any] | str:
        """Return a row's `prompt` and what comes with it, or why the row is left out.

        Args:
            row: a row of the source.
            columns: the split's columns.
            place: what messages begin with.

        Raises:
            UserError: for a cell of another form.
        """
        raise NotImplementedError

    @staticmethod
    def answers(prompts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the answers that came with prompts, as those of one model."""
        raise NotImplementedError
