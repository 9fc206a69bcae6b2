"""The table of ways of asking: a row for each model and pair of splits, out of the analysis."""

import itertools

import pandas as pd

from refusal_eval.config.report_sections import RATES
from refusal_eval.features.ways_of_asking.measure_ways import DIFFERENCE, FIRST, SECOND
from refusal_eval.report.paper.display import NO_DATA, add_marks, percent
from refusal_eval.report.paper.filled_notes import filled_notes
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import TableData, TableParts
from refusal_eval.report.paper.table_kind import OF_PRIMARY, StudyTable
from refusal_eval.report.paper.table_notes import points_text
from refusal_eval.report.results.results_files import estimates_in
from refusal_eval.stats.comparisons.study_comparisons import SIGN_OPEN
from refusal_eval.stats.estimates.estimate import Estimate

_COLUMNS = ("judge", "model", "split", "parameter", "reading", "estimand", "value", "low", "high", "level", "method")
_COUNTS = ("n_prompts", "n_clusters", "flags")


def ways_of_asking(data: TableData) -> TableParts:
    """Return the differences between ways of asking; the CSV has all judges, the table the primary one."""
    every = estimates_in(data.found("ways_of_asking"))
    columns = [*_COLUMNS, *_COUNTS]
    frame = pd.DataFrame([[getattr(row, name) for name in columns] for row in every], columns=columns, dtype=object)
    judge, show = data.asked["primary_judge"], data.labels
    found = {(row.model, row.split, row.parameter, row.estimand): row for row in every if row.judge == judge}
    body, shown = [], list[Estimate]()
    for names in data.asked["ways"]:
        for model, (one, other) in itertools.product(data.order("models"), itertools.combinations(names, 2)):
            gap, *rates = (found.get((model, one, f"minus {other}", name)) for name in (DIFFERENCE, FIRST, SECOND))
            if gap is None:
                continue
            shown.append(gap)
            text = NO_DATA if gap.value is None else add_marks(points_text(gap.row()), gap.flags)
            sides = [percent(None if rate is None else rate.value) for rate in rates]
            body.append([show.model(model), show.split(one), show.split(other), *sides, text, str(gap.n_prompts)])
    notes = filled_notes(
        "ways_of_asking/ways_of_asking",
        show,
        judges={judge},
        cards=data.cards,
        level=f"{100 * data.asked['level']:g}",
        methods=sorted({row.method for row in shown if row.method}),
        clusters=sorted({row.n_clusters for row in shown if row.n_clusters}),
        flags=[row.flags for row in shown],
        open=sum(SIGN_OPEN in row.flags for row in shown),
        readings={str(split): str(row.reading) for row in shown for split in (row.split, _subtracted(row))},
    )
    header = ["Model", "First", "Second", "First (%)", "Second (%)", "Difference", "Turns"]
    caption = "Refusal rates of the same turns, asked in two ways, and their differences in percentage points."
    return frame, [Table("ways-of-asking", caption, header, body, notes, 3, marked=frozenset({5}))]


def _subtracted(row: Estimate) -> str:
    return str(row.parameter).removeprefix("minus ")


class WaysTable(StudyTable):
    """Differences between ways of asking the same turns, model by model."""

    name = "ways_of_asking"
    of_analysis = "ways_of_asking"
    needs = ("ways_of_asking", "cards")
    shows = OF_PRIMARY
    report = (RATES, "Ways of asking")
    make = staticmethod(ways_of_asking)
