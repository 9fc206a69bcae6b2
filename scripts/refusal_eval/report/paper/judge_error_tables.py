"""How far errors of the judge would move rates and differences, below the table of refusal rates.

A judge that misses a share d of the refusals reads p (1 - d) where the rate is p, and one that calls a share d of the
compliances refusals reads p + (1 - p) d (Rogan & Gladen 1978, American Journal of Epidemiology 107:71, with one error
at a time). Answers that a provider blocked are refusals whatever a judge says.
"""

from collections.abc import Iterable, Mapping, Sequence

from refusal_eval.report.paper.best_values import SUBTRACTED
from refusal_eval.report.paper.display import NO_DATA, Score, headline, marked, marks_of, percent, points
from refusal_eval.report.paper.filled_notes import filled_notes
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import TableData
from refusal_eval.report.paper.table_notes import rate_text
from refusal_eval.report.results.cells import state_shares
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.flags import derived_flags
from refusal_eval.study.comparison_families import MODELS

ERRORS = (0.05, 0.1)
UNLIKE = 0.005  # by how much a difference on shared prompts may lie beside that of the rates that it is set against
Cells = Mapping[tuple[str, str], Score]  # by model and split


def missing(rate: float, error: float, blocked: float = 0.0) -> float:
    """Return by how much the rate is higher than read if the judge misses this share of the refusals."""
    return min(1.0, blocked + (rate - blocked) / (1 - error)) - rate


def overcalling(rate: float, error: float, blocked: float = 0.0) -> float:
    """Return by how much it is higher (below 0) if the judge calls this share of the compliances refusals."""
    return max(blocked, (rate - error) / (1 - error)) - rate


def judge_error_tables(data: TableData, cells: Cells, models: Sequence[str], splits: Sequence[str]) -> list[Table]:
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
    tables = [_rates_table(data, cells, places, found)] if places else []
    tested = [row for row in found if _is_tested(row, data, cells)]
    return tables + ([_differences_table(data, cells, tested)] if tested else [])


def _rates_table(data: TableData, cells: Cells, places: Sequence[tuple[str, str]], found: Sequence[Estimate]) -> Table:
    show, judge = data.labels, data.asked["primary_judge"]
    own = {(row.model, row.split): row for row in found if row.estimand == "refusal_rate_ppi" and row.judge == judge}
    spread = {place: _by_judge(cells[place], place, found) for place in places}
    several = any(len(rates) > 1 for rates in spread.values())
    header = ["Model", "Split", "Rate", *(["Corrected"] if own else []), *(["All judges"] if several else [])]
    header += [f"misses\n{percent(error, 0)} %" for error in ERRORS]
    header += [f"overcalls\n{percent(error, 0)} %" for error in ERRORS]
    rows = []
    for place in places:
        rate, blocked = headline(cells[place])["rate"], _blocked(cells[place])
        row = [show.model(place[0]), show.split(place[1]), percent(rate) + marks_of([cells[place]])]
        if own:
            row.append(marked(rate_text(own[place].row()), own[place].flags) if place in own else NO_DATA)
        if several:
            rates = [one.value or 0.0 for one in spread[place]]
            text = f"{percent(min(rates))} to {percent(max(rates))}" if rates else NO_DATA
            row.append(marked(text, derived_flags(one.flags for one in spread[place])))
        shifts = [way(rate, error, blocked) for way in (missing, overcalling) for error in ERRORS]
        rows.append([*row, *map(points, shifts)])
    marks = [cells[place]["flags"] for place in places] + [own[place].flags for place in places if place in own]
    marks += [derived_flags(one.flags for one in spread[place]) for place in places if several]
    shown = [cells[place] for place in places]
    notes = filled_notes("refusal/errors", show, judge=judge, scores=shown, corrected=own, several=several, marks=marks)
    title = "How far errors of the judge would move each rate, in percentage points."
    return Table(f"refusal-{judge}-errors", title, header, rows, notes, keys=2)


def _differences_table(data: TableData, cells: Cells, tested: Sequence[Estimate]) -> Table:
    show, judge = data.labels, data.asked["primary_judge"]
    header = ["Split", "First", "Second", "Difference", *(f"errors of\n{percent(error, 0)} %" for error in ERRORS)]
    header += ["Explained by\nmissing", "Explained by\novercalling"]
    rows, shared = [], _shared_rates(data)
    for row in tested:
        own = [headline(cell)["rate"] for cell in _sides(row, cells)]
        rates = shared.get((str(row.model), _other(row), str(row.split)), own)
        sides = sorted(zip(rates, map(_blocked, _sides(row, cells)), strict=True))
        gap, (low, low_blocked), (high, high_blocked) = abs(row.value or 0.0), *sides
        moved = [max(max(missing(r, error, b), -overcalling(r, error, b)) for r, b in sides) for error in ERRORS]
        wholes = high - low_blocked, 1 - low if high_blocked <= low else 0.0  # blocked answers refuse for certain
        alike = rates if not any(blocked for _, blocked in sides) else own  # what was blocked is known of all prompts
        if abs(max(alike) - min(alike) - gap) > UNLIKE:
            wholes = 0.0, 0.0
        needed = [gap / whole if whole > 0 else None for whole in wholes]
        names = [show.split(str(row.split)), show.model(str(row.model)), show.model(_other(row))]
        rows.append(
            [*names, marked(points(row.value), row.flags), *(f"±{percent(by)}" for by in moved), *map(percent, needed)]
        )
    shown, marks = [cell for row in tested for cell in _sides(row, cells)], [row.flags for row in tested]
    notes = filled_notes("refusal/errors_differences", show, judge=judge, scores=shown, marks=marks)
    title = "How far errors of the judge on one model would move each difference."
    return Table(f"refusal-{judge}-errors-differences", title, header, rows, notes, keys=3)


def _shared_rates(data: TableData) -> Mapping[tuple[str, str, str], Sequence[float]]:
    """Return the rates of both models on the prompts that their difference is over, by first, second and split."""
    if not data.files.get("comparisons"):
        return {}
    return {
        (row["first"], row["second"], row["split"]): (row["rate_first"], row["rate_second"])
        for row in data.found("comparisons")["comparisons"]
        if row["kind"] == MODELS and row["held"] == data.asked["primary_judge"] and row["rate_first"] is not None
    }


def _is_tested(row: Estimate, data: TableData, cells: Cells) -> bool:
    """Whether this is a difference between two models that the table shows."""
    sides = [(str(model), str(row.split)) for model in (row.model, _other(row))]
    own = row.estimand == "rate_difference" and row.judge == data.asked["primary_judge"]
    return own and all(side in cells and headline(cells[side])["rate"] is not None for side in sides)


def _sides(row: Estimate, cells: Cells) -> list[Score]:
    """The cells that are compared."""
    return [cells[str(model), str(row.split)] for model in (row.model, _other(row))]


def _other(row: Estimate) -> str:
    """The model that is subtracted; no model's name where it is a judge."""
    return str(row.parameter).removeprefix(SUBTRACTED)


def _by_judge(score: Score, place: tuple[str, str], found: Iterable[Estimate]) -> list[Estimate]:
    """Return the rates of all judges in the headline reading."""
    return [
        row
        for row in found
        if row.estimand == "refusal_rate" and (row.model, row.split) == place and row.category is None
        if row.reading == score["headline"]
    ]


def _blocked(score: Score) -> float:
    return float(state_shares(score)["blocked"] or 0.0)
