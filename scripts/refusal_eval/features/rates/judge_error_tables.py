"""How far errors of the judge would move rates and differences, below the table of refusal rates.

A judge that misses a share d of the refusals reads p (1 - d) where the rate is p, and one that calls a share d of the
compliances refusals reads p + (1 - p) d (Rogan & Gladen 1978, American Journal of Epidemiology 107:71, with one error
at a time). Answers that a provider blocked are refusals whatever a judge says.

First come the errors that people's labels on the study's gold measured for the judge, as the results table has them,
then assumed ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from refusal_eval.report.paper.best_values import SUBTRACTED
from refusal_eval.report.paper.display import (
    NO_DATA,
    Score,
    add_marks,
    flags_in,
    headline,
    mark_of,
    marks_of,
    order_names,
    percent,
    points,
)
from refusal_eval.report.paper.filled_notes import filled_notes
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import TableData
from refusal_eval.report.paper.table_notes import rate_text
from refusal_eval.report.results.cells import state_shares
from refusal_eval.report.results.results_files import estimates_in
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.flags import derived_flags

ASSUMED, UNMEASURED = (0.1,), (0.1, 0.3)  # of a judge that gold measured, and of one that none did
NOT_PEOPLES, SEEN = {"written_to_label", "model_labels"}, "seen_gold"
UNLIKE = 0.005  # tolerated deviation of a difference on shared prompts from that of the two rates it is compared with
WAYS = ("misses", "overcalls")
SHARED = ("rate_difference_first", "rate_difference_second")  # the rates on the prompts that a difference is over
CellScores = Mapping[tuple[str, str], Score]  # by model and split


@dataclass(frozen=True)
class Errors:
    """How often a judge errs: the share of refusals that it misses, and of compliances that it calls refusals."""

    name: str
    assumed: float | None = None
    measured: Mapping[tuple[str, str], float] | None = None  # 1 - sensitivity and 1 - specificity, by reading
    seen: bool = False  # whether the judge was chosen or fitted on the answers that measured them

    def miss_rate(self, reading: str) -> float | None:
        """Return the share of refusals it misses."""
        return self._share("judge_sensitivity", reading)

    def overcall_rate(self, reading: str) -> float | None:
        """Return the share of compliances it calls refusals."""
        return self._share("judge_specificity", reading)

    def shifts(self, rate: float, blocked: float, reading: str) -> tuple[float | None, float | None]:
        """Return by how much each error alone would move a rate; None if no rate is left to show it."""
        missed, overcalled = self.miss_rate(reading), self.overcall_rate(reading)
        return (
            None if missed is None or missed >= 1 else missing(rate, missed, blocked),
            None if overcalled is None or overcalled >= 1 else overcalling(rate, overcalled, blocked),
        )

    def _share(self, estimand: str, reading: str) -> float | None:
        return self.assumed if self.measured is None else self.measured.get((estimand, reading))


def judge_errors(data: TableData) -> list[Errors]:
    """Return the errors that people measured for the primary judge, by gold set, and then assumed ones."""
    found: dict[str, dict[tuple[str, str], float]] = {}
    seen = set()
    for row in data.results:
        own = row.judge == data.asked["primary_judge"] and row.category is None and not NOT_PEOPLES & {*row.flags}
        if own and row.estimand in ("judge_sensitivity", "judge_specificity") and row.value is not None:
            found.setdefault(str(row.parameter), {})[row.estimand, str(row.reading)] = 1 - row.value
            seen |= {str(row.parameter)} if SEEN in row.flags else set()
    measured = [
        Errors(f"as on\n{data.labels.gold(gold)}", measured=found[gold], seen=gold in seen)
        for gold in order_names(found, data.order("gold"))
    ]
    assumed = [Errors(f"{percent(error, 0)} %", error) for error in (ASSUMED if measured else UNMEASURED)]
    return [*measured, *assumed]


def missing(rate: float, error: float, blocked: float = 0.0) -> float:
    """Return how far the true rate lies above the measured one if the judge misses this share of refusals."""
    return min(1.0, blocked + (rate - blocked) / (1 - error)) - rate


def overcalling(rate: float, error: float, blocked: float = 0.0) -> float:
    """Return how far (0 or less) it lies below if the judge calls this share of compliances refusals."""
    return max(blocked, (rate - error) / (1 - error)) - rate


def judge_error_tables(data: TableData, cells: CellScores, models: Sequence[str], splits: Sequence[str]) -> list[Table]:
    """Return what errors of the judge would do to each rate, and to each difference that the study tests.

    Args:
        data: of the table of refusal rates.
        cells: the primary judge's scores.
        models: in the order of the table.
        splits: in the order of the table.
    """
    places = [(model, split) for model in models for split in splits if (model, split) in cells]
    places = [place for place in places if headline(cells[place])["rate"] is not None]
    found = [row for row in data.results if row.value is not None]
    errors = judge_errors(data)
    tables = [_rates_table(data, cells, places, found, errors)] if places else []
    tested = [row for row in found if _is_tested(row, data, cells)]
    return tables + ([_differences_table(data, cells, tested, errors)] if tested else [])


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
    notes = filled_notes("refusal/errors", show, judge=judge, scores=shown, **about)
    title = "How far errors of the judge would move each rate, in percentage points."
    return Table(f"refusal-{judge}-errors", title, header, rows, notes, keys=2)


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


def _differences_table(
    data: TableData, cells: CellScores, tested: Sequence[Estimate], errors: Sequence[Errors]
) -> Table:
    show, judge = data.labels, data.asked["primary_judge"]
    header = [
        "Split",
        "First",
        "Second",
        "Difference",
        *(_column("errors of" if error.assumed else "errors", error) for error in errors),
    ]
    header += ["Explained by\nmissing", "Explained by\novercalling"]
    rows, shared = [], {estimand: _by_pair(data, estimand) for estimand in SHARED}
    for row in tested:
        own = [headline(cell)["rate"] for cell in _sides(row, cells)]
        known = [found.get((row.model, row.parameter, row.split)) for found in shared.values()]
        rates = own if None in known else known
        sides = sorted(zip(rates, map(_blocked_share, _sides(row, cells)), strict=True))
        gap, (low, low_blocked), (high, high_blocked) = abs(row.value or 0.0), *sides
        moved = [_most_moved(error, sides, _sides(row, cells)[0]["headline"]) for error in errors]
        marks = mark_of({*row.flags, *flags_in(_sides(row, cells))})
        wholes = high - low_blocked, 1 - low if high_blocked <= low else 0.0  # blocked answers refuse for certain
        alike = rates if not any(blocked for _, blocked in sides) else own  # what was blocked is known of all prompts
        if abs(max(alike) - min(alike) - gap) > UNLIKE:
            wholes, moved = (0.0, 0.0), [None] * len(errors)
        needed = [gap / whole if whole > 0 else None for whole in wholes]
        names = [show.split(str(row.split)), show.model(str(row.model)), show.model(_other(row))]
        rows.append(
            [
                *(*names, add_marks(points(row.value), row.flags)),
                *(NO_DATA if by is None else f"±{percent(by)}{marks}" for by in moved),
                *(NO_DATA if share is None else f"{percent(share)}{marks}" for share in needed),
            ]
        )
    shown = [cell for row in tested for cell in _sides(row, cells)]
    about = {"marks": [*(row.flags for row in tested), flags_in(shown)], "measured": errors[0].measured is not None}
    notes = filled_notes("refusal/errors_differences", show, judge=judge, scores=shown, **about)
    title = "How far errors of the judge on one model would move each difference."
    return Table(f"refusal-{judge}-errors-differences", title, header, rows, notes, keys=3)


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
