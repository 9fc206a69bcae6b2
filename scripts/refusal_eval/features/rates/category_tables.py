"""The table of refusal rates by category, out of the results table."""

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from refusal_eval.config.report_sections import RATES
from refusal_eval.features.rates.rate_tables import HEADER_WIDTH, of_cell
from refusal_eval.report.paper.display import Score, clean, mark_of, marks_of, natural, order_names, wrap_text
from refusal_eval.report.paper.filled_notes import filled_notes
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import TableData, TableParts
from refusal_eval.report.paper.table_kind import OF_PRIMARY, StudyTable
from refusal_eval.report.paper.table_notes import common_notes, flags_notes, share_text
from refusal_eval.report.results.cells import of_alone
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.model_alone import as_user_meets_it, of_model_alone

_KEYS = 3  # columns that name a row


def categories(data: TableData) -> TableParts:
    """Return a row per split and category, a column per model: headline rates in percent with intervals.

    A rate has the marks of its own category; the marks of a split's cells follow the split's name.
    The rates of the model alone, if the study has them, are a table of their own.
    """
    judge, readings = data.asked["primary_judge"], {score["split"]: score["headline"] for score in data.scores}
    met, alone = (category_rows(of(data.estimates), judge, readings) for of in (as_user_meets_it, of_model_alone))
    tables = [_table(met, data, data.scores)]
    frame = categories_frame(met)
    if alone:
        tables.append(_table(alone, data, of_alone(data.scores), alone=True))
        parts = {"refusals": frame, "left_out": categories_frame(alone)}
        frame = pd.concat([one.assign(blocked_answers=said) for said, one in parts.items()], ignore_index=True)
    return frame, tables


def _table(rows: Sequence[Estimate], data: TableData, every: Sequence[Score], alone: bool = False) -> Table:
    show, judge = data.labels, data.asked["primary_judge"]
    columns = order_names((str(row.model) for row in rows), data.order("models"))
    cells = {(str(row.split), str(row.category), str(row.model)): row for row in rows}
    places = {split: i for i, split in enumerate(order_names((str(row.split) for row in rows), data.order("splits")))}
    scores = [score for score in every if score["split"] in places]
    marked = {split: marks_of(score for score in scores if score["split"] == split) for split in places}
    body: list[list[str]] = []
    about: dict[tuple[int, int], dict[str, str]] = {}
    for split, category in sorted({key[:2] for key in cells}, key=lambda key: (places[key[0]], natural(key[1]))):
        about |= {(len(body), j): of_cell(m, split, category=category) for j, m in enumerate(columns, _KEYS)}
        own = [cells.get((split, category, model)) for model in columns]
        prompts = max(row.n_prompts or 0 for row in own if row is not None)
        name = clean(category).replace("_", " ")
        body.append([show.split(split) + marked[split], name, str(prompts), *map(_rate, own)])
    readings = {score["split"]: score["headline"] for score in scores}
    common = common_notes(scores, data.cards, show) if scores else []
    notes = filled_notes(
        "categories/categories",
        show,
        scores=scores,
        readings=[f"{show.split(split)} ({readings[split]})" for split in places],
        own=[note for note in flags_notes(row.flags for row in rows) if note not in common],
        marked=any(marked.values()),
        common=common,
        model_alone=alone,
    )
    header = ["Split", "Category", "Prompts", *("\n".join(wrap_text(show.model(m), HEADER_WIDTH)) for m in columns)]
    rate, align = "Refusal rate of the model alone" if alone else "Refusal rate", "llr" + "r" * len(columns)
    caption, name = f"{rate} in percent with its interval, by category.", f"categories-{judge}" + "-model-alone" * alone
    return Table(name, caption, header, body, notes, keys=_KEYS, per_block=4, align=align, about=about)


def category_rows(results: Iterable[Estimate], judge: str, readings: Mapping[str, str]) -> list[Estimate]:
    """Return the refusal rates by category of one judge, in the headline reading of each split."""
    return [
        e
        for e in results
        if (e.estimand, e.judge) == ("refusal_rate", judge)
        and None not in (e.split, e.category)
        and e.reading == readings.get(str(e.split))
    ]


def _rate(row: Estimate | None) -> str:
    if row is None or row.value is None:
        return share_text(None, None)
    return share_text(row.value, (row.low, row.high)) + mark_of(row.flags)


def categories_frame(rows: Iterable[Estimate]) -> pd.DataFrame:
    """One row per judge, model, split and category: n, headline rate and interval, flags."""
    columns = ("judge", "model", "split", "category", "reading", "samples", "n_prompts", "n_clusters")
    numbers = {"rate": "value", "low": "low", "high": "high"}
    found = [
        {name: getattr(row, name) for name in columns}
        | {name: getattr(row, field) for name, field in numbers.items()}
        | {"flags": row.flags}
        for row in rows
    ]
    found.sort(key=lambda row: [str(row[name]) for name in columns[:4]])
    return pd.DataFrame(found, columns=[*columns, *numbers, "flags"], dtype=object)


class CategoriesTable(StudyTable):
    """Refusal rates by category."""

    name = "categories"
    needs = ("estimates", "cards")
    shows = OF_PRIMARY
    report = (RATES, "Rates by category")
    make = staticmethod(categories)
