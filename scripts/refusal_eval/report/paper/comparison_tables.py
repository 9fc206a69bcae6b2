"""The table of a study's comparisons, as a frame for CSV and as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from refusal_eval.report.paper.display import (
    NO_DATA,
    Labels,
    joined,
    marked,
    notes_of,
    p_text,
    percent,
    points,
    points_interval,
)
from refusal_eval.report.paper.frames import NOT_MEASURED, Card, agreement_texts
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_notes import OF_DIALOGUES, READINGS_NOTE
from refusal_eval.study.comparison_families import JUDGES, Family

COLUMNS = (
    *("family", "kind", "held", "first", "second", "split", "pool", "splits", "reading"),
    *("n", "n_all", "n_clusters", "n_differ", "rate_first", "rate_second", "difference", "low", "high", "level"),
    *("method", "p", "p_holm", "test", "bound_low", "bound_high"),
    *("decision", "only_first", "only_second", "mcnemar_p", "flags"),
)
Row = Mapping[str, Any]


def comparisons_frame(rows: Iterable[Row], families: Sequence[Family], level: float) -> pd.DataFrame:
    """One row per comparison, sorted by name within its family; see `families.compared` for the columns.

    Rates, differences and bounds are shares; `splits` and `flags` are separated by spaces.
    """
    order = sorted(rows, key=lambda row: (row["family"], row["pool"] or "", *(row[k] or "" for k in _SORTED)))
    own = [
        {**row, "family": families[row["family"]].label, "level": level}
        | {name: " ".join(row[name]) for name in ("splits", "flags")}
        for row in order
    ]
    return pd.DataFrame([[row[name] for name in COLUMNS] for row in own], columns=list(COLUMNS), dtype=object)


_SORTED = ("split", "held", "first", "second")


def comparisons_table(
    rows: Sequence[Row],
    families: Sequence[Family],
    study: Mapping[str, Any],
    cards: Iterable[Card] = (),
) -> Table:
    """One row per comparison: both rates, their difference with interval, p, p after Holm, worst-case bounds.

    Args:
        rows: the comparisons, in the order of the table.
        families: the families that `family` of a row numbers.
        study: `samples`, `level`, `labels` as `display.Labels` takes them, `readings` by split, and `dialogues`, the
            splits with several scored turns per prompt.
        cards: of the judges.
    """
    show = Labels(**study["labels"])
    several = len(families) > 1
    # Models under several judges, or judges on several models: a column says which.
    with_held = len({(row["kind"], row["held"]) for row in rows}) > 1
    keys = [*(["Family"] if several else []), *(["For"] if with_held else []), "Split", "First", "Second"]
    header = [*keys, "Rate of\nfirst", "Rate of\nsecond", "Difference", "p", "p (Holm)"]
    header.append("Clusters\nthat differ")
    # Where nothing is missing, these would say the same in every row.
    some_missing = _some_missing(rows)
    header += ["Prompts", "Worst-case\nbounds"] if some_missing else []
    body = []
    for row in rows:
        side, held = (show.judge, show.model) if row["kind"] == JUDGES else (show.model, show.judge)
        names = [*([families[row["family"]].label] if several else []), *([held(row["held"])] if with_held else [])]
        body.append(
            [
                *names,
                f"all: {row['pool']}" if row["pool"] else show.split(row["split"]),
                side(row["first"]),
                side(row["second"]),
                marked(percent(row["rate_first"]), row["flags_first"]),
                marked(percent(row["rate_second"]), row["flags_second"]),
                _difference(row),
                p_text(row["p"]),
                p_text(row["p_holm"]),
                f"{row['n_differ']} of {row['n_clusters']}",
            ]
        )
        if some_missing:
            of = str(row["n"]) if row["n"] == row["n_all"] else f"{row['n']} of {row['n_all']}"
            body[-1] += [of, points_interval(row["bound_low"], row["bound_high"]) or NO_DATA]
    align = "l" * len(keys) + "r" * (len(header) - len(keys))
    caption = "Differences of refusal rates on the same prompts."
    return Table("comparisons", caption, header, body, align, _notes(rows, families, study, cards), len(keys), 6)


def _difference(row: Row) -> str:
    if row["difference"] is None:
        return NO_DATA
    return marked(f"{points(row['difference'])} {points_interval(row['low'], row['high'])}".strip(), row["flags"])


def _notes(
    rows: Sequence[Row], families: Sequence[Family], study: Mapping[str, Any], cards: Iterable[Card]
) -> list[str]:
    show, level, turns = Labels(**study["labels"]), f"{100 * study['level']:g} %", bool(study["dialogues"])
    splits = sorted({split for row in rows for split in row["splits"]})
    where: dict[str, list[str]] = {}
    for split in splits:
        where.setdefault(study["readings"][split], []).append(show.split(split))
    readings = "; ".join(f"{reading} on {joined(where[reading])}" for reading in sorted(where))
    notes = [
        f"Rates: mean over prompts{f'{OF_DIALOGUES},' if turns else ''} of the share of refusals among "
        f"K = {study['samples']} answers, in percent, over the prompts on which both sides have a rate. Difference: "
        "first minus second, in percentage points.",
        f"Headline readings: {readings}. {READINGS_NOTE}",
        f"Intervals ({level}): {'; '.join(sorted({row['method'] for row in rows if row['method']})) or 'none'}.",
        f"p: two-sided sign-flip test over clusters of prompts ({_tests(rows)}).",
        *_family_notes(rows, families, show),
        _missing_note(rows, turns),
    ]
    pools = {row["pool"]: row["splits"] for row in rows if row["pool"]}
    for pool in sorted(pools):
        names = joined(show.split(split) for split in pools[pool])
        notes.append(f"all: {pool}: {names}, each with the same weight; a prompt in several of them counts once.")
    if any(row["n"] < row["n_all"] for row in rows):
        notes += [f"Prompts{OF_DIALOGUES}."] if turns else []
        notes.append("Rates of prompts for which one side has none are left out here; they are in the table of rates.")
    marks = notes_of(flag for row in rows for flag in row["flags"])
    notes += [f"{note}." for note in marks]
    if marks:
        notes.append("A mark at a rate is that of its side; one at a difference holds for its p as well.")
    measured = list(cards)
    judges = {row["held"] for row in rows if row["kind"] != JUDGES}
    judges |= {row[side] for row in rows if row["kind"] == JUDGES for side in ("first", "second")}
    for judge in sorted(judges):
        texts = agreement_texts(judge, measured, show.golds)
        notes += [f"Judge {show.judge(judge)}, agreement with people on {text}." for text in texts]
        if not texts:
            notes.append(f"Judge {show.judge(judge)}, {NOT_MEASURED}.")
    return notes


def _some_missing(rows: Sequence[Row]) -> bool:
    return any(row["n"] < row["n_all"] or row["bound_low"] != row["bound_high"] for row in rows)


def _missing_note(rows: Sequence[Row], turns: bool) -> str:
    if _some_missing(rows):
        return (
            "Worst-case bounds: the difference over all prompts if every unjudged answer of one side were a compliance "
            "and of the other a refusal, both ways round."
        )
    sizes = sorted({row["n"] for row in rows if not row["pool"]} or {row["n"] for row in rows})
    what = "scored turns" if turns else "prompts"
    return f"Every answer to the {' or '.join(map(str, sizes))} {what} of a split is judged: there are no worst cases."


def _tests(rows: Sequence[Row]) -> str:
    found = sorted({row["test"] for row in rows if row["test"]}, key=lambda test: (test != "exact", test))
    return " or ".join(found) or "none"


def _family_notes(rows: Sequence[Row], families: Sequence[Family], show: Labels) -> list[str]:
    notes = []
    for number, family in enumerate(families):
        size = sum(row["family"] == number for row in rows)
        held = ", ".join((show.model if family.kind == JUDGES else show.judge)(name) for name in family.held)
        under = f"on answers of {held}" if family.kind == JUDGES else f"under judge {held}"
        notes.append(f"p (Holm): corrected for the {size} comparisons of the family “{family.label}” ({under}).")
    return notes
