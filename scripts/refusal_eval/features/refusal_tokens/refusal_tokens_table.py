"""What models with refusal tokens refuse at each choice, as a frame for CSV and as tables for a paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from refusal_eval.report.paper.display import add_marks, clean
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import TableData, TableParts
from refusal_eval.report.paper.table_kind import OF_PRIMARY, StudyTable
from refusal_eval.report.paper.table_notes import READINGS_NOTE, flags_notes, judges_notes, rate_text, value_text

TokenRow = Mapping[str, Any]  # of the results table
_NAMES = ("judge", "model", "split", "estimand", "pool", "reading", "category", "parameter")
COLUMNS = (*_NAMES, "value", "low", "high", "method", "n_prompts", "n_clusters", "flags")
RATES = {
    "Refusal token (%)": ("refusal_token_share", None),
    "Strict (%)": ("refusal_token_rate", "strict"),
    "Broad (%)": ("refusal_token_rate", "broad"),
}
F1 = {
    "F1, token": ("refusal_token_share_f1", None),
    "F1, strict": ("refusal_token_f1", "strict"),
    "F1, broad": ("refusal_token_f1", "broad"),
}
CHOICE_NOTE = (
    "A prompt is answered behind its most probable refusal token where q of that token is at least t, and behind the "
    "token of other replies elsewhere. q is the share among the named tokens after log-probabilities are divided by T; "
    "raw: the probability itself. Arg-max: the most probable of the named tokens. Alone: the threshold is for this "
    "token; prompts of which another refusal token is the most probable one follow the arg-max."
)
ALL = "all"


def refusal_tokens(data: TableData) -> TableParts:
    """Return rates by split and choice, and F1 by category and choice, for each model with refusal tokens."""
    rows: list[TokenRow] = data.found("refusal_tokens", "curves", "points")["estimates"]
    frame = pd.DataFrame([[row[name] for name in COLUMNS] for row in rows], columns=list(COLUMNS), dtype=object)
    judge = data.asked["primary_judge"]
    shown = [row for row in rows if row["judge"] in (None, judge)]
    tables = []
    for model in dict.fromkeys(row["model"] for row in shown):
        own = [row for row in shown if row["model"] == model]
        splits = data.order("splits")
        of_rates = {(row["split"], row["parameter"]): None for row in own if row["estimand"] == "refusal_token_share"}
        keys = sorted(of_rates, key=lambda key: splits.index(key[0]))
        names = [[data.labels.split(split), choice] for split, choice in keys]
        found = [_found(own, split, None, choice, RATES) for split, choice in keys]
        title = f"What {clean(model)} refuses at each choice between its tokens."
        tables.append(_table(f"refusal_tokens-{model}", title, ["Split", "Choice", *RATES], names, found, data, judge))
        f1 = [row for row in own if row["estimand"] == "refusal_token_share_f1" and row["value"] is not None]
        pairs = list(dict.fromkeys((row["category"], row["parameter"]) for row in f1))
        pairs.sort(key=lambda pair: (pair[0] is not None, pair[0] or ""))
        if pairs:
            names = [[clean(category or ALL), choice] for category, choice in pairs]
            found = [_found(own, None, category, choice, F1) for category, choice in pairs]
            title = f"How well refusals of {clean(model)} separate what should be refused from what should be answered."
            header = ["Category", "Choice", *F1]
            tables.append(_table(f"refusal_tokens-f1-{model}", title, header, names, found, data, judge))
    return frame, tables


def _found(
    rows: Sequence[TokenRow],
    split: str | None,
    category: str | None,
    choice: str,
    columns: Mapping[str, tuple[str, str | None]],
) -> list[TokenRow | None]:
    place = (split, category, choice)
    own = [row for row in rows if (row["split"], row["category"], row["parameter"]) == place]
    by_name = {(row["estimand"], row["reading"]): row for row in own}
    return [by_name.get(key) for key in columns.values()]


def _table(
    name: str,
    title: str,
    header: Sequence[str],
    names: Sequence[Sequence[str]],
    found: Sequence[Sequence[TokenRow | None]],
    data: TableData,
    judge: str,
) -> Table:
    there = [row for each in found for row in each if row is not None]
    levels = sorted({f"{100 * row['level']:g} %" for row in there if row["level"]})
    of_f1 = header[-1] in F1
    cells = [[*keys, *(_cell(row, of_f1) for row in each)] for keys, each in zip(names, found, strict=True)]
    how = "bootstrap over clusters" if of_f1 else "over clusters of prompts"
    notes = [
        f"Intervals ({', '.join(levels)}): {how}, the samples of a prompt kept together.",
        CHOICE_NOTE,
        READINGS_NOTE + " A refusal token is counted as it is chosen, without a judge.",
        *judges_notes([judge], data.cards, data.labels),
        *flags_notes(row["flags"] for row in there),
    ]
    return Table(name, title, header, cells, notes, keys=2, headings=1)


def _cell(row: TokenRow | None, of_f1: bool) -> str:
    if row is None or row["value"] is None:
        return rate_text(None)
    text = value_text(row["value"], (row["low"], row["high"])) if of_f1 else rate_text(row)
    return add_marks(text, row["flags"])


class RefusalTokensTable(StudyTable):
    """What models with refusal tokens refuse at each choice."""

    name = "refusal_tokens"
    of_analysis = "refusal_tokens"
    needs = ("refusal_tokens", "cards")
    shows = OF_PRIMARY
    report = ("Refusal rates", "Refusal tokens")
    make = staticmethod(refusal_tokens)
