"""The table of written splits: how many rows are prompts, and what became of the others."""

from typing import Any

import pandas as pd

from refusal_eval.config.report_sections import RATES
from refusal_eval.features.written.measure_written import BECAUSE, SHARE
from refusal_eval.features.written.written_states import STATES, WRITTEN
from refusal_eval.report.paper.display import NO_DATA, percent
from refusal_eval.report.paper.filled_notes import filled_notes
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import TableData, TableParts
from refusal_eval.report.paper.table_kind import StudyTable
from refusal_eval.report.results.results_files import estimates_in


def written(data: TableData) -> TableParts:
    """Return a row per written split: its writer, its rows, and the share of these in each state."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for estimate in estimates_in(data.found("written")):
        key = (str(estimate.split), str(estimate.model))
        row = rows.setdefault(
            key, {"split": key[0], "writer": key[1], "n_rows": estimate.n_prompts} | dict.fromkeys(STATES, 0.0)
        )
        if estimate.estimand in (SHARE, BECAUSE):
            row[str(estimate.parameter or WRITTEN)] = estimate.value
    shown = [state for state in STATES if state == WRITTEN or any(row[state] for row in rows.values())]
    header = ["Split", "Writer", "Rows", *(f"{STATES[state][0].upper()}{STATES[state][1:]}\n(%)" for state in shown)]
    body = [
        [
            data.labels.split(row["split"]),
            data.labels.model(row["writer"]),
            str(row["n_rows"]),
            *(percent(row[state]) if row[state] or state == WRITTEN else NO_DATA for state in shown),
        ]
        for row in rows.values()
    ]
    notes = filled_notes("written/written", data.labels, shown=shown)
    caption = "Prompts that models wrote, and what became of the rows that hold none."
    table = Table("written", caption, header, body, notes, 2, align="ll" + "r" * (len(header) - 2))
    columns = ["split", "writer", "n_rows", *STATES]
    return pd.DataFrame([[row[name] for name in columns] for row in rows.values()], columns=columns, dtype=object), [
        table
    ]


class WrittenTable(StudyTable):
    """What became of the rows that models wrote."""

    name = "written"
    of_analysis = "written"
    needs = ("written",)
    shows = ("models", "splits")
    report = (RATES, "Written prompts")
    make = staticmethod(written)
