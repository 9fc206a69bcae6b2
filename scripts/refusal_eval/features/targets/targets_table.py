"""The table of published figures: each as its source gives it, and beside it the study's own number."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from refusal_eval.config.report_sections import RATES
from refusal_eval.core.errors import UserError
from refusal_eval.features.targets.target_rows import PERCENT, Target, read_targets
from refusal_eval.features.targets.targets_keys import TargetsKeys
from refusal_eval.report.paper.display import MINUS, NO_DATA, add_marks, clean, order_names
from refusal_eval.report.paper.filled_notes import filled_notes
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import TableData, TableParts
from refusal_eval.report.paper.table_kind import OF_PRIMARY, StudyTable
from refusal_eval.report.paper.table_notes import points_text, rate_text, value_text
from refusal_eval.report.results.dictionary import definition_of, pattern_of
from refusal_eval.report.results.results_files import text_of
from refusal_eval.stats.estimates.estimate import Estimate

if TYPE_CHECKING:
    from refusal_eval.study.study import Study

_UNDER = ("judge", "reading", "parameter")  # what a figure may leave to the study
_NAMES = ("model", "split", "number", "category", *_UNDER)
_OURS = ("value", "low", "high", "n_prompts", "flags")
TargetPlace = tuple[str, str, str, str]  # estimand, model, split, category


class TargetPair(NamedTuple):
    """A published figure with the study's own number, None where the study has none or several."""

    target: Target
    own: Estimate | None
    several: Sequence[str] = ()  # parameters of the numbers of which the file names none


def targets(data: TableData) -> TableParts:
    """Return the published figures in the order of their file, each with this study's number.

    Raises:
        UserError: if the file has mistakes; the study is refused with them before it runs.
    """
    (path,) = data.files["targets"]
    found, wrong = read_targets(Path(path).read_text(encoding="utf-8-sig"))
    if wrong:
        raise UserError(f"{path}:{wrong[0][0]}: {wrong[0][1]}")
    pairs = list(paired(found, data.results, data.asked))
    return _frame(pairs), [_table(pairs, data)]


def paired(found: Iterable[Target], results: Iterable[Estimate], asked: Mapping[str, Any]) -> Iterator[TargetPair]:
    """Yield each published figure with the row of the results table about the same quantity.

    A figure that names no judge is compared under the primary one; without a reading, in the headline reading of its
    split; without a parameter, with the number that has none or, of c(x), the study's tau.

    Args:
        asked: `primary_judge`, `tau`, and `splits` with their headline `reading`.
    """
    rows: dict[TargetPlace, list[Estimate]] = defaultdict(list)
    for row in results:
        if row.pool is None:
            rows[pattern_of(row.estimand), row.model or "", row.split or "", row.category or ""].append(row)
    readings = {split["name"]: split["reading"] for split in asked["splits"]}
    for target in found:
        judge = target.judge or asked["primary_judge"]
        reading = target.reading or readings.get(target.split)
        own = [
            row
            for row in rows[pattern_of(target.number), target.model, target.split, target.category]
            if row.judge in (None, judge)
            and row.reading in (None, reading)
            and (not target.parameter or text_of(row.parameter) == target.parameter)
        ]
        for plain in ("", text_of(asked["tau"])):
            if len(own) > 1:
                own = [row for row in own if text_of(row.parameter) == plain] or own
        several = sorted(text_of(row.parameter) for row in own) if len(own) > 1 else []
        yield TargetPair(target, own[0] if len(own) == 1 else None, several)


def _frame(pairs: Sequence[TargetPair]) -> pd.DataFrame:
    """A row per published figure; `published` and `value` are in the unit of the results table."""
    rows = []
    for target, own, _ in pairs:
        row: dict[str, Any] = {name: getattr(target, name) or None for name in _NAMES}
        row |= {"published": target.plain_value, "unit": _unit(target), **dict.fromkeys(_OURS)}
        row |= {} if own is None else {name: getattr(own, name) for name in (*_UNDER, *_OURS)}
        rows.append(row | {"source": target.source, "note": target.note or None, "line": target.line})
    return pd.DataFrame(rows, dtype=object)


def _unit(target: Target) -> str:
    definition = definition_of(target.number)
    return definition.unit if definition else "share" if target.is_share else target.unit


def _table(pairs: Sequence[TargetPair], data: TableData) -> Table:
    sources = list(dict.fromkeys(clean(pair.target.source) for pair in pairs))
    remarks = list(dict.fromkeys(_remark(pair.target) for pair in pairs if pair.target.note))
    body = []
    for pair in pairs:
        target, own = pair.target, pair.own
        body.append(
            [
                data.labels.model(target.model),
                data.labels.split(target.split) if target.split else NO_DATA,
                _number(target, remarks, data),
                _published(target),
                NO_DATA if own is None else add_marks(_ours(own), own.flags),
                f"[{sources.index(clean(target.source)) + 1}]",
            ]
        )
    judges = {pair.own.judge for pair in pairs if pair.own is not None and pair.own.judge}
    notes = filled_notes(
        "targets/targets",
        data.labels,
        sources=list(enumerate(sources, 1)),
        remarks=[(_letter(i), remark) for i, remark in enumerate(remarks)],
        others=any(not pair.target.is_estimand for pair in pairs),
        absent=order_names({pair.target.model for pair in pairs if pair.own is None} - set(data.order("models")), None),
        several=[pair for pair in pairs if pair.several],
        judges=judges,
        cards=data.cards,
        flags=[pair.own.flags for pair in pairs if pair.own is not None],
    )
    header = ["Model", "Split", "Number", "Published", "Here", "Source"]
    caption = "Published figures, and this study's own numbers with their intervals. Shares in percent."
    return Table("targets", caption, header, body, notes, keys=3, align="lllrrl", marked=frozenset({4}))


def _remark(target: Target) -> str:
    what = "" if target.is_estimand else f"{clean(target.number)}, another quantity: "
    return what + clean(target.note)


def _letter(number: int) -> str:
    """Return a, b, ..., z, aa, ab and so on."""
    return (_letter(number // 26 - 1) if number > 25 else "") + chr(ord("a") + number % 26)


def _number(target: Target, remarks: Sequence[str], data: TableData) -> str:
    """Return a number as readers see it, with what it depends on, and the letter of its note."""
    parts = [target.number.replace("_", " ") if target.is_estimand else clean(target.number)]
    parts += [clean(part) for part in (target.category, target.reading, target.parameter) if part]
    parts += [data.labels.judge(target.judge)] if target.judge else []
    letter = f" ({_letter(remarks.index(_remark(target)))})" if target.note else ""
    return ", ".join(parts) + letter


def _published(target: Target) -> str:
    """Return a figure with the digits of its source; of shares in percent."""
    value = target.value.scaleb(2) if target.is_share and target.unit != PERCENT else target.value
    unit = "" if target.is_share or not target.unit else f" {clean(target.unit)}"
    return f"{value:f}".replace("-", MINUS) + unit


def _ours(own: Estimate) -> str:
    definition = definition_of(own.estimand)
    unit = definition.unit if definition else ""
    if "difference of" in unit and "share" in unit:
        return points_text(own.row())
    return rate_text(own.row()) if "share" in unit else value_text(own.value, (own.low, own.high))


class TargetsTable(StudyTable):
    """Published figures beside the study's own numbers; they are no results, and enter nothing else."""

    name = "targets"
    needs = ("results",)
    shows = (*OF_PRIMARY, "tau")
    report = (RATES, "Published figures")
    make = staticmethod(targets)

    @classmethod
    def wanted(cls, study: Study) -> bool:
        """Tell whether a study names a file of published figures."""
        return TargetsKeys.of(study.settings).targets is not None

    @classmethod
    def own_files(cls, study: Study) -> dict[str, list[str]]:
        """Return the file of published figures, and the cards of all judges, of which a figure may name any."""
        cards = [study.paths.of("cards", judge=judge, gold=gold) for judge in study.judges for gold in study.gold]
        return {"targets": [str(TargetsKeys.of(study.settings).targets)], "cards": cards}
