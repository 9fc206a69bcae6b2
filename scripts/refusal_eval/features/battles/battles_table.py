"""What refusals cost in battles, as a frame for CSV and as tables for a paper."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from refusal_eval.features.battles.class_names import by_label, in_words, is_kind
from refusal_eval.report.paper.display import add_marks
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import TableData, TableParts
from refusal_eval.report.paper.table_kind import OF_STUDY, StudyTable
from refusal_eval.report.paper.table_notes import (
    flags_notes,
    judges_notes,
    kinds_agreement,
    points_text,
    rate_text,
    value_text,
)

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
MODERATED = {
    "Twice the\nlength": "battle_log_odds_by_length",
    "Closer to\nthe question": "battle_log_odds_by_prompt",
    "Answers\nmore alike": "battle_log_odds_by_answer",
    "Sensitive\nquestion": "battle_log_odds_by_sensitivity",
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
_MODERATED = (
    "Change of the log-odds of being preferred, in one logistic regression at equal models. Of compliance (among "
    "kinds, of the most frequent one that complies) it is the effect of the column; of other classes, how much larger "
    "it is for them: below 0, the column adds to their cost.",
    "Closer, more alike: by 0.1 of the cosine of their words (TF-IDF); how the paper measured closeness is not known.",
)
_NOT_SENSITIVE = (
    "Which questions are sensitive is not known: neither a column (battles.sensitive) nor a judge that flags harmful "
    "prompts says so."
)


def battles(data: TableData) -> TableParts:
    """Return win rates by class of answer, penalties, what moderates them, and moderation bias: for each split those of
    judges that name kinds of answers, and of the primary judge.
    """
    rows: list[BattleEstimate] = data.found("battles")["estimates"]
    frame = pd.DataFrame([[row[name] for name in COLUMNS] for row in rows], columns=list(COLUMNS), dtype=object)
    primary = data.asked["primary_judge"]
    tables: list[Table] = []
    for split in data.order("splits"):
        for judge in data.asked["classed_by"]:
            own = [row for row in rows if (row["split"], row["judge"]) == (split, judge) and row["category"] is None]
            if judge == primary or any(is_kind(row["parameter"]) for row in own):
                tables += _tables(split, judge, {(row["estimand"], row["parameter"]): row for row in own}, data)
    return frame, tables


def _tables(split: str, judge: str, rows: Mapping[tuple[str, str], BattleEstimate], data: TableData) -> Iterator[Table]:
    """Yield the tables of a split by one judge's classes."""
    classes = by_label(name for estimand, name in rows if estimand == "battle_share")
    asked = {estimand for estimand, _ in rows}
    known = {estimand for (estimand, _), row in rows.items() if row["value"] is not None}
    primary = judge == data.asked["primary_judge"]
    name = split if primary else f"{split}-{judge}"
    where = f"in the battles of {data.labels.split(split)}"
    where += "." if len(data.asked["classed_by"]) == 1 else f"; answers classed by {data.labels.judge(judge)}."
    about = (judge, rows, classes, data)
    if classes:
        yield _table(f"battles-{name}", f"What refusals cost {where}", SHOWN, _NOTES, *about)
    moderated = {head: estimand for head, estimand in MODERATED.items() if estimand in asked}
    if known & set(moderated.values()):
        notes = _MODERATED if len(moderated) == len(MODERATED) else (*_MODERATED, _NOT_SENSITIVE)
        yield _table(f"battles-moderators-{name}", f"What moderates this cost {where}", moderated, notes, *about)
    if asked & set(OF_LLM.values()):
        title = f"What a language model makes of refusals {where}"
        yield _table(f"battles-llm-{name}", title, OF_LLM, _BIAS, *about)


def _table(
    name: str,
    title: str,
    columns: Mapping[str, str],
    notes: Sequence[str],
    judge: str,
    rows: Mapping[tuple[str, str], BattleEstimate],
    classes: Sequence[str],
    data: TableData,
) -> Table:
    found, kinds = {key: row for key, row in rows.items() if key[0] in columns.values()}, any(map(is_kind, classes))
    paired = {of: f" ({row['n_prompts']})" for (estimand, of), row in found.items() if estimand == "battle_wins_paired"}
    cells = [
        [in_words(of) + paired.get(of, ""), *(_cell(found.get((estimand, of))) for estimand in columns.values())]
        for of in classes
    ]
    sizes = [row for (estimand, _), row in found.items() if estimand == "battle_share"]
    levels = {f"{100 * row['level']:g} %" for row in found.values() if row["level"]}
    said = [
        *(f"{row['n_prompts']} battles on {row['n_clusters']} different prompts or clusters." for row in sizes[:1]),
        f"Intervals ({', '.join(sorted(levels))}): over clusters of prompts, or over pairs of models where that is "
        "wider; the results table names the method of each.",
        *notes,
        *judges_notes([judge], data.cards, data.labels),
        *(
            f"Kinds of answers: {text}."
            for text in (kinds_agreement(judge, data.cards, data.labels.golds) if kinds else ())
        ),
        *flags_notes(row["flags"] for row in found.values()),
    ]
    return Table(name, title, ["Class", *columns], cells, said)


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
    shows = OF_STUDY
    report = ("Battles", "What refusals cost in battles")
    make = staticmethod(battles)
