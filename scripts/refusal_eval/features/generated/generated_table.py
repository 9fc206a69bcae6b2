"""The tables of prompts that are made step by step: rows of each step, refusals against the seeds', by category."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from refusal_eval.config.report_sections import RATES
from refusal_eval.features.generated.measure_generated import (
    DIFFERENCE,
    OF_PROMPTS,
    OF_SEEDS,
    ROWS_IN,
    ROWS_LOST,
    ROWS_OUT,
)
from refusal_eval.report.paper.display import NO_DATA, add_marks, percent
from refusal_eval.report.paper.filled_notes import filled_notes
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import TableData, TableParts
from refusal_eval.report.paper.table_kind import OF_PRIMARY, StudyTable
from refusal_eval.report.paper.table_notes import points_text
from refusal_eval.report.results.results_files import estimates_in
from refusal_eval.stats.comparisons.study_comparisons import SIGN_OPEN
from refusal_eval.stats.estimates.estimate import Estimate

_COLUMNS = (
    *("judge", "model", "split", "category", "parameter", "reading", "estimand", "value", "low", "high"),
    *("level", "method", "n_prompts", "n_clusters", "flags"),
)


class ChainRows:
    """The rows of the analysis on one chain, under one judge."""

    def __init__(self, every: Sequence[Estimate], chain: Mapping[str, Any], judge: str) -> None:
        self.seeds, self.steps = str(chain["seeds"]), list(chain["steps"])
        own = [row for row in every if row.judge in (None, judge)]
        self.rows = [row for row in own if row.split in (self.seeds, *self.steps)]
        self._counts = {(row.estimand, row.split, row.category, row.parameter): row for row in self.rows}

    def count(self, of: str, split: str, category: str | None = None, state: str | None = None) -> int:
        """Return a number of rows, 0 where there are none."""
        row = self._counts.get((of, split, category, state))
        return 0 if row is None else int(row.value or 0)

    def writer(self, split: str) -> str | None:
        """Return the model that was asked in a step, None in one without a model."""
        row = self._counts.get((ROWS_IN, split, None, None))
        return None if row is None else row.model

    def states(self) -> list[str]:
        """Return what became of rows that were lost, the most frequent first."""
        lost: dict[str, float] = {}
        for row in self.rows:
            if row.estimand == ROWS_LOST and row.split != self.seeds:  # which may be a step of another chain
                lost[str(row.parameter)] = lost.get(str(row.parameter), 0) + (row.value or 0)
        return sorted(lost, key=lambda state: (-lost[state], state))

    def categories(self) -> list[str]:
        """Return the categories of the seeds, in the order of their names."""
        return sorted({str(row.category) for row in self.rows if row.estimand == ROWS_OUT and row.category is not None})

    def rate(self, of: str, model: str, category: str | None = None) -> Estimate | None:
        """Return a rate of the prompts at the end or of their seeds, or the difference."""
        wanted = (of, self.steps[-1], model, category)
        named = (row for row in self.rows if (row.estimand, row.split, row.model, row.category) == wanted)
        return next((row for row in named if row.parameter == f"minus {self.seeds}"), None)


def generated(data: TableData) -> TableParts:
    """Return the tables of each chain; the CSV has all judges, the tables the primary one."""
    content = data.found("generated", "words")
    every = estimates_in(content)
    frame = pd.DataFrame(
        [[getattr(row, name) for name in _COLUMNS] for row in every], columns=list(_COLUMNS), dtype=object
    )
    tables = []
    for chain in data.asked["chains"]:
        rows = ChainRows(every, chain, data.asked["primary_judge"])
        tables += [_steps(rows, content["words"], data), _rates(rows, data)]
        tables += [_categories(rows, data)] if rows.categories() else []
    return frame, tables


def _steps(rows: ChainRows, words: Mapping[str, str], data: TableData) -> Table:
    states = rows.states()
    header = ["Step", "By", "In", *(f"{words[state][0].upper()}{words[state][1:]}" for state in states), "Left"]
    body = [[data.labels.split(rows.seeds), NO_DATA, NO_DATA, *([NO_DATA] * len(states))]]
    body[0].append(str(rows.count(ROWS_OUT, rows.seeds)))
    for step in rows.steps:
        lost = [rows.count(ROWS_LOST, step, state=state) for state in states]
        writer = rows.writer(step)
        body.append([data.labels.split(step), NO_DATA if writer is None else data.labels.model(writer)])
        body[-1] += [str(rows.count(ROWS_IN, step)), *(str(count) if count else NO_DATA for count in lost)]
        body[-1].append(str(rows.count(ROWS_OUT, step)))
    notes = filled_notes("generated/generated", data.labels, steps=True, categories=False)
    caption = f"Rows of each step from {data.labels.split(rows.seeds)} to {data.labels.split(rows.steps[-1])}."
    return Table(f"generated-steps-{rows.steps[-1]}", caption, header, body, notes, 2)


def _rates(rows: ChainRows, data: TableData) -> Table:
    body, shown = [], list[Estimate]()
    for model in data.order("models"):
        gap, own, of_seeds = (rows.rate(of, model) for of in (DIFFERENCE, OF_PROMPTS, OF_SEEDS))
        if gap is None or own is None or of_seeds is None:
            continue
        shown.append(gap)
        text = NO_DATA if gap.value is None else add_marks(points_text(gap.row()), gap.flags)
        body.append([data.labels.model(model), percent(of_seeds.value), percent(own.value), text, str(gap.n_prompts)])
    notes = _notes(rows, shown, data, categories=False)
    header = ["Model", "Seeds (%)", "Generated (%)", "Difference", "Prompts"]
    caption = (
        f"Refusal rates of {data.labels.split(rows.steps[-1])} and of the {data.labels.split(rows.seeds)} behind them, "
        "and their differences in percentage points."
    )
    return Table(f"generated-rates-{rows.steps[-1]}", caption, header, body, notes, marked=frozenset({3}))


def _categories(rows: ChainRows, data: TableData) -> Table:
    models, show = data.order("models"), data.labels
    header = ["Category", *(show.split(split) for split in (rows.seeds, *rows.steps))]
    groups = ["prompts"] * (1 + len(rows.steps))
    for model in models:
        header += [f"{show.model(model)},\nseeds (%)", f"{show.model(model)},\ngenerated (%)"]
        groups += [model] * 2
    body = []
    for category in rows.categories():
        counts = [str(rows.count(ROWS_OUT, split, category)) for split in (rows.seeds, *rows.steps)]
        found = [rows.rate(of, model, category) for model in models for of in (OF_SEEDS, OF_PROMPTS)]
        body.append([category, *counts, *(percent(None if one is None else one.value) for one in found)])
    notes = _notes(rows, [], data, categories=True)
    caption = f"From {show.split(rows.seeds)} to {show.split(rows.steps[-1])} by category."
    name = f"generated-categories-{rows.steps[-1]}"
    return Table(name, caption, header, body, notes, per_block=7, groups=groups)


def _notes(rows: ChainRows, shown: Sequence[Estimate], data: TableData, categories: bool) -> list[str]:
    judge = data.asked["primary_judge"]
    return filled_notes(
        "generated/generated",
        data.labels,
        steps=False,
        categories=categories,
        judges={judge},
        cards=data.cards,
        level=f"{100 * data.asked['level']:g}",
        methods=sorted({row.method for row in shown if row.method}),
        clusters=sorted({row.n_clusters for row in shown if row.n_clusters}),
        flags=[row.flags for row in shown],
        open=sum(SIGN_OPEN in row.flags for row in shown),
        readings={split: str(row.reading) for row in shown for split in (rows.seeds, rows.steps[-1])},
    )


class GeneratedTable(StudyTable):
    """What comes of prompts that are made step by step."""

    name = "generated"
    of_analysis = "generated"
    needs = ("generated", "cards")
    shows = OF_PRIMARY
    report = (RATES, "Generated prompts")
    make = staticmethod(generated)
