"""The table of a study's comparisons, as a frame for CSV and as text."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from refusal_eval.report.paper.display import MINUS, NO_DATA, OPEN_MARK, add_marks, p_text
from refusal_eval.report.paper.filled_notes import filled_notes
from refusal_eval.report.paper.markup import Table, move_to_notes
from refusal_eval.report.paper.reference import MOST_ROWS, common_model
from refusal_eval.report.paper.table_data import TableData, TableParts
from refusal_eval.report.paper.table_kind import OF_STUDY, StudyTable
from refusal_eval.report.paper.table_notes import flags_notes, points_text
from refusal_eval.report.results.results_files import estimates_in
from refusal_eval.stats.comparisons.corrections import CORRECTIONS, ESTIMANDS
from refusal_eval.stats.comparisons.study_comparisons import (
    NONINFERIORITY,
    OF_DECISION,
    SIGN_FLIPS,
    SIGN_OPEN,
    row_names,
)
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.model_alone import as_user_meets_it, of_model_alone
from refusal_eval.study.comparison_families import JUDGES, MODELS, Family, Scope, family_of

SECTION = "Differences between models"  # in the report
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
FEW_PROMPTS = 10  # in a split of a pool, where each of them decides much
_ROWS_OF_HEADING = 3  # a split with fewer rows than this has a column, not a heading
_OF_CSV = {  # columns that are the value of a row of the results table
    **{"difference": "rate_difference", "rate_first": "rate_difference_first", "rate_second": "rate_difference_second"},
    **{"p": "rate_difference_p", "mcnemar_p": "mcnemar_p", "odds_ratio": "odds_ratio", "cohens_h": "cohens_h"},
    **{"adjusted_difference": "rate_difference_adjusted", "equivalence_p": "rate_difference_equivalence_p"},
    "noninferior_first_p": NONINFERIORITY,
}


@dataclass(frozen=True, eq=False)
class Comparison:
    """One comparison, with its rows of the results table by estimand."""

    family: int  # its number
    kind: str  # what is compared
    held: str
    first: str
    second: str
    scope: Scope
    rows: Mapping[str, Estimate]
    corrected: Estimate  # the p value, or q, corrected over its family
    turned: Estimate | None = None  # the test of the second side being worse by the margin

    def value(self, estimand: str) -> float | None:
        """Return the value of one of its rows; None without the row."""
        row = self.rows.get(estimand)
        return None if row is None else row.value

    def count(self, estimand: str) -> int | None:
        """Return the same of a row that counts."""
        number = self.value(estimand)
        return None if number is None else round(number)

    @property
    def split(self) -> str | None:
        """The split; None for a pool."""
        return None if self.scope.pool else self.scope.splits[0]

    @property
    def no_worse_p(self) -> float | None:
        """The p value of the test that the second side is worse by the margin."""
        return None if self.turned is None else self.turned.value

    @property
    def gap(self) -> Estimate:
        return self.rows["rate_difference"]

    @property
    def bounds(self) -> Estimate:
        return self.rows["rate_bounds"]

    @property
    def effect_flags(self) -> tuple[str, ...]:
        return self.rows["odds_ratio"].flags

    @property
    def test(self) -> str | None:
        """How p was found."""
        method = self.rows["rate_difference_p"].method
        return method and method.removeprefix(SIGN_FLIPS)


def comparisons(data: TableData) -> TableParts:
    """Return the study's comparisons, family by family; then those of the model alone, if the study has them."""
    families = [family_of(family) for family in data.asked["families"]]
    found = data.found("comparisons", "counted", "turns")
    rows = comparisons_in(as_user_meets_it(estimates_in(found)), families, data)
    frame, table = comparisons_frame(rows, families, data), comparisons_table(rows, found, families, data)
    rows_alone = of_model_alone(estimates_in(found))
    if not rows_alone:
        return frame, [move_to_notes(table)]
    alone = comparisons_in(rows_alone, families, data)
    tables = [table, comparisons_table(alone, found, families, data, alone=True)]
    return both_frames(frame, comparisons_frame(alone, families, data)), [move_to_notes(one) for one in tables]


def both_frames(frame: pd.DataFrame, alone: pd.DataFrame) -> pd.DataFrame:
    """Return the rows as a user meets them, then those of the model alone, told apart by `blocked_answers`."""
    parts = {"refusals": frame, "left_out": alone}
    return pd.concat([one.assign(blocked_answers=said) for said, one in parts.items()], ignore_index=True)


def comparisons_in(rows: Iterable[Estimate], families: Sequence[Family], data: TableData) -> list[Comparison]:
    """Return the families' comparisons with their rows, in the order of the families.

    Of the model alone families of judges have none.
    """
    by_names: dict[tuple[object, ...], dict[str, Estimate]] = {}
    adjusted: dict[tuple[object, ...], list[Estimate]] = {}
    wanted = ESTIMANDS[data.asked["correction"]]
    for row in rows:
        names: tuple[object, ...] = (row.judge, row.model, row.split, row.pool, row.parameter)
        if row.estimand == wanted:
            adjusted.setdefault(names, []).append(row)
        else:
            by_names.setdefault(names, {})[row.estimand] = row
    found, splits = [], data.asked["splits"]
    for place, family in enumerate(families):
        for scope, held, (first, second) in itertools.product(family.scopes, family.held, family.pairs):
            names, turned = (
                tuple(row_names(family, scope, held, pair, splits).values())
                for pair in ((first, second), (second, first))
            )
            if family.kind == JUDGES and names not in by_names:
                continue
            other = by_names.get(turned, {}).get(NONINFERIORITY)
            # Of a pair in several families each has a corrected value, in the order of the families.
            corrected = adjusted[names].pop(0)
            found.append(Comparison(place, family.kind, held, first, second, scope, by_names[names], corrected, other))
    return found


def comparisons_frame(rows: Iterable[Comparison], families: Sequence[Family], data: TableData) -> pd.DataFrame:
    """Return a row per comparison, sorted by name within its family.

    Rates, differences, bounds and the margin are shares; `splits`, `flags` and `effect_flags` are separated by spaces.
    """
    corrected, margin = CORRECTIONS[data.asked["correction"]].column, data.asked["margin"]
    columns = [corrected if name == "p_holm" else name for name in COLUMNS]
    columns += [] if margin is None else MARGIN_COLUMNS
    order = sorted(
        rows, key=lambda row: (row.family, row.scope.pool or "", row.split or "", row.held, row.first, row.second)
    )
    own = []
    for row in order:
        adjusted, odds, decision = (
            row.rows.get(name) for name in ("rate_difference_adjusted", "odds_ratio", "mcnemar_p")
        )
        own.append(
            {
                **{column: row.value(estimand) for column, estimand in _OF_CSV.items()},
                **{"family": families[row.family].label, "kind": row.kind, "held": row.held},
                **{"first": row.first, "second": row.second, "split": row.split, "pool": row.scope.pool},
                **{"splits": row.scope.splits, "reading": row.gap.reading, "level": data.asked["level"]},
                **{"n": row.gap.n_prompts, "n_all": row.bounds.n_prompts, "n_clusters": row.gap.n_clusters},
                "n_differ": row.count("rate_difference_clusters"),
                **{"low": row.gap.low, "high": row.gap.high, "method": row.gap.method},
                **{corrected: row.corrected.value, "test": row.test},
                **{"bound_low": row.bounds.low, "bound_high": row.bounds.high},
                "decision": decision and str(decision.method).partition(OF_DECISION)[2],
                **{"only_first": row.count("mcnemar_first"), "only_second": row.count("mcnemar_second")},
                **{"flags": row.gap.flags, "effect_flags": row.effect_flags, "margin": margin},
                **{"odds_ratio_low": odds and odds.low, "odds_ratio_high": odds and odds.high},
                **{"adjusted_low": adjusted and adjusted.low, "adjusted_high": adjusted and adjusted.high},
                "noninferior_second_p": row.no_worse_p,
            }
        )
    return pd.DataFrame([[row[name] for name in columns] for row in own], columns=columns, dtype=object)


def comparisons_table(
    every: Sequence[Comparison],
    found: Mapping[str, Any],
    families: Sequence[Family],
    data: TableData,
    alone: bool = False,
) -> Table:
    """Return a row per comparison that a page shows: its difference with interval, and corrected p.

    Args:
        every: all comparisons, in the order of the table.
        found: `counted`, the splits of each pool that add prompts to it, and `turns`, the splits with several
            scored turns per prompt.
        families: the families that `family` of a row numbers.
        alone: whether they are of the model alone.
    """
    show, corrected = data.labels, CORRECTIONS[data.asked["correction"]]
    reference = reference_of(families, data.order("models"))
    rows = rows_of_page(every, families, reference)
    some = len(rows) < len(every)
    sides = [_sides(row, reference if some else None) for row in rows]
    seconds = {(row.kind, second) for row, (_, second) in zip(rows, sides, strict=True)}
    from_one = len(seconds) == 1 and len(set(sides)) > 1
    # Models under several judges, or judges on several models: the heading says which.
    several, with_held = len(families) > 1, len({(row.kind, row.held) for row in rows}) > 1
    by_split = len(rows) >= _ROWS_OF_HEADING * len({row.scope for row in rows})
    keys = ["Family"] * several + ["For"] * with_held + ["Split", "Model" if from_one else "Difference of"]
    body = []
    for row, (first, second) in zip(rows, sides, strict=True):
        side, held = (show.judge, show.model) if row.kind == JUDGES else (show.model, show.judge)
        names = [families[row.family].label] * several + [held(row.held)] * with_held
        names.append(f"all: {row.scope.pool}" if row.scope.pool else show.split(row.scope.splits[0]))
        names.append(side(first) if from_one else f"{side(first)} {MINUS} {side(second)}")
        gap = row.gap.row() if first == row.first else _turned(row.gap)
        difference = NO_DATA if row.gap.value is None else add_marks(points_text(gap), row.gap.flags)
        body.append([*names, difference, p_text(row.corrected.value) + open_mark(row)])
    caption = "Differences of refusal rates on the same prompts."
    if from_one:
        ((kind, second),) = seconds
        name = show.judge(second) if kind == JUDGES else show.model(second)
        caption = f"Differences of refusal rates from {name} on the same prompts."
    name = "comparisons"
    if alone:
        name, caption = f"{name}-model-alone", f"{caption.removesuffix('.')}, of the model alone."
    notes = _notes(rows, found, families, data, reference if some else None, alone)
    header, headings = [*keys, "Difference", corrected.head], len(keys) - (1 if by_split else 2)
    marked = frozenset({len(keys)})
    return Table(name, caption, header, body, notes, len(keys), headings=headings, marked=marked)


def reference_of(families: Sequence[Family], models: Sequence[str]) -> str | None:
    """Return the model that every pair of a family has, of the first one with such a model; else the study's first."""
    common = (common_model(family.pairs) for family in families if family.kind == MODELS)
    return next(filter(None, common), next(iter(models), None))


def is_of_all_pairs(family: Family) -> bool:
    """Tell whether a family compares three models or more in all pairs, rather than in named ones."""
    sides = len(family.sides())
    return family.kind == MODELS and sides > 2 and len(family.pairs) == sides * (sides - 1) // 2


def are_named(family: Family) -> bool:
    """Tell whether the pairs of a family of models were named one by one: neither all pairs nor all with one model."""
    alone = len(family.pairs) == 1 or not frozenset.intersection(*map(frozenset, family.pairs))
    return family.kind == MODELS and alone and not is_of_all_pairs(family)


def rows_of_page(rows: Sequence[Comparison], families: Sequence[Family], reference: str | None) -> list[Comparison]:
    """Return the comparisons that a page shows.

    If they are too many, those are left out of families of all pairs that lack the reference model, and if that is not
    enough those on a split that is in a pool, but for pairs that are named one by one.
    """
    found = list(rows)
    if len(found) > MOST_ROWS:
        every = {i for i, family in enumerate(families) if is_of_all_pairs(family)}
        found = [row for row in found if row.family not in every or reference in (row.first, row.second)]
    if len(found) > MOST_ROWS:
        pooled = {(row.family, split) for row in found if row.scope.pool for split in row.scope.splits}
        named = {i for i, family in enumerate(families) if are_named(family)}
        found = [r for r in found if r.scope.pool or r.family in named or (r.family, r.split) not in pooled]
    return found


def _sides(row: Comparison, reference: str | None) -> tuple[str, str]:
    """Return the two sides, the reference model behind the other one."""
    return (row.second, row.first) if row.kind == MODELS and row.first == reference else (row.first, row.second)


def _turned(gap: Estimate) -> dict[str, float | None]:
    """Return a difference as second minus first."""
    value, low, high = (None if end is None else -end for end in (gap.value, gap.high, gap.low))
    return {"value": value, "low": low, "high": high}


def open_mark(row: Comparison) -> str:
    """Return the mark for a p value whose difference unjudged answers could reverse."""
    return OPEN_MARK if SIGN_OPEN in row.gap.flags else ""


def _notes(
    rows: Sequence[Comparison],
    found: Mapping[str, Any],
    families: Sequence[Family],
    data: TableData,
    reference: str | None,
    model_alone: bool,
) -> list[str]:
    level = data.asked["level"]
    alone = [row for row in rows if not row.scope.pool]
    sizes = {row.scope.splits[0]: row.bounds.n_prompts or 0 for row in alone}
    judges = {row.held for row in rows if row.kind != JUDGES}
    judges |= {side for row in rows if row.kind == JUDGES for side in (row.first, row.second)}
    return filled_notes(
        "comparisons/comparisons",
        data.labels,
        rows=rows,
        model_alone=model_alone,
        families=[
            (family, len(family.held) * len(family.pairs) * len(family.scopes))
            for family in families
            if not model_alone or family.kind == MODELS
        ],
        several=len(families) > 1,
        reference=reference,
        correction=CORRECTIONS[data.asked["correction"]],
        open_mark=OPEN_MARK,
        level=f"{100 * level:g}",
        samples=data.asked["samples"],
        turns=bool(found["turns"]),
        used={split for row in rows for split in row.scope.splits},
        readings={split["name"]: split["reading"] for split in data.asked["splits"]},
        methods=sorted({row.gap.method for row in rows if row.gap.method}),
        tests=sorted({row.test for row in rows if row.test}, key=lambda test: (test != "exact", test)),
        left_out=any((row.gap.n_prompts or 0) < (row.bounds.n_prompts or 0) for row in rows),
        pools=_pools(rows, found["counted"], families),
        few={split: n for split, n in sizes.items() if n < FEW_PROMPTS},
        marks=flags_notes(row.gap.flags for row in rows),
        open=any(SIGN_OPEN in row.gap.flags for row in rows),
        judges=judges,
        cards=data.cards,
    )


def _pools(
    rows: Sequence[Comparison], counted: Mapping[str, Sequence[str]], families: Sequence[Family]
) -> list[tuple[str, tuple[str, ...], list[str]]]:
    """Return each pool with its splits, and its families if other families pool other splits."""
    found: dict[tuple[str, tuple[str, ...]], set[str]] = {}
    for row in rows:
        if row.scope.pool:
            key = (row.scope.pool, tuple(counted[row.scope.name]))
            found.setdefault(key, set()).add(families[row.family].label)
    names = [pool for pool, _ in found]
    return [(*key, sorted(own) if names.count(key[0]) > 1 else []) for key, own in sorted(found.items())]


class ComparisonsTable(StudyTable):
    """Differences on the same prompts."""

    name = "comparisons"
    of_analysis = "comparisons"
    needs = ("comparisons", "cards")
    shows = (*OF_STUDY, "samples", "margin")
    report = (SECTION, "Differences on shared prompts")
    make = staticmethod(comparisons)
