"""The table of who refused: shares of the answers by model and split, out of the analysis."""

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from refusal_eval.config.report_sections import RATES
from refusal_eval.features.who_refused.refusers import DECLARED, REFUSED_BY, REFUSERS, UNFILTERED
from refusal_eval.report.paper.display import NO_DATA, add_marks, by_cell, headline, mark_of, order_names, wrap_text
from refusal_eval.report.paper.filled_notes import filled_notes
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import TableData, TableParts
from refusal_eval.report.paper.table_kind import OF_PRIMARY, StudyTable
from refusal_eval.report.paper.table_notes import rate_text, share_text
from refusal_eval.report.results.cells import of_alone
from refusal_eval.report.results.results_files import estimates_in
from refusal_eval.stats.estimates.estimate import Estimate

_COLUMNS = ("judge", "model", "split", "reading", "estimand", "parameter", "value", "low", "high", "n_prompts")
_WIDTH = 16  # characters of a column's name in a line
RefuserRows = Mapping[tuple[str | None, str | None], Mapping[str, Estimate]]  # of a model and split, by who or estimand


def who_refused(data: TableData) -> TableParts:
    """Return a row per model and split: both refusal rates, and of the first how much is whose, in percent.

    Those who refused nothing anywhere are in the CSV alone, which has all judges.
    """
    every = estimates_in(data.found("who_refused"))
    rows = rows_of(every, data.asked["primary_judge"])
    shown = who_shown(rows)
    met, alone = (
        {(m, s): score for (_, m, s), score in by_cell(of).items()} for of in (data.scores, of_alone(data.scores))
    )
    declared, unfiltered = any(DECLARED in own for own in rows.values()), _unfiltered(rows) > 0
    header = [
        "Model",
        "Split",
        "Refusal rate",
        "Model alone",
        *map(_head, shown),
    ]
    header += ["Declared,\ncalled a refusal"] * declared + ["Unfiltered\nanswers"] * unfiltered
    body: list[list[str]] = []
    about: dict[tuple[int, int], dict[str, str]] = {}
    for model in data.order("models"):
        for split in order_names({str(split) for _, split in rows}, data.order("splits")):
            own = rows[model, split]
            texts = [_rate(of.get((model, split))) for of in (met, alone)]
            texts += [_share(own[who]) for who in shown]
            texts += [_share(own.get(DECLARED))] * declared + [f"{own[UNFILTERED].value or 0:g}"] * unfiltered
            about |= {(len(body), j): {"split": split, "model": model} for j in range(2, len(header))}
            body.append([data.labels.model(model), data.labels.split(split), *texts])
    notes = filled_notes(
        "who_refused/who_refused",
        data.labels,
        scores=data.scores,
        cards=data.cards,
        shown=shown,
        others=[words for who, words in REFUSERS.items() if who not in shown],
        declared=declared,
        unfiltered=unfiltered,
    )
    marked = frozenset(range(2, 4 + len(shown) + declared))
    caption = "Who refused, in percent of the answers, with intervals."
    align = "ll" + "r" * (len(header) - 2)
    table = Table("who-refused", caption, header, body, notes, 2, per_block=5, align=align, marked=marked, about=about)
    return _frame(every), [table]


def rows_of(estimates: Iterable[Estimate], judge: str) -> RefuserRows:
    """Return the rows of a judge by model and split, and in these by who refused, or by estimand."""
    found: dict[tuple[str | None, str | None], dict[str, Estimate]] = {}
    for row in estimates:
        if row.judge == judge:
            name = str(row.parameter) if row.estimand == REFUSED_BY else row.estimand
            found.setdefault((row.model, row.split), {})[name] = row
    return found


def who_shown(rows: RefuserRows) -> list[str]:
    """Return those who refused anything, in their order; the model's text always."""
    return [who for who in REFUSERS if who == "model" or any(own[who].value for own in rows.values())]


def _head(who: str) -> str:
    words = REFUSERS[who]
    return "\n".join(wrap_text(words[0].upper() + words[1:], _WIDTH))


def _unfiltered(rows: RefuserRows) -> float:
    return sum(own[UNFILTERED].value or 0.0 for own in rows.values())


def _rate(score: Mapping[str, object] | None) -> str:
    if score is None:
        return NO_DATA
    part = headline(score)
    return add_marks(share_text(part["rate"], (part["low"], part["high"])), part["flags"])


def _share(row: Estimate | None) -> str:
    if row is None or row.value is None:
        return NO_DATA
    return rate_text(row.row()) + mark_of(row.flags)


def _frame(rows: Sequence[Estimate]) -> pd.DataFrame:
    """A row per judge, model, split and number: who refused, value and interval."""
    found = [[getattr(row, name) for name in (*_COLUMNS, "flags")] for row in rows]
    order = [*REFUSERS, None]
    found.sort(key=lambda row: (*map(str, row[:3]), order.index(row[5]), str(row[4])))
    names = ["who" if name == "parameter" else name for name in (*_COLUMNS, "flags")]
    return pd.DataFrame(found, columns=names, dtype=object)


class WhoRefusedTable(StudyTable):
    """Who refused: the model's text, or who blocked prompt or answer."""

    name = "who_refused"
    of_analysis = "who_refused"
    needs = ("who_refused", "estimates", "cards")
    shows = OF_PRIMARY
    report = (RATES, "Who refused")
    make = staticmethod(who_refused)
