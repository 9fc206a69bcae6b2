"""Names that would stand in every row of a table: told once, in its note, so that the columns left fit side by side."""

from __future__ import annotations

import dataclasses

from refusal_eval.report.paper.markup import Table


def told_once(table: Table) -> Table:
    """Return a table without the columns that name all its rows alike; a note above the others says what they said.

    One column that names the rows always stays, and a table of a single row stays as it is.
    """
    repeated = [i for i in range(table.keys) if len({row[i] for row in table.rows}) == 1]
    if len(repeated) == table.keys:
        repeated = repeated[1:]
    if len(table.rows) < 2 or not repeated:
        return table
    kept = [i for i in range(len(table.header)) if i not in repeated]
    said = [f"{' '.join(table.header[i].split())}: {table.rows[0][i]}" for i in repeated]
    return dataclasses.replace(
        table,
        header=[table.header[i] for i in kept],
        rows=[[row[i] for i in kept] for row in table.rows],
        align="".join(table.align[i] for i in kept),
        notes=[f"{'; '.join(said)} (in every row).", *table.notes],
        keys=table.keys - len(repeated),
        bold=frozenset((row, kept.index(i)) for row, i in table.bold if i in kept),
    )
