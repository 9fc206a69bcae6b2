"""The table of all pairs of models of a study: their differences as a matrix."""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from refusal_eval.config.kinds import ANALYSES
from refusal_eval.features.comparisons.comparisons_table import (
    SECTION,
    Comparison,
    both_frames,
    comparisons_in,
    is_of_all_pairs,
    open_mark,
)
from refusal_eval.report.paper.display import APART, NO_DATA, OPEN_MARK, add_marks, order_names, points
from refusal_eval.report.paper.filled_notes import filled_notes
from refusal_eval.report.paper.markup import Table, move_to_notes
from refusal_eval.report.paper.table_data import TableData, TableParts
from refusal_eval.report.paper.table_kind import StudyTable
from refusal_eval.report.paper.table_notes import flags_notes
from refusal_eval.report.results.results_files import estimates_in
from refusal_eval.stats.comparisons.corrections import CORRECTIONS
from refusal_eval.stats.estimates.model_alone import as_user_meets_it, of_model_alone
from refusal_eval.study.comparison_families import Family, Scope, family_of

if TYPE_CHECKING:
    from refusal_eval.study.study import Study


def comparisons_matrix(data: TableData) -> TableParts:
    """Return the differences between all pairs of models, on all splits of an expectation where these are pooled.

    The CSV has a row for each pair, the sides as in comparisons.csv.
    """
    families = [family_of(family) for family in data.asked["families"]]
    rows = estimates_in(data.found("comparisons"))
    of_all = [i for i, family in enumerate(families) if is_of_all_pairs(family)]
    frames, tables = [], []
    for own in filter(None, (as_user_meets_it(rows), of_model_alone(rows))):
        every = comparisons_in(own, families, data)
        shown = [row for row in every if row.family in of_all and row.scope in _scopes(families[row.family])]
        frames.append(_frame(shown, families, CORRECTIONS[data.asked["correction"]].column))
        alone = len(frames) > 1
        tables.append(move_to_notes(_table(shown, [(i, families[i]) for i in of_all], data, alone)))
    return both_frames(*frames) if len(frames) > 1 else frames[0], tables


def _scopes(family: Family) -> list[Scope]:
    """Return the pools of a family, and the splits that are in none."""
    pooled = {split for scope in family.scopes if scope.pool for split in scope.splits}
    return [scope for scope in family.scopes if scope.pool or scope.splits[0] not in pooled]


def _frame(rows: Sequence[Comparison], families: Sequence[Family], corrected: str) -> pd.DataFrame:
    own = [
        {
            **{"family": families[row.family].label, "judge": row.held, "split": row.split, "pool": row.scope.pool},
            **{"first": row.first, "second": row.second, "difference": row.gap.value},
            **{"low": row.gap.low, "high": row.gap.high, corrected: row.corrected.value, "flags": row.gap.flags},
        }
        for row in sorted(rows, key=lambda r: (r.family, r.scope.pool or "", r.split or "", r.held, r.first, r.second))
    ]
    columns = ["family", "judge", "split", "pool", "first", "second", "difference", "low", "high", corrected, "flags"]
    return pd.DataFrame(own, columns=columns, dtype=object)


def _table(rows: Sequence[Comparison], families: Sequence[tuple[int, Family]], data: TableData, alone: bool) -> Table:
    show, alpha = data.labels, 1 - data.asked["level"]
    models = order_names({side for _, family in families for side in family.sides()}, data.order("models"))
    by_names = {(row.family, row.held, row.scope, frozenset((row.first, row.second))): row for row in rows}
    body = []
    for (number, family), numbers in ((own, range(len(models))) for own in families):
        for held, scope, i in itertools.product(family.held, _scopes(family), numbers):
            where = f"all: {scope.pool}" if scope.pool else show.split(scope.splits[0])
            cells = []
            for j in numbers[1:]:
                row = by_names.get((number, held, scope, frozenset((models[i], models[j]))))
                cells.append("" if j <= i else _cell(row, models[i], alpha))
            body.append([family.label, show.judge(held), where, f"({i + 1}) {show.model(models[i])}", *cells])
    header = ["Family", "Judge", "Split", "Model", *(f"({j + 1})" for j in range(1, len(models)))]
    notes = filled_notes(
        "comparisons_matrix/comparisons_matrix",
        show,
        apart=APART,
        alpha=f"{alpha:.3g}",
        correction=CORRECTIONS[data.asked["correction"]],
        families=[(own.label, len(own.held) * len(own.pairs) * len(own.scopes)) for _, own in families],
        pools={row.scope.pool: row.scope.splits for row in rows if row.scope.pool},
        marks=flags_notes(row.gap.flags for row in rows),
        open=any(map(open_mark, rows)),
        open_mark=OPEN_MARK,
        model_alone=alone,
    )
    caption = "Differences of refusal rates between all pairs of models, row minus column, in percentage points"
    caption += ", of the model alone." if alone else "."
    return Table("comparisons-matrix" + "-model-alone" * alone, caption, header, body, notes, 4, headings=3)


def _cell(row: Comparison | None, first: str, alpha: float) -> str:
    """Return the difference of a pair, `first` minus the other, with its marks."""
    if row is None or row.gap.value is None:
        return NO_DATA
    p = row.corrected.value
    sign = open_mark(row) or (APART if p is not None and p <= alpha else "")
    return add_marks(points(row.gap.value if row.first == first else -row.gap.value), row.gap.flags) + sign


class ComparisonsMatrixTable(StudyTable):
    """Differences between all pairs of models, as a matrix."""

    name = "comparisons_matrix"
    of_analysis = "comparisons"
    needs = ("comparisons",)
    shows = ("models", "splits", "judges")
    report = (SECTION, "All pairs of models")
    make = staticmethod(comparisons_matrix)

    @classmethod
    def wanted(cls, study: "Study") -> bool:
        # Through the registry: what plans the families is not behind the table's numbers.
        families = ANALYSES.get(cls.of_analysis)(study).table_params()["families"]
        return any(is_of_all_pairs(family_of(family)) for family in families)
