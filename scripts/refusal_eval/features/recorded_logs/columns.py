"""Which columns of a table hold what, as a user says it."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.hints import nearest


def refuse_unknown(columns: Mapping[str, Sequence[str]], known: Iterable[str], path: Path) -> None:
    """Raise `UserError` for columns of what a reader takes from no column."""
    known = list(known)
    for field in columns:
        if field not in known:
            raise UserError(f"{path}: no column can be named for `{field}`{nearest(field, known)}")


def value_at(row: Mapping[str, Any], column: str) -> Any:
    """Return the value of a column, or of a field inside: `doc.question`; None if there is none."""
    if column in row:
        return row[column]
    value: Any = row
    for name in column.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value
