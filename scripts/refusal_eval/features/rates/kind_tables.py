"""The table of judges with a label set of their own, out of the results table."""

from typing import TYPE_CHECKING

import pandas as pd

from refusal_eval.config.report_sections import RATES
from refusal_eval.features.rates.rate_tables import HEADER_WIDTH, of_cell
from refusal_eval.report.paper.display import clean, mark_of, order_names, wrap_text
from refusal_eval.report.paper.filled_notes import filled_notes
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import TableData, TableParts
from refusal_eval.report.paper.table_kind import OF_STUDY, StudyTable
from refusal_eval.report.paper.table_notes import flags_notes, judged_notes, share_text
from refusal_eval.stats.estimates.estimate import Estimate

if TYPE_CHECKING:
    from refusal_eval.study.study import Study

_NAMES = {
    "compliance_quality": "Quality of the help",
    "compliance_rate": "Compliance rate",
    "useful_safety_rate": "Useful safety rate",
}
_COLUMNS = ("judge", "model", "split", "estimand", "reading", "samples", "n_prompts", "n_clusters")


def kinds(data: TableData) -> TableParts:
    """Return a row per judge, split and kind of answer, a column per model: shares in percent with intervals.

    Below the kinds follow the numbers from a judge's own label set: quality, compliance and useful safety rate.
    """
    show = data.labels
    rows = [e for e in data.estimates if e.estimand in ("kind_share", *_NAMES)]
    judges, splits, models = (
        order_names((str(getattr(row, noun)) for row in rows), data.order(f"{noun}s"))
        for noun in ("judge", "split", "model")
    )
    cells = {(str(row.judge), str(row.split), _name(row), row.model): row for row in rows}
    names = list(dict.fromkeys(cell[:3] for cell in cells))  # kinds in the order of the judge's entry
    names.sort(key=lambda name: (judges.index(name[0]), splits.index(name[1])))
    body = [
        [show.judge(judge), show.split(split), name, *(_share(cells.get((judge, split, name, m))) for m in models)]
        for judge, split, name in names
    ]
    scores = [score for score in data.scores if score["judge"] in judges]
    common = judged_notes(scores, data.cards, show)
    found = {row.estimand for row in rows}
    notes = filled_notes(
        "kinds/kinds",
        show,
        scores=scores,
        methods="; ".join(sorted({row.method for row in rows if row.method})),
        judges=judges,
        cards=data.cards,
        rated="compliance_quality" in found,
        safe="compliance_rate" in found,
        own=[note for note in flags_notes(row.flags for row in rows) if note not in common],
    )
    header = ["Judge", "Split", "Answers", *("\n".join(wrap_text(show.model(m), HEADER_WIDTH)) for m in models)]
    caption, align = "Kinds of answers, in percent with intervals.", "lll" + "r" * len(models)
    about = {
        (i, j): of_cell(model, split, judge=judge)
        for i, (judge, split, _) in enumerate(names)
        for j, model in enumerate(models, 3)
    }
    return _frame(rows), [Table("kinds", caption, header, body, notes, keys=3, per_block=4, align=align, about=about)]


def _name(row: Estimate) -> str:
    """What a row is called: the kind, or the number made of the kinds."""
    if row.estimand == "kind_share":
        return clean(str(row.parameter)).replace("_", " ")
    return _NAMES[row.estimand] + (f", {row.reading}" if row.reading else "")


def _share(row: Estimate | None) -> str:
    if row is None or row.value is None:
        return share_text(None, None)
    return share_text(row.value, (row.low, row.high)) + mark_of(row.flags)


def _frame(rows: list[Estimate]) -> pd.DataFrame:
    """A row per judge, model, split and number: its kind, value and interval."""
    found = [
        {name: getattr(row, name) for name in _COLUMNS}
        | {"kind": row.parameter, "value": row.value, "low": row.low, "high": row.high, "flags": row.flags}
        for row in sorted(rows, key=lambda row: (str(row.judge), str(row.model), str(row.split)))
    ]
    return pd.DataFrame(found, columns=[*_COLUMNS, "kind", "value", "low", "high", "flags"], dtype=object)


class KindsTable(StudyTable):
    """Kinds of answers, for judges that name some."""

    name = "kinds"
    needs = ("estimates", "cards")
    shows = OF_STUDY
    report = (RATES, "Kinds of answers")
    make = staticmethod(kinds)

    @classmethod
    def wanted(cls, study: "Study") -> bool:
        return any(judge.named_kinds(study.view) for judge in study.judges.values())
