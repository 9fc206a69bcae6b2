"""The table of choices: removal and shift of each configuration where it is chosen, and of the chosen one elsewhere."""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from refusal_eval.features.choices.make_choices import CHOOSING, CHOSEN, REMOVAL, REPORTING, SHIFT, place_of
from refusal_eval.report.paper.display import NO_DATA, mark_of
from refusal_eval.report.paper.filled_notes import filled_notes
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import TableData, TableParts
from refusal_eval.report.paper.table_kind import OF_STUDY, StudyTable
from refusal_eval.report.paper.table_notes import flags_notes, value_text
from refusal_eval.report.results.results_files import estimates_in
from refusal_eval.stats.estimates.estimate import Estimate

_COLUMNS = ("parameter", "judge", "model", "split", "estimand", "value", "low", "high", "n_prompts", "n_clusters")
Key = tuple[str, str, str]  # estimand, model, parameter


def choices(data: TableData) -> TableParts:
    """Return a row for each configuration of each choice."""
    found = estimates_in(data.found("choices"))
    frame = pd.DataFrame(
        [[getattr(row, name) for name in (*_COLUMNS, "flags")] for row in found],
        columns=["choice", *_COLUMNS[1:], "flags"],
        dtype=object,
    )
    return frame, [_table(choice, found, data) for choice in data.asked["choices"]]


def _table(choice: Mapping[str, Any], found: list[Estimate], data: TableData) -> Table:
    by_key: dict[Key, Estimate] = {(row.estimand, str(row.model), str(row.parameter)): row for row in found}
    show, name = data.labels, str(choice["name"])
    rows, shown = [], list[Estimate]()
    for model in choice["models"]:
        own = [
            by_key.get((of, model, place_of(choice, half))) for half in (CHOOSING, REPORTING) for of in (REMOVAL, SHIFT)
        ]
        made = by_key[CHOSEN, model, place_of(choice, CHOOSING)]
        shown += [row for row in own if row is not None]
        cells = [_text(row) for row in own]
        rows.append([show.model(model), *cells[:2], "yes" if made.value else "", *cells[2:]])
    sizes = {half: _sizes(shown, place_of(choice, half)) for half in (CHOOSING, REPORTING)}
    notes = filled_notes(
        "choices/choices",
        show,
        choice=choice,
        refusals=[show.split(split) for split in choice["refusals"]],
        others=[show.split(split) for split in choice["others"]],
        level=f"{100 * data.asked['level']:g}",
        sizes=sizes,
        chosen=any(row[3] for row in rows),
        marks=flags_notes(row.flags for row in shown),
    )
    header = ["Configuration", "Removal", "Shift", "Chosen", "Removal,\nother half", "Shift,\nother half"]
    return Table(f"choice-{name}", f"Choice of a configuration: {name}.", header, rows, notes, align="lrrcrr")


def _sizes(rows: Iterable[Estimate], place: str) -> dict[str, int | None]:
    """Return the number of prompts behind removal and shift on one half."""
    names = {REMOVAL: "removal", SHIFT: "shift"}
    return {names[row.estimand]: row.n_prompts for row in rows if row.parameter == place}


def _text(row: Estimate | None) -> str:
    if row is None or row.value is None:
        return NO_DATA
    return value_text(row.value, None if row.low is None else (row.low, row.high)) + mark_of(row.flags)


class ChoicesTable(StudyTable):
    """Which configuration is chosen, on one half of the prompts, and its numbers on the other half."""

    name = "choices"
    of_analysis = "choices"
    needs = ("choices",)
    shows = OF_STUDY
    report = ("Steering", "Choice of a configuration")
    make = staticmethod(choices)
