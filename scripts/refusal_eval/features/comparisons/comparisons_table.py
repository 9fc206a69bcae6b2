"""The table of a study's comparisons, as a frame for CSV and as text."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from refusal_eval.report.paper.display import EN_DASH, NO_DATA, marked, number, p_text, percent, points_interval
from refusal_eval.report.paper.filled_notes import filled_notes
from refusal_eval.report.paper.markup import Table, noted_once
from refusal_eval.report.paper.table_data import Made, TableData
from refusal_eval.report.paper.table_kind import OF_STUDY, RATES, StudyTable
from refusal_eval.report.paper.table_notes import flags_notes, of_all, points_text
from refusal_eval.stats.comparisons.corrections import CORRECTIONS
from refusal_eval.stats.comparisons.study_comparisons import SIGN_OPEN, is_margin_open
from refusal_eval.study.comparison_families import JUDGES, Family, family_of

COLUMNS = (
    *("family", "kind", "held", "first", "second", "split", "pool", "splits", "reading"),
    *("n", "n_all", "n_clusters", "n_differ", "rate_first", "rate_second", "difference", "low", "high", "level"),
    *("method", "p", "p_holm", "test", "bound_low", "bound_high"),
    *("decision", "only_first", "only_second", "mcnemar_p", "flags"),
    *("effect_flags", "odds_ratio", "odds_ratio_low", "odds_ratio_high", "cohens_h"),
)
# of a study that names a margin
MARGIN_COLUMNS = (
    *("margin", "adjusted_difference", "adjusted_low", "adjusted_high"),
    *("equivalence_p", "noninferior_first_p", "noninferior_second_p"),
)
Row = Mapping[str, Any]
OPEN_MARK = "°"
FEW_PROMPTS = 10  # in a split of a pool, where each of them decides much


def comparisons(data: TableData) -> Made:
    """Return the study's comparisons, family by family."""
    found, families = data.found("comparisons"), [family_of(family) for family in data.asked["families"]]
    margin = data.asked["margin"]
    frame = comparisons_frame(found["comparisons"], families, found["level"], data.asked["correction"], margin)
    return frame, [noted_once(comparisons_table(found, families, data))]


def comparisons_frame(
    rows: Iterable[Row], families: Sequence[Family], level: float, correction: str = "holm", margin: float | None = None
) -> pd.DataFrame:
    """Return a row per comparison, sorted by name within its family; see `study_comparisons.compared` for the columns.

    Rates, differences, bounds and the margin are shares; `splits`, `flags` and `effect_flags` are separated by spaces.
    """
    columns = [CORRECTIONS[correction].column if name == "p_holm" else name for name in COLUMNS]
    columns += [] if margin is None else MARGIN_COLUMNS
    names = ("pool", "split", "held", "first", "second")
    order = sorted(rows, key=lambda row: (row["family"], *(row[name] or "" for name in names)))
    own = [{**row, "family": families[row["family"]].label, "level": level, "margin": margin} for row in order]
    return pd.DataFrame([[row[name] for name in columns] for row in own], columns=columns, dtype=object)


def comparisons_table(found: Mapping[str, Any], families: Sequence[Family], data: TableData) -> Table:
    """Return a row per comparison: both rates, their difference with interval, p, corrected p, effect sizes, bounds.

    Args:
        found: `comparisons` in the order of the table, their `level`, and `dialogues`, the splits with several scored
            turns per prompt.
        families: the families that `family` of a row numbers.
    """
    show, rows, corrected = data.labels, found["comparisons"], CORRECTIONS[data.asked["correction"]]
    several = len(families) > 1
    # Models under several judges, or judges on several models: a column says which.
    with_held = len({(row["kind"], row["held"]) for row in rows}) > 1
    keys = [*(["Family"] if several else []), *(["For"] if with_held else []), "Split", "First", "Second"]
    header = [*keys, "Rate of\nfirst", "Rate of\nsecond", "Difference", "p", corrected.head]
    header += ["Odds ratio", "Cohen's h", "Clusters\nthat differ"]
    margin = data.asked["margin"]
    if margin is not None:
        header += [f"{_wide(found)} %\ninterval", "p (equi-\nvalent)", "p (first\nno worse)", "p (second\nno worse)"]
    # Where nothing is missing, these would say the same in every row.
    some_missing = _some_missing(rows)
    header += ["Prompts", "Worst-case\nbounds"] if some_missing else []
    body = []
    for row in rows:
        side, held = (show.judge, show.model) if row["kind"] == JUDGES else (show.model, show.judge)
        few = set(row["effect_flags"]) - set(row["flags"])  # the marks of the difference hold for its effect sizes, too
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
                *(p_text(row[name]) + _open(row) for name in ("p", corrected.column)),
                marked(_odds(row), few),
                marked(number(row["cohens_h"]), few),
                f"{row['n_differ']} of {row['n_clusters']}",
            ]
        )
        if margin is not None:
            body[-1].append(marked(points_interval(row["adjusted_low"], row["adjusted_high"]) or NO_DATA, few))
            body[-1] += [marked(p_text(row[name]), few) + _beyond(row, margin) for name in MARGIN_COLUMNS[-3:]]
        if some_missing:
            bounds = points_interval(row["bound_low"], row["bound_high"]) or NO_DATA
            body[-1] += [of_all(row["n"], row["n_all"]), bounds]
    caption = "Differences of refusal rates on the same prompts."
    return Table("comparisons", caption, header, body, _notes(found, families, data), len(keys), per_block=6)


def _open(row: Row) -> str:
    """The mark of a p-value beside which unjudged answers could turn the difference around."""
    return OPEN_MARK if SIGN_OPEN in row["flags"] else ""


def _beyond(row: Row, margin: float) -> str:
    """The mark of a test against the margin beside which unjudged answers could bring the difference beyond it."""
    worst = row["bound_low"], row["bound_high"]
    return OPEN_MARK if row["equivalence_p"] is not None and is_margin_open(*worst, margin) else ""


def _odds(row: Row) -> str:
    if row["odds_ratio"] is None:
        return NO_DATA
    values = [row[f"odds_ratio{end}"] for end in ("", "_low", "_high") if row["odds_ratio_low"] or not end]
    texts = [f"<{number(0.01, 2)}" if value < 0.005 else number(value, 2) for value in values]
    return texts[0] + (f" [{texts[1]}{EN_DASH}{texts[2]}]" if len(texts) > 1 else "")


def _wide(found: Mapping[str, Any]) -> str:
    """Level of the interval of tests against a margin, in percent."""
    return f"{100 * (2 * found['level'] - 1):g}"


def _difference(row: Row) -> str:
    if row["difference"] is None:
        return NO_DATA
    return marked(points_text(row, "difference"), row["flags"])


def _notes(found: Mapping[str, Any], families: Sequence[Family], data: TableData) -> list[str]:
    rows, margin = found["comparisons"], data.asked["margin"]
    sizes = {row["split"]: row["n_all"] for row in rows if not row["pool"]}
    judges = {row["held"] for row in rows if row["kind"] != JUDGES}
    judges |= {row[side] for row in rows if row["kind"] == JUDGES for side in ("first", "second")}
    return filled_notes(
        "comparisons/comparisons",
        data.labels,
        rows=rows,
        families=families,
        correction=CORRECTIONS[data.asked["correction"]],
        open_mark=OPEN_MARK,
        level=f"{100 * found['level']:g}",
        alpha=f"{1 - found['level']:.3g}",
        wide=_wide(found),
        margin=None if margin is None else f"{100 * margin:g}",
        samples=data.asked["samples"],
        turns=bool(found["dialogues"]),
        used={split for row in rows for split in row["splits"]},
        readings={split["name"]: split["reading"] for split in data.asked["splits"]},
        methods=sorted({row["method"] for row in rows if row["method"]}),
        tests=sorted({row["test"] for row in rows if row["test"]}, key=lambda test: (test != "exact", test)),
        beyond=margin is not None and any(_beyond(row, margin) for row in rows),
        some_missing=_some_missing(rows),
        left_out=any(row["n"] < row["n_all"] for row in rows),
        sizes=sorted({row["n"] for row in rows if not row["pool"]} or {row["n"] for row in rows}),
        pools=_pools(rows, families),
        few={split: n for split, n in sizes.items() if n < FEW_PROMPTS},
        marks=flags_notes(row["effect_flags"] for row in rows),
        open=any(SIGN_OPEN in row["flags"] for row in rows),
        judges=judges,
        cards=data.cards,
    )


def _pools(rows: Sequence[Row], families: Sequence[Family]) -> list[tuple[str, tuple[str, ...], list[str]]]:
    """Return each pool with its splits, and the families that have it where others pool other splits."""
    found: dict[tuple[str, tuple[str, ...]], set[str]] = {}
    for row in rows:
        if row["pool"]:
            found.setdefault((row["pool"], tuple(row["counted"])), set()).add(families[row["family"]].label)
    names = [pool for pool, _ in found]
    return [(*key, sorted(own) if names.count(key[0]) > 1 else []) for key, own in sorted(found.items())]


def _some_missing(rows: Sequence[Row]) -> bool:
    return any(row["n"] < row["n_all"] or row["bound_low"] != row["bound_high"] for row in rows)


class ComparisonsTable(StudyTable):
    """Differences on the same prompts."""

    name = "comparisons"
    of_analysis = "comparisons"
    needs = ("comparisons", "cards")
    shows = (*OF_STUDY, "samples")
    report = (RATES, "Differences on the same prompts")
    make = staticmethod(comparisons)
