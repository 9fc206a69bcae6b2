"""The table of attention steering: how many prompts of each model lacked the word, and how many tokens it has."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from refusal_eval.config.report_sections import RATES
from refusal_eval.features.attention.measure_unsteered import BECAUSE, REASONS, TOKENS
from refusal_eval.report.paper.display import NO_DATA, percent
from refusal_eval.report.paper.filled_notes import filled_notes
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import TableData, TableParts
from refusal_eval.report.paper.table_kind import StudyTable
from refusal_eval.report.results.results_files import estimates_in
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.flags import UNSTEERED

_COLUMNS = ("model", "split", "n_prompts", UNSTEERED, *REASONS, TOKENS)
_HEADS = ("Prompts", "Not steered\n(%)", "Column\nempty (%)", "Word not\nthere (%)", "Tokens\nsteered")


def attention_steering(data: TableData) -> TableParts:
    """Return a row per steered model and split: prompts, those asked as they are, in all and by why, and tokens."""
    rows = steered_cells(estimates_in(data.found("attention")))
    by_cell = {(str(row["model"]), str(row["split"])): row for row in rows}
    body = [
        [
            data.labels.model(model),
            data.labels.split(split),
            str(row["n_prompts"]),
            *(percent(row[name]) for name in (UNSTEERED, *REASONS)),
            NO_DATA if row[TOKENS] is None else f"{row[TOKENS]:.1f}",
        ]
        for model in data.order("models")
        for split in data.order("splits")
        if (row := by_cell.get((model, split))) is not None
    ]
    header = ["Model", "Split", *_HEADS]
    notes = filled_notes("attention/attention", data.labels)
    caption = "Prompts whose word was steered, and those that were asked as they are."
    table = Table("attention", caption, header, body, notes, 2, align="ll" + "r" * len(_HEADS))
    return pd.DataFrame([[row[name] for name in _COLUMNS] for row in rows], columns=list(_COLUMNS), dtype=object), [
        table
    ]


def steered_cells(estimates: Sequence[Estimate]) -> list[dict[str, Any]]:
    """Return the numbers of each model and split in one row."""
    found: dict[tuple[str | None, str | None], dict[str, Any]] = {
        (row.model, row.split): {"model": row.model, "split": row.split, "n_prompts": row.n_prompts}
        | {UNSTEERED: row.value, **dict.fromkeys(REASONS, 0.0), TOKENS: None}
        for row in estimates
        if row.estimand == UNSTEERED
    }
    for row in estimates:
        if row.estimand in (BECAUSE, TOKENS):
            found[row.model, row.split][str(row.parameter) if row.estimand == BECAUSE else TOKENS] = row.value
    return list(found.values())


class AttentionTable(StudyTable):
    """Prompts that models with attention steering were asked as they are."""

    name = "attention"
    of_analysis = "attention"
    needs = ("attention",)
    shows = ("models", "splits")
    report = (RATES, "Attention steering")
    make = staticmethod(attention_steering)
