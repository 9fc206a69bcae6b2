"""The table of over-refusals: a row for each model and split that has them, out of the analysis."""

import pandas as pd

from refusal_eval.config.report_sections import RATES
from refusal_eval.features.over_refusals.measure_over_refusals import OF_ALL, OF_COUNTED
from refusal_eval.report.paper.display import NO_DATA, add_marks
from refusal_eval.report.paper.filled_notes import filled_notes
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import TableData, TableParts
from refusal_eval.report.paper.table_kind import OF_PRIMARY, StudyTable
from refusal_eval.report.paper.table_notes import rate_text
from refusal_eval.report.results.results_files import estimates_in
from refusal_eval.stats.estimates.estimate import Estimate

_COLUMNS = ("judge", "model", "split", "reading", "estimand", "value", "low", "high", "n_prompts", "flags")


def over_refusals(data: TableData) -> TableParts:
    """Return over-refusals by model and split, as shares of all prompts and of those that can be over-refused.

    The CSV has all judges, the table the primary one.
    """
    every = estimates_in(data.found("over_refusals"))
    frame = pd.DataFrame(
        [[getattr(row, name) for name in _COLUMNS] for row in every], columns=[*_COLUMNS], dtype=object
    )
    judge = data.asked["primary_judge"]
    found = {(row.model, row.split, row.estimand): row for row in every if row.judge == judge}
    places = [(model, split) for model in data.order("models") for split in data.order("splits")]
    places = [place for place in places if (*place, OF_ALL) in found]
    body = []
    for model, split in places:
        rows = [found.get((model, split, name)) for name in (OF_ALL, OF_COUNTED)]
        counts = [NO_DATA if row is None or row.n_prompts is None else str(row.n_prompts) for row in rows]
        of_all, of_counted = map(_rate, rows)
        names = [data.labels.model(model), data.labels.split(split)]
        body.append([*names, of_all, counts[0], of_counted, counts[1]])
    shown = [row for row in every if row.judge == judge]
    notes = filled_notes(
        "over_refusals/over_refusals",
        data.labels,
        judges={judge},
        cards=data.cards,
        flags=[row.flags for row in shown],
        readings={str(row.split): str(row.reading) for row in shown},
    )
    header = ["Model", "Split", "Of all\nprompts", "Prompts", "Of those that\ncan be over-refused", "Of these"]
    caption = "Over-refusals, in percent, with intervals."
    return frame, [Table("over-refusals", caption, header, body, notes, 2, marked=frozenset({2, 4}))]


def _rate(row: Estimate | None) -> str:
    return NO_DATA if row is None or row.value is None else add_marks(rate_text(row.row()), row.flags)


class OverRefusalsTable(StudyTable):
    """Over-refusals of the splits that say in which of their categories a refusal is one."""

    name = "over_refusals"
    of_analysis = "over_refusals"
    needs = ("over_refusals", "cards")
    shows = OF_PRIMARY
    report = (RATES, "Over-refusals")
    make = staticmethod(over_refusals)
