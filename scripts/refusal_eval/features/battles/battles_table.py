"""What refusals cost in battles, as a frame for CSV and as tables for a paper."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from refusal_eval.report.paper.display import add_marks, clean
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import TableData, TableParts
from refusal_eval.report.paper.table_kind import OF_PRIMARY, StudyTable
from refusal_eval.report.paper.table_notes import flags_notes, judges_notes, points_text, rate_text, value_text

BattleEstimate = Mapping[str, Any]  # of the results table
_NAMES = ("judge", "model", "split", "estimand", "category", "parameter")
COLUMNS = (*_NAMES, "value", "low", "high", "method", "n_prompts", "n_clusters", "flags")
SHOWN = {
    "Answers (%)": "battle_share",
    "Wins (%)": "battle_wins",
    "Penalty": "battle_penalty",
    "Ratio": "battle_ratio",
    "Against\ncompliance (%)": "battle_duels",
    "Log-odds": "battle_log_odds",
    "Log-odds,\ncontrolled": "battle_log_odds_controlled",
}
OF_LLM = {
    "Wins, people (%)": "battle_wins_paired",
    "Wins, LLM (%)": "battle_wins_llm",
    "Penalty, people": "battle_penalty_paired",
    "Penalty, LLM": "battle_penalty_llm",
    "Moderation bias": "battle_moderation_bias",
}
_NOTES = (
    "Wins: battles that answers of the class won outright, of all its answers. Penalty: that share of the most "
    "frequent class of compliance minus that of the class, in percentage points; ratio: the latter divided by the "
    "former.",
    "Against compliance: share of battles won against that class, ties as half. Log-odds of being preferred, in a "
    "logistic regression on differences between both answers; controlled: at equal models and length.",
)
_BIAS = (
    "Only battles that a language model (LLM) decided as well as people; in brackets how many have an answer of the "
    "class. A tie is no win: more ties of one side lower all its wins and its penalty.",
    "Moderation bias: the penalty among people minus that of the LLM, in percentage points, over the battles that "
    "neither called a tie; positive where it takes the class more leniently.",
)


def battles(data: TableData) -> TableParts:
    """Return win rates by class of answer, penalties and moderation bias, a table for each model and split."""
    rows: list[BattleEstimate] = data.found("battles")["estimates"]
    frame = pd.DataFrame([[row[name] for name in COLUMNS] for row in rows], columns=list(COLUMNS), dtype=object)
    tables = []
    for split in data.order("splits"):
        own = [row for row in rows if (row["split"], row["judge"]) == (split, data.asked["primary_judge"])]
        whole = {(row["estimand"], row["parameter"]): row for row in own if row["category"] is None}
        classes = [name for estimand, name in whole if estimand == "battle_share"]
        tables += [_table(f"battles-{split}", split, SHOWN, whole, classes, _NOTES, data)] if classes else []
        if any(estimand in OF_LLM.values() for estimand, _ in whole):
            tables.append(_table(f"battles-llm-{split}", split, OF_LLM, whole, classes, _BIAS, data))
    return frame, tables


def _table(
    name: str,
    split: str,
    columns: Mapping[str, str],
    rows: Mapping[tuple[str, str], BattleEstimate],
    classes: Sequence[str],
    notes: Sequence[str],
    data: TableData,
) -> Table:
    found = {key: row for key, row in rows.items() if key[0] in columns.values()}
    paired = {of: f" ({row['n_prompts']})" for (estimand, of), row in found.items() if estimand == "battle_wins_paired"}
    cells = [
        [clean(of) + paired.get(of, ""), *(_cell(found.get((estimand, of))) for estimand in columns.values())]
        for of in classes
    ]
    sizes = [row for (estimand, _), row in found.items() if estimand == "battle_share"]
    levels = {f"{100 * row['level']:g} %" for row in found.values() if row["level"]}
    said = [
        *(f"{row['n_prompts']} battles on {row['n_clusters']} different prompts or clusters." for row in sizes[:1]),
        f"Intervals ({', '.join(sorted(levels))}): over clusters of prompts, or over pairs of models where that is "
        "wider; the results table names the method of each.",
        *notes,
        *judges_notes([data.asked["primary_judge"]], data.cards, data.labels),
        *flags_notes(row["flags"] for row in found.values()),
    ]
    what = "What a language model makes of refusals" if columns is OF_LLM else "What refusals cost"
    return Table(name, f"{what} in the battles of {data.labels.split(split)}.", ["Class", *columns], cells, said)


def _cell(row: BattleEstimate | None) -> str:
    if row is None or row["value"] is None:
        return rate_text(None)
    ends = (row["low"], row["high"])
    if row["estimand"] == "battle_ratio" or "log_odds" in row["estimand"]:
        return add_marks(value_text(row["value"], ends), row["flags"])
    differs = "penalty" in row["estimand"] or "bias" in row["estimand"]
    return add_marks(points_text(row) if differs else rate_text(row), row["flags"])


class BattlesTable(StudyTable):
    """What refusals cost in battles."""

    name = "battles"
    of_analysis = "battles"
    needs = ("battles", "cards")
    shows = OF_PRIMARY
    report = ("Battles", "What refusals cost in battles")
    make = staticmethod(battles)
