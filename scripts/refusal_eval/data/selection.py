"""Which rows of a source are prompts, and which of them belong together where no column says so."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.hints import nearest_name
from refusal_eval.data.rows import TableRow, cell_text, need_cells, need_columns, text_or_none

Numbered = tuple[int, TableRow]
MOST_SHOWN = 10


def kept_rows(
    rows: Sequence[TableRow], where: Mapping[str, Any] | None, expected_kept: int | None, name: str
) -> tuple[list[Numbered], list[str]]:
    """Return the rows to keep with their numbers in the source (from 1), and notes for the log.

    Values are compared as the text that a CSV would hold: 1 is "1", true is "true"; "" is an empty cell.

    Args:
        where: for each of these columns the value, or the list of values, that a row must have; None keeps all.
        expected_kept: how many rows must be left; None for any number.
        name: the source's name in messages.

    Raises:
        UserError: for an unknown column, a value that no row has, when nothing is left, and for a wrong number.
    """
    numbered = list(enumerate(rows, 1))
    if where is None:
        return numbered, []
    need_columns(rows, where, name)
    lists = {column: wanted if isinstance(wanted, list) else [wanted] for column, wanted in where.items()}
    values = {column: [_as_cell(rows, column, value) for value in wanted] for column, wanted in lists.items()}
    for column, wanted in values.items():
        _check_values(rows, column, wanted, name)
    numbered = [
        (number, row)
        for number, row in numbered
        if all(cell_text(row, column, name) in wanted for column, wanted in values.items())
    ]
    shown = {column: " or ".join(value or "empty" for value in wanted) for column, wanted in values.items()}
    wanted_text = " and ".join(f"`{column}` {text}" for column, text in shown.items())
    if not numbered:
        raise UserError(f"{name}: no row has {wanted_text} at once")
    if expected_kept is not None and len(numbered) != expected_kept:
        raise UserError(f"{name}: {len(numbered)} rows have {wanted_text}, but expected_kept says {expected_kept}")
    return numbered, [
        f"{name}: {len(numbered)} of {len(rows)} rows have {wanted_text}, {len(rows) - len(numbered)} left out"
    ]


def read_clusters(rows: Sequence[TableRow], name: str) -> dict[str, str]:
    """Return {id: cluster} from the rows of a file of clusters.

    Raises:
        UserError: for a missing column, an empty cell, or a duplicate id.
    """
    need_columns(rows, ("id", "cluster"), name)
    found: dict[str, str] = {}
    for number, row in enumerate(rows, 1):
        identity, cluster = (text_or_none(row.get(key), f"{name}, row {number}") for key in ("id", "cluster"))
        if identity is None or cluster is None:
            raise UserError(f"{name}, row {number}: `id` and `cluster` must not be empty")
        if identity in found:
            raise UserError(f"{name}, row {number}: the id `{identity}` stands twice")
        found[identity] = cluster
    return found


def clusters_of(
    rows: Sequence[TableRow], columns: Mapping[str, Any], clusters: Mapping[str, str] | None, name: str
) -> list[str | None]:
    """Return the cluster of each row: out of its column, or by its id out of a file of clusters; None without one.

    Raises:
        UserError: if the column is empty, or the file names a row that is not there, or lacks one.
    """
    if clusters is None:
        column = columns.get("cluster")
        need_cells(rows, column, name)
        return [cell_text(row, column, f"{name}, row {number}") for number, row in enumerate(rows, 1)]
    ids = [cell_text(row, columns["id"], f"{name}, row {number}") for number, row in enumerate(rows, 1)]
    lacking = [f"{one or 'an empty one'} (row {number})" for number, one in enumerate(ids, 1) if one not in clusters]
    if lacking:
        raise UserError(f"{name}: its file of clusters lacks {_ids(lacking)}")
    strange = sorted(set(clusters) - set(ids))
    if strange:
        raise UserError(f"{name}: its file of clusters names rows that are not there: {_ids(strange)}")
    return [clusters[str(identity)] for identity in ids]


def _as_cell(rows: Sequence[TableRow], column: str, wanted: Any) -> str | None:
    """Return the text of the cells that are wanted: 1.0 is "1", but "1.0" where a CSV says so."""
    written = str(wanted)
    is_there = isinstance(wanted, float) and any(row.get(column) == written for row in rows)
    return written if is_there else text_or_none(wanted, "where")


def _check_values(rows: Sequence[TableRow], column: str, wanted: Sequence[str | None], name: str) -> None:
    """Say of a value that no row has which values there are: a misspelt one would silently leave rows out."""
    counts = Counter(cell_text(row, column, name) for row in rows)
    unknown = [value for value in wanted if value not in counts]
    if not unknown:
        return
    known = [value for value, _ in counts.most_common() if value is not None]
    close = nearest_name(unknown[0], known) if unknown[0] else None
    hint = f"; did you mean `{close}`?" if close else ""
    values = ", ".join(f"`{value[:40]}` ({counts[value]})" for value in known[:MOST_SHOWN])
    more = f", ... ({len(known)} in all)" if len(known) > MOST_SHOWN else ""
    empty = f", empty ({counts[None]})" if counts[None] else ""
    what = f"has `{unknown[0]}`" if unknown[0] else "is empty"
    raise UserError(f"{name}: no row {what} in column `{column}`{hint} (its values, with rows: {values}{more}{empty})")


def some(values: Sequence[str]) -> str:
    """Return the first few values, as the log shows them."""
    return ", ".join(values[:MOST_SHOWN]) + (", ..." if len(values) > MOST_SHOWN else "")


def _ids(values: Sequence[str]) -> str:
    return f"{len(values)} ids: {some(values)}" if len(values) > 1 else f"the id {some(values)}"
