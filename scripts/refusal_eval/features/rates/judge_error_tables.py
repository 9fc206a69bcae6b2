"""The tables of how far errors of the judge would move rates, and the differences that the study tests."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from refusal_eval.config.report_sections import JUDGES
from refusal_eval.features.rates.judge_errors import Errors, judge_errors
from refusal_eval.features.rates.rate_tables import of_cell
from refusal_eval.report.paper.best_values import SUBTRACTED
from refusal_eval.report.paper.display import (
    MINUS,
    NO_DATA,
    Score,
    add_marks,
    by_cell,
    flags_in,
    headline,
    mark_of,
    marks_of,
    order_names,
    percent,
    points,
)
from refusal_eval.report.paper.filled_notes import filled_notes
from refusal_eval.report.paper.markup import Table, move_to_notes
from refusal_eval.report.paper.reference import pairs_shown, reference_model
from refusal_eval.report.paper.table_data import TableData, TableParts
from refusal_eval.report.paper.table_kind import OF_PRIMARY, StudyTable
from refusal_eval.report.paper.table_notes import rate_text
from refusal_eval.report.results.cells import state_shares
from refusal_eval.report.results.results_files import estimates_in
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.flags import derived_flags

if TYPE_CHECKING:
    from refusal_eval.study.study import Study

UNLIKE = 0.005  # tolerated deviation of a difference on shared prompts from that of the two rates it is compared with
WAYS = ("misses", "overcalls")
SHARED = ("rate_difference_first", "rate_difference_second")  # the rates on the prompts that a difference is over
CellScores = Mapping[tuple[str, str], Score]  # by model and split


def errors_of_rates(data: TableData) -> TableParts:
    """Return what errors of the primary judge would do to each of its rates.

    Its CSV has a row for each rate and each error; rates, errors and shifts are shares.
    """
    cells, models, splits = _cells(data)
    places = [(model, split) for model in models for split in splits if (model, split) in cells]
    places = [place for place in places if headline(cells[place])["rate"] is not None]
    found = [row for row in data.results if row.value is not None]
    errors = judge_errors(data)
    frame = pd.DataFrame(
        [_rate_row(cells[place], error) for place in sorted(places) for error in errors],
        columns=["judge", "model", "split", "reading", "rate", *_OF_ERRORS, *(f"shift_{way}" for way in WAYS), "flags"],
        dtype=object,
    )
    return frame, [_rates_table(data, cells, places, found, errors)]


def errors_of_differences(data: TableData) -> TableParts:
    """Return what errors of the primary judge on one model would do to each difference that the study tests.

    Its CSV has a row for each difference and each error, with shares.
    """
    cells, models, _ = _cells(data)
    tested = [row for row in data.results if row.value is not None and _is_tested(row, data, cells)]
    errors = judge_errors(data)
    moved = _moved(data, cells, tested, errors)
    rows = sorted(moved, key=lambda one: (str(one.row.split), str(one.row.model), _other(one.row)))
    frame = pd.DataFrame(
        [_difference_row(one, error, by) for one in rows for error, by in zip(errors, one.by, strict=True)],
        columns=[
            *("judge", "split", "first", "second", "difference", *_OF_ERRORS, "moved_by"),
            *("explained_by_missing", "explained_by_overcalling", "flags"),
        ],
        dtype=object,
    )
    pairs = [(str(one.row.model), _other(one.row)) for one in moved]
    kept = [one for one, shown in zip(moved, pairs_shown(pairs, models), strict=True) if shown]
    reference = reference_model(pairs, models) if len(kept) < len(moved) else None
    return frame, [_differences_table(data, kept, errors, reference)]


_OF_ERRORS = ("gold", "seen_gold", *WAYS)


def _of_errors(error: Errors, reading: str) -> dict[str, Any]:
    shares = dict(zip(WAYS, (error.miss_rate(reading), error.overcall_rate(reading)), strict=True))
    return {"gold": error.gold or "assumed", "seen_gold": error.seen, **shares}


def _rate_row(cell: Score, error: Errors) -> dict[str, Any]:
    rate, reading = headline(cell)["rate"], cell["headline"]
    shifts = error.shifts(rate, _blocked_share(cell), reading)
    row = {name: cell[name] for name in ("judge", "model", "split", "flags")} | {"reading": reading, "rate": rate}
    return row | _of_errors(error, reading) | {f"shift_{way}": by for way, by in zip(WAYS, shifts, strict=True)}


def _difference_row(one: "_Moved", error: Errors, by: float | None) -> dict[str, Any]:
    row = {"judge": one.row.judge, "split": one.row.split, "first": one.row.model, "second": _other(one.row)}
    row |= {"difference": one.row.value, "moved_by": by, "flags": list(one.flags)} | _of_errors(error, one.reading)
    return row | {"explained_by_missing": one.explained[0], "explained_by_overcalling": one.explained[1]}


def _cells(data: TableData) -> tuple[dict[tuple[str, str], Score], list[str], list[str]]:
    """Return the cells by model and split, and the models and splits in the order of the study."""
    cells = {(m, s): score for (_, m, s), score in by_cell(data.scores).items()}
    models, splits = (order_names({c[i] for c in cells}, data.order(n)) for i, n in enumerate(("models", "splits")))
    return cells, models, splits


def _rates_table(
    data: TableData,
    cells: CellScores,
    places: Sequence[tuple[str, str]],
    found: Sequence[Estimate],
    errors: Sequence[Errors],
) -> Table:
    show, judge = data.labels, data.asked["primary_judge"]
    own = {(row.model, row.split): row for row in found if row.estimand == "refusal_rate_ppi" and row.judge == judge}
    spread = {place: _by_judge(cells[place], place, found) for place in places}
    several = any(len(rates) > 1 for rates in spread.values())
    header = ["Model", "Split", "Rate", *(["Corrected"] if own else []), *(["All judges"] if several else [])]
    groups = [[error for error in errors if (error.assumed is None) == wanted] for wanted in (True, False)]
    header += [_column(way, error) for own in groups for way in WAYS for error in own]
    rows = []
    for place in places:
        rate, blocked = headline(cells[place])["rate"], _blocked_share(cells[place])
        row = [show.model(place[0]), show.split(place[1]), percent(rate) + marks_of([cells[place]])]
        if own:
            row.append(add_marks(rate_text(own[place].row()), own[place].flags) if place in own else NO_DATA)
        if several:
            rates = [one.value or 0.0 for one in spread[place]]
            text = f"{percent(min(rates))} to {percent(max(rates))}" if rates else NO_DATA
            row.append(add_marks(text, derived_flags(one.flags for one in spread[place])))
        shifts = {error.name: error.shifts(rate, blocked, cells[place]["headline"]) for error in errors}
        moved = [shifts[error.name][way] for own in groups for way in range(len(WAYS)) for error in own]
        rows.append([*row, *(points(by) + marks_of([cells[place]]) if by is not None else NO_DATA for by in moved)])
    marks = [cells[place]["flags"] for place in places] + [own[place].flags for place in places if place in own]
    marks += [derived_flags(one.flags for one in spread[place]) for place in places if several]
    shown = [cells[place] for place in places]
    readings = sorted({score["headline"] for score in shown})
    about = {"corrected": own, "several": several, "marks": marks, "measured": _measured_texts(errors, readings)}
    notes = filled_notes("judge_errors/judge_errors", show, judge=judge, scores=shown, **about)
    title = "How far errors of the judge would move each rate, in percentage points."
    linked = {(i, 2): of_cell(*place) for i, place in enumerate(places)}
    return Table(f"judge-errors-{judge}", title, header, rows, notes, keys=2, about=linked)


def _column(way: str, error: Errors) -> str:
    # A measured error is short enough for one line.
    return f"{way}\n{error.name}" if error.assumed is not None else f"{way} {error.name}"


def _measured_texts(errors: Sequence[Errors], readings: Sequence[str]) -> list[str]:
    """Return how often the judge errs on each gold set that people labelled, in these readings."""
    texts = []
    for error in (one for one in errors if one.measured is not None):
        each = [
            f"misses {percent(error.miss_rate(reading))} % of people's refusals and overcalls "
            f"{percent(error.overcall_rate(reading))} % of their other answers ({reading})"
            for reading in readings
            if (error.miss_rate(reading), error.overcall_rate(reading)) != (None, None)
        ]
        seen = " The judge was chosen or fitted on this gold, so these errors are too small." if error.seen else ""
        texts.append(f"{error.name.removeprefix('as on')}: the judge {'; '.join(each)}.{seen}".strip())
    return texts


@dataclass(frozen=True)
class _Moved:
    """What errors of the judge on one model would do to a difference."""

    row: Estimate
    reading: str
    by: Sequence[float | None]  # for each of the errors, the most
    explained: tuple[float | None, float | None]  # the share missed, or overcalled, that would explain it
    flags: tuple[str, ...]


def _moved(data: TableData, cells: CellScores, tested: Iterable[Estimate], errors: Sequence[Errors]) -> list[_Moved]:
    found, shared = [], {estimand: _by_pair(data, estimand) for estimand in SHARED}
    for row in tested:
        pair = _sides(row, cells)
        own = [headline(cell)["rate"] for cell in pair]
        known = [rates.get((row.model, row.parameter, row.split)) for rates in shared.values()]
        rates = own if None in known else known
        sides = sorted(zip(rates, map(_blocked_share, pair), strict=True))
        gap, (low, low_blocked), (high, high_blocked) = abs(row.value or 0.0), *sides
        moved = [_most_moved(error, sides, pair[0]["headline"]) for error in errors]
        wholes = high - low_blocked, 1 - low if high_blocked <= low else 0.0  # blocked answers refuse for certain
        alike = rates if not any(blocked for _, blocked in sides) else own  # what was blocked is known of all prompts
        if abs(max(alike) - min(alike) - gap) > UNLIKE:
            wholes, moved = (0.0, 0.0), [None] * len(errors)
        missing, overcalling = (gap / whole if whole > 0 else None for whole in wholes)
        flags = tuple(dict.fromkeys((*row.flags, *sorted(flags_in(pair)))))
        found.append(_Moved(row, pair[0]["headline"], moved, (missing, overcalling), flags))
    return found


def _differences_table(
    data: TableData, moved: Sequence[_Moved], errors: Sequence[Errors], reference: str | None
) -> Table:
    show, judge = data.labels, data.asked["primary_judge"]
    header = ["Split", "Difference of", "Difference"]
    header += [_column("errors of" if error.assumed else "errors", error) for error in errors]
    header += ["Explained by\nmissing", "Explained by\novercalling"]
    rows = []
    for one in moved:
        row, marks = one.row, mark_of(one.flags)
        pair = f"{show.model(str(row.model))} {MINUS} {show.model(_other(row))}"
        rows.append(
            [
                *(show.split(str(row.split)), pair, add_marks(points(row.value), row.flags)),
                *(NO_DATA if by is None else f"±{percent(by)}{marks}" for by in one.by),
                *(NO_DATA if share is None else f"{percent(share)}{marks}" for share in one.explained),
            ]
        )
    about = {"marks": [one.flags for one in moved], "measured": errors[0].measured is not None}
    about |= {"reference": reference}
    notes = filled_notes(
        "judge_errors_differences/judge_errors_differences", show, judge=judge, samples=_samples(data), **about
    )
    title = "How far errors of the judge on one model would move each difference."
    return move_to_notes(Table(f"judge-errors-differences-{judge}", title, header, rows, notes, keys=2))


def _samples(data: TableData) -> str:
    return " or ".join(str(k) for k in sorted({score["samples"] for score in data.scores}))


def _by_pair(data: TableData, estimand: str) -> dict[tuple[object, ...], float]:
    """Return one number of each comparison of models under the primary judge, by model, parameter and split."""
    # With all their digits: what is made of ten of them may round the other way.
    rows = estimates_in(data.found("comparisons")) if data.files.get("comparisons") else []
    return {
        (row.model, row.parameter, row.split): row.value
        for row in rows
        if row.estimand == estimand and row.judge == data.asked["primary_judge"] and row.value is not None
    }


def _most_moved(error: Errors, sides: Iterable[tuple[float, float]], reading: str) -> float | None:
    """Return the most that errors on one side alone would move a difference; None where a rate at them is not known."""
    shifts = [shift for rate, blocked in sides for shift in error.shifts(rate, blocked, reading)]
    return None if None in shifts else max(abs(shift) for shift in shifts if shift is not None)


def _is_tested(row: Estimate, data: TableData, cells: CellScores) -> bool:
    """Whether this is a difference between two models that the table shows."""
    sides = [(str(model), str(row.split)) for model in (row.model, _other(row))]
    own = row.estimand == "rate_difference" and row.judge == data.asked["primary_judge"]
    return own and all(side in cells and headline(cells[side])["rate"] is not None for side in sides)


def _sides(row: Estimate, cells: CellScores) -> list[Score]:
    """Return the two cells compared."""
    return [cells[str(model), str(row.split)] for model in (row.model, _other(row))]


def _other(row: Estimate) -> str:
    """Return the model subtracted (for a comparison of judges, not a model's name)."""
    return str(row.parameter).removeprefix(SUBTRACTED)


def _by_judge(score: Score, place: tuple[str, str], found: Iterable[Estimate]) -> list[Estimate]:
    """Return the rates of all judges in the headline reading."""
    return [
        row
        for row in found
        if row.estimand == "refusal_rate" and (row.model, row.split) == place and row.category is None
        if row.reading == score["headline"]
    ]


def _blocked_share(score: Score) -> float:
    return float(state_shares(score)["blocked"] or 0.0)


class JudgeErrorsTable(StudyTable):
    """How far errors of the judge would move each rate."""

    name = "judge_errors"
    needs = ("estimates", "results")
    shows = OF_PRIMARY
    report = (JUDGES, "Rates at errors of the judge")
    make = staticmethod(errors_of_rates)


class JudgeErrorsDifferencesTable(StudyTable):
    """How far errors of the judge would move each difference between two models."""

    name = "judge_errors_differences"
    needs = ("estimates", "results", "comparisons")
    shows = OF_PRIMARY
    report = (JUDGES, "Differences at errors of the judge")
    make = staticmethod(errors_of_differences)

    @classmethod
    def wanted(cls, study: "Study") -> bool:
        return "comparisons" in study.analyses and len(study.models) > 1
