"""The table of attributions: what they find, next to orders of words that look at no model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from refusal_eval.features.attributions.attribution_estimates import DIFFERENCES, MEASURES, ORDERS, OWN, parameter
from refusal_eval.features.attributions.attribution_words import method_words
from refusal_eval.features.attributions.focus_words import RULES
from refusal_eval.report.paper.display import NO_DATA, clean, mark_of, natural
from refusal_eval.report.paper.filled_notes import filled_notes
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import TableData, TableParts
from refusal_eval.report.paper.table_kind import OF_PRIMARY, StudyTable
from refusal_eval.report.paper.table_notes import flags_notes, judges_notes, value_text
from refusal_eval.report.results.results_files import estimates_in
from refusal_eval.stats.estimates.estimate import Estimate

_NAMES = ("parameter", "judge", "model", "split", "category", "reading", "estimand")
COLUMNS = (*_NAMES, "value", "low", "high", "method", "n_prompts", "n_clusters", "flags")
HEADER = ("Prompts", "Words by", "n", "Top-1", "Top-3", "MRR", "R-precision")
ALL = "all"


def attributions(data: TableData) -> TableParts:
    """Return a table for each attribution and each rule for what is to be found."""
    content = data.found("attributions", "counts", "attributions")
    every = estimates_in(content)
    frame = pd.DataFrame(
        [[getattr(row, name) for name in COLUMNS] for row in every], columns=list(COLUMNS), dtype=object
    )
    tables = []
    for name, one in content["attributions"].items():
        own = [row for row in every if str(row.parameter).startswith(f"{name}, ")]
        if one["focus"] is not None:
            tables += [_table(name, one, rule, own, content["counts"][name], data) for rule in RULES]
    return frame, tables


def _table(
    name: str, one: Mapping[str, Any], rule: str, every: Sequence[Estimate], counts: Mapping[str, int], data: TableData
) -> Table:
    own = {
        (row.category, row.estimand, row.parameter): row
        for row in every
        if str(row.parameter).startswith(f"{name}, {rule}, ")
    }
    categories = sorted({category for category, *_ in own if category}, key=natural)
    body = []
    for category in (None, *categories) if own else ():
        for order in ORDERS:
            cells = [own[category, measure, parameter(name, rule, order)] for measure in MEASURES]
            body.append([clean(category or ALL), order, str(cells[0].n_prompts), *map(_text, cells)])
        found = {row.estimand: row for (of, *_), row in own.items() if of == category}
        best = [found[measure] for measure in DIFFERENCES]
        label = "attribution \u2212 best of these"
        body.append([clean(category or ALL), label, str(best[0].n_prompts), *map(_text, best)])
    shown = list(own.values())
    judges = {row.judge for row in shown if row.judge}
    notes = filled_notes(
        "attributions/attributions",
        data.labels,
        method=method_words(one),
        model=data.labels.model(one["model"]),
        split=data.labels.split(one["split"]),
        counts=counts,
        found=RULES[rule].capitalize(),
        level=" or ".join(sorted({f"{100 * row.level:g} %" for row in shown if row.level})) or NO_DATA,
        methods=sorted({row.method for row in shown if row.method}),
        judged=judges_notes(judges, data.cards, data.labels) if judges else [],
        marks=flags_notes(row.flags for row in shown),
    )
    caption = f"Whether attribution {clean(name)} finds the words of the focus ({rule})."
    return Table(f"attributions-{name}-{rule}", caption, HEADER, body, notes, keys=2, headings=1, align="llrrrrr")


def _text(row: Estimate) -> str:
    if row.value is None:
        return NO_DATA
    return value_text(row.value, None if row.low is None else (row.low, row.high)) + mark_of(row.flags)


class AttributionsTable(StudyTable):
    """How well attributions find the words that are to be found, next to orders that look at no model."""

    name = "attributions"
    of_analysis = OWN + "s"
    needs = ("attributions", "cards")
    shows = OF_PRIMARY
    report = ("Attributions", "Words found")
    make = staticmethod(attributions)
