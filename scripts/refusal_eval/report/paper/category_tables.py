"""The table of refusal rates by category, out of the results table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from refusal_eval.report.paper.display import (
    NO_DATA,
    Labels,
    Score,
    clean,
    interval,
    joined,
    mark_of,
    marks_of,
    notes_of,
    ordered,
    percent,
    wrapped,
)
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_notes import OF_DIALOGUES
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.scores import has_turns

_HEADER_WIDTH = 18  # characters; a longer model label is broken


def category_rows(results: Iterable[Estimate], judge: str, readings: Mapping[str, str]) -> list[Estimate]:
    """Return the refusal rates by category of one judge, in the headline reading of each split."""
    return [
        e
        for e in results
        if e.estimand == "refusal_rate"
        and e.judge == judge
        and e.split is not None
        and e.category is not None
        and e.reading == readings.get(e.split)
    ]


def categories_table(
    rows: Sequence[Estimate],
    judge: str,
    scores: Sequence[Score],
    notes: Sequence[str],
    labels: Labels | None = None,
    models: Sequence[str] | None = None,
    splits: Sequence[str] | None = None,
) -> Table:
    """A row per split and category, a column per model: headline rates in percent with intervals.

    A rate has the marks of its own category; the marks of a split's cells stand at the split's name.

    Args:
        rows: of `category_rows`.
        judge: the judge.
        scores: of its cells.
        notes: what stands below every table of this judge, its marks explained.
        labels: labels of models, splits and judges.
        models: their order.
        splits: their order.
    """
    show = labels or Labels()
    columns = ordered((str(row.model) for row in rows), models)
    cells = {(str(row.split), str(row.category), str(row.model)): row for row in rows}
    places = {split: i for i, split in enumerate(ordered((str(row.split) for row in rows), splits))}
    keys = sorted({key[:2] for key in cells}, key=lambda key: (places[key[0]], key[1]))
    marked = {split: marks_of(score for score in scores if score["split"] == split) for split in places}
    body = []
    for split, category in keys:
        own = [cells[split, category, model] for model in columns if (split, category, model) in cells]
        texts = [_rate(cells.get((split, category, model))) for model in columns]
        name = clean(category).replace("_", " ")
        body.append([show.split(split) + marked[split], name, str(max(row.n_prompts or 0 for row in own)), *texts])
    header = ["Split", "Category", "Prompts", *("\n".join(wrapped(show.model(m), _HEADER_WIDTH)) for m in columns)]
    readings = {score["split"]: score["headline"] for score in scores}
    said = [f"{show.split(split)} {readings[split]}" for split in places]
    below = [f"Reading of the rate: {joined(said)}." if said else "No split has categories."]
    below += [f"Prompts{OF_DIALOGUES}."] if has_turns(scores) else []
    marks = [f"{note}." for note in notes_of(flag for row in rows for flag in row.flags)]
    below += [note for note in marks if note not in notes]
    if any(marked.values()):
        below.append("A mark at a split's name is that of at least one model's answers to the whole split.")
    return Table(
        name=f"categories-{judge}",
        caption="Refusal rate in percent with its interval, by category.",
        header=header,
        rows=body,
        align="llr" + "r" * len(columns),
        notes=[*below, *notes],
        keys=3,
        per_block=4,
    )


def _rate(row: Estimate | None) -> str:
    if row is None or row.value is None:
        return NO_DATA
    return f"{percent(row.value)} {interval(row.low, row.high)}".strip() + mark_of(row.flags)


def categories_frame(rows: Iterable[Estimate]) -> pd.DataFrame:
    """One row per judge, model, split and category: n, headline rate and interval, flags."""
    columns = ("judge", "model", "split", "category", "reading", "samples", "n_prompts", "n_clusters")
    numbers = {"rate": "value", "low": "low", "high": "high"}
    found = [
        {name: getattr(row, name) for name in columns}
        | {name: getattr(row, field) for name, field in numbers.items()}
        | {"flags": " ".join(row.flags)}
        for row in rows
    ]
    found.sort(key=lambda row: [str(row[name]) for name in columns[:4]])
    return pd.DataFrame(found, columns=[*columns, *numbers, "flags"], dtype=object)
