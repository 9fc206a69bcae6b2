"""The table of transforms: how many prompts each transformed model was asked with their own text, and why."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from refusal_eval.config.report_sections import RATES
from refusal_eval.features.transforms.measure_untransformed import BECAUSE
from refusal_eval.features.transforms.transform_kind import REASONS
from refusal_eval.report.paper.display import NO_DATA, percent
from refusal_eval.report.paper.filled_notes import filled_notes
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import TableData, TableParts
from refusal_eval.report.paper.table_kind import StudyTable
from refusal_eval.report.results.results_files import estimates_in
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.flags import UNTRANSFORMED

_COLUMNS = ("model", "split", "n_prompts", UNTRANSFORMED, *REASONS)
_HEADS = ("Prompts", "Own text\n(%)")


def transforms(data: TableData) -> TableParts:
    """Return a row per transformed model and split: prompts, and the share with their own text, in all and by why."""
    rows = shares(estimates_in(data.found("transforms")))
    shown = [reason for reason in REASONS if any(row[reason] for row in rows)]
    order = [(model, split) for model in data.order("models") for split in data.order("splits")]
    by_cell = {(str(row["model"]), str(row["split"])): row for row in rows}
    header = ["Model", "Split", *_HEADS, *(f"{REASONS[reason][0].upper()}{REASONS[reason][1:]}" for reason in shown)]
    body = [
        [
            data.labels.model(model),
            data.labels.split(split),
            str(row["n_prompts"]),
            percent(row[UNTRANSFORMED]),
            *(percent(row[reason]) if row[reason] else NO_DATA for reason in shown),
        ]
        for model, split in order
        if (row := by_cell.get((model, split))) is not None
    ]
    notes = filled_notes("transforms/transforms", data.labels, shown=shown)
    caption = "Prompts that were asked with their own text, without the model's transform."
    table = Table("transforms", caption, header, body, notes, 2, align="ll" + "r" * (len(header) - 2))
    return pd.DataFrame([[row[name] for name in _COLUMNS] for row in rows], columns=list(_COLUMNS), dtype=object), [
        table
    ]


def shares(estimates: Sequence[Estimate]) -> list[dict[str, Any]]:
    """Return the numbers of each model and split in one row: the shares in all, and by why."""
    found: dict[tuple[str | None, str | None], dict[str, Any]] = {
        (row.model, row.split): {"model": row.model, "split": row.split, "n_prompts": row.n_prompts}
        | {UNTRANSFORMED: row.value, **dict.fromkeys(REASONS, 0.0)}
        for row in estimates
        if row.estimand == UNTRANSFORMED
    }
    for row in estimates:
        if row.estimand == BECAUSE:
            found[row.model, row.split][str(row.parameter)] = row.value
    return list(found.values())


class TransformsTable(StudyTable):
    """Prompts that were asked with their own text although the model has a transform."""

    name = "transforms"
    of_analysis = "transforms"
    needs = ("transforms",)
    shows = ("models", "splits")
    report = (RATES, "Transformed prompts")
    make = staticmethod(transforms)
