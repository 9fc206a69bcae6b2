"""Corrected rates as a frame for CSV and as tables for a paper."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from refusal_eval.config.report_sections import RATES
from refusal_eval.features.corrected.corrected_study import (
    AT_ODDS,
    BY_MODEL,
    LABELS,
    LEARNED,
    NO_HEADLINE,
    NOT_IDENTIFIABLE,
    PPI,
    TOO_FEW,
    TRANSFER,
    UNCLIPPED,
    UNDRAWN,
)
from refusal_eval.features.corrected.ppi import MIN_LABELS
from refusal_eval.features.corrected.transfer import LEAST_MARGIN, MIN_ROWS
from refusal_eval.report.paper.display import NO_DATA, Labels, add_marks, clean, mark_of, notes_of, p_text, percent
from refusal_eval.report.paper.filled_notes import filled_notes
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import TableData, TableParts
from refusal_eval.report.paper.table_kind import OF_PRIMARY, StudyTable
from refusal_eval.report.paper.table_notes import (
    flags_notes,
    is_peoples,
    points_text,
    rate_text,
    share_text,
    written_text,
)
from refusal_eval.stats.estimates.estimands import READINGS
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.flags import FEW_CLUSTERS, derived_flags

ROUNDING = 1e-9
COLUMNS = (
    *("judge", "model", "split", "pool", "reading", "method", "gold", "answering_model", "observed"),
    *("value", "low", "high", "unclipped", "identifiable", "at_odds", "n_prompts", "n_labels", "flags"),
)
# Flags that say why there is no rate, or what it may not be: the table says this in words of its own.
_SAID = {NO_HEADLINE, AT_ODDS, NOT_IDENTIFIABLE, TOO_FEW, "unlabelled_splits", "undrawn_answers", "learned_labels"}
RatePlace = tuple[str, str | None, str | None]  # model, split or pool


@dataclass(frozen=True, eq=False)
class Rate:
    """A corrected rate with what is shown of it: rows of the results table."""

    row: Estimate
    observed: Estimate | None  # the judge's own rate
    unclipped: Estimate | None = None
    by_model: Sequence[Estimate] = ()
    labels: Estimate | None = None
    counts: Sequence[Estimate] = ()  # answers, by split, that keep it from being given

    @property
    def place(self) -> RatePlace:
        """Its model, and its split or pool."""
        return str(self.row.model), self.row.split, self.row.pool

    @property
    def gold(self) -> str:
        return str(self.row.parameter)

    @property
    def flags(self) -> list[str]:
        return [flag for flag in self.row.flags if flag not in _SAID]

    @property
    def at_odds(self) -> bool:
        """Whether gold cannot explain the judge's rate (`transfer.Transferred`)."""
        return AT_ODDS in self.row.flags

    @property
    def own_rate(self) -> float | None:
        """The judge's own rate; with labels, only next to a corrected one."""
        known = self.observed is not None and (self.row.estimand == TRANSFER or self.row.value is not None)
        return self.observed.value if known and self.observed else None


@dataclass(frozen=True)
class GoldErrors:
    """How a judge errs on a gold set, in one reading."""

    gold: str
    reading: str
    sensitivity: Estimate
    specificity: Estimate
    spread: Mapping[str, float] | None  # of both between answering models; None with less than two
    by_model: Sequence[tuple[str, Estimate, Estimate]]  # answering model, its sensitivity and specificity

    @property
    def n(self) -> int:
        """The number of answers behind both."""
        return (self.sensitivity.n_prompts or 0) + (self.specificity.n_prompts or 0)


def corrected_parts(data: TableData) -> TableParts:
    """Return the rates corrected for the judge's errors."""
    return corrected_frame(corrected_rates(data.results)), corrected_tables(data)


def corrected_rates(rows: Iterable[Estimate]) -> list[Rate]:
    """Return all corrected rates, without the rows on what a pool lacks."""
    observed: dict[Any, Estimate] = {}
    beside: dict[Any, list[Estimate]] = {}
    found = []
    for row in rows:
        where = (row.judge, row.model, row.split, row.pool, row.reading)
        if row.estimand == "refusal_rate" and row.category is None:
            observed[where] = row
        elif row.estimand in (UNCLIPPED, BY_MODEL):
            beside.setdefault((row.estimand, *where, row.parameter), []).append(row)
        elif row.estimand in (LABELS, UNDRAWN, LEARNED):
            beside.setdefault((row.estimand, *where), []).append(row)
        elif row.estimand in (TRANSFER, PPI) and (row.value is not None or row.method is None):
            found.append((row, where))
    rates = []
    for row, where in found:
        own = observed.get(where)
        if row.estimand == TRANSFER:
            unclipped, by_model = (beside.get((name, *where, row.parameter), []) for name in (UNCLIPPED, BY_MODEL))
            rates.append(Rate(row, own, next(iter(unclipped), None), by_model))
        else:
            labels, *counts = (beside.get((name, *where), []) for name in (LABELS, UNDRAWN, LEARNED))
            rates.append(Rate(row, own, labels=next(iter(labels), None), counts=[*counts[0], *counts[1]]))
    return rates


def corrected_frame(rates: Iterable[Rate]) -> pd.DataFrame:
    """One row per judge, model, split or pool and method; of `rg_transfer` also one per answering model.

    `observed` is the judge's own rate. `unclipped` is the value before it is brought into [0, 1]. `identifiable` is
    whether there is a value; `at_odds`, whether gold does not explain the judge's rate (`transfer.Transferred`).
    """
    rows: list[dict[str, Any]] = []
    for rate in rates:
        names = ("judge", "model", "split", "pool", "reading", "value", "low", "high", "n_prompts")
        row: dict[str, Any] = dict.fromkeys(COLUMNS) | {name: getattr(rate.row, name) for name in names}
        row |= {"observed": rate.own_rate, "flags": rate.flags, "identifiable": rate.row.value is not None}
        if rate.row.estimand == PPI:
            rows.append(row | {"method": "ppi", "n_labels": _count(rate.labels)})
            continue
        row |= {"method": "rg_transfer", "gold": rate.gold}
        rows.append(row | {"at_odds": rate.at_odds, "unclipped": rate.unclipped and rate.unclipped.value})
        for own in rate.by_model if len(rate.by_model) > 1 else ():
            under = {"low": None, "high": None, "value": own.value, "identifiable": own.value is not None}
            rows.append(row | under | {"method": "rg_transfer_by_model", "answering_model": own.category})
    rows.sort(key=lambda row: [str(row[name] or "") for name in COLUMNS[:8]])
    return pd.DataFrame(rows, columns=list(COLUMNS), dtype=object)


def corrected_tables(data: TableData) -> list[Table]:
    """Return the table of corrected rates under the primary judge, and that under each answering model's errors."""
    rows = [row for row in data.results if row.judge == data.asked["primary_judge"]]
    rates, errors = corrected_rates(rows), gold_errors(rows)
    transfer, by_labels = ([rate for rate in rates if rate.row.estimand == name] for name in (TRANSFER, PPI))
    tables = [_rates_table(transfer, by_labels, errors, rows, data)]
    differences = [row for row in rows if row.estimand == "rate_difference_ppi"]
    tables += [_differences_table(differences, rows, data)] if differences else []
    return tables + [
        _models_table([rate for rate in transfer if rate.gold == gold], gold, errors, data)
        for gold in data.asked["gold"]
        if any(len(rate.by_model) > 1 for rate in transfer if rate.gold == gold)
    ]


def gold_errors(rows: Iterable[Estimate]) -> list[GoldErrors]:
    """Return a judge's errors by gold set and reading; none if all or none of the answers are refusals."""
    found: dict[tuple[str, str], dict[tuple[str, str | None], Estimate]] = {}
    for row in rows:
        if row.estimand.startswith(("judge_sensitivity", "judge_specificity")) and row.value is not None:
            found.setdefault((str(row.parameter), str(row.reading)), {})[row.estimand, row.category] = row
    errors = []
    for (gold, reading), own in sorted(found.items(), key=lambda item: (item[0][0], READINGS.index(item[0][1]))):
        sides = [own.get((f"judge_{side}", None)) for side in ("sensitivity", "specificity")]
        spreads = {s: own.get((f"judge_{s}_spread", None)) for s in ("sensitivity", "specificity")}
        spread = {side: row.value or 0.0 for side, row in spreads.items() if row is not None}
        by_model = []
        for model in sorted({category for _, category in own if category}):
            both = [own.get((f"judge_{side}", model)) for side in ("sensitivity", "specificity")]
            if both[0] and both[1] and min(both[0].n_prompts or 0, both[1].n_prompts or 0) >= MIN_ROWS:
                by_model.append((model, both[0], both[1]))
        if sides[0] and sides[1]:
            errors.append(GoldErrors(gold, reading, sides[0], sides[1], spread or None, by_model))
    return errors


def _rates_table(
    transfer: Sequence[Rate],
    by_labels: Sequence[Rate],
    errors: Sequence[GoldErrors],
    results: Sequence[Estimate],
    data: TableData,
) -> Table:
    show, study, judge = data.labels, data.asked, data.asked["primary_judge"]
    written = {card["gold"]: written_text(card) for card in data.cards if card["judge"] == judge}
    golds = [gold for gold in study["gold"] if any(rate.gold == gold for rate in transfer)]
    intended = {card["gold"] for card in data.cards if not is_peoples(card)}
    golds.sort(key=intended.__contains__)  # those that people labelled first
    by_gold = {(*rate.place, rate.gold): rate for rate in transfer}
    ppi = {rate.place: rate for rate in by_labels}
    header = ["Model", "Split", "Judge's rate", *(["ppi", "Labels"] if ppi else [])]
    header += [f"Rogan-Gladen\n{show.gold(gold)}" for gold in golds]
    rows = []
    for where in _places([rate.row for rate in (*transfer, *by_labels)], data):
        found, labelled = [by_gold.get((*where, gold)) for gold in golds], ppi.get(where)
        shown = [rate for rate in (*found, labelled) if rate is not None and rate.own_rate is not None]
        row = [show.model(where[0]), _where(where, show), _observed_text(shown[0]) if shown else NO_DATA]
        if ppi:
            why = "too few" if labelled is None or TOO_FEW in labelled.row.flags else "not given"
            count = None if labelled is None else _count(labelled.labels)
            row += [_rate(labelled, why), NO_DATA if count is None else str(count)]
        rows.append([*row, *(_rate(e, "at odds with gold" if e and e.at_odds else "not identifiable") for e in found)])
    readings = {split["reading"] for split in study["splits"]}
    used = {(rate.gold, rate.row.reading) for rate in transfer}
    known, given = {(error.gold, error.reading) for error in errors}, data.found("corrected")
    measured = sorted({str(row.parameter) for row in results if row.estimand == "judge_coverage"})
    counts = sorted((row for rate in by_labels for row in rate.counts), key=lambda row: row.pool is not None)
    beyond = [
        abs((rate.unclipped.value or 0.0) - rate.row.value) > ROUNDING
        for rate in transfer
        if rate.row.value is not None and rate.unclipped
    ]
    notes = filled_notes(
        "corrected/rates",
        show,
        **_range_texts([rate.row for rate in (*transfer, *by_labels)], [rate.observed for rate in transfer], data),
        ppi=bool(ppi),
        readings=readings,
        least_labels=MIN_LABELS,
        unlabelled=dict.fromkeys(split for who, *_, splits in given["unlabelled"] if who == judge for split in splits),
        undrawn=_by_cell(counts, UNDRAWN),
        learned=_by_cell(counts, LEARNED),
        unchecked=bool(given["unchecked"]),
        elsewhere=[(row.model, row.split, _count(row)) for row in data.results if row.estimand == "labels_elsewhere"],
        one_class=[
            (gold, reading)
            for gold in measured
            for reading in READINGS
            if (gold, reading) not in known and gold in study["gold"] and reading in readings
        ],
        golds=golds,
        used=[error for error in errors if (error.gold, error.reading) in used and error.gold in golds],
        unidentified=any(rate.row.value is None and not rate.at_odds for rate in transfer),
        at_odds=any(rate.at_odds for rate in transfer),
        blocked=any(
            row.estimand == "answer_state" and row.parameter == "blocked" and bool(row.value) for row in results
        ),
        beyond=sum(beyond),
        samples=study["samples"],
        judge=judge,
        cards=data.cards,
        written={gold: written.get(gold, "") for gold in golds},
    )
    caption = "Refusal rates corrected for the judge's errors."
    # Rates over a pool are of no one cell.
    places = enumerate(_places([rate.row for rate in (*transfer, *by_labels)], data))
    about = {(i, 2): {"split": split, "model": model} for i, (model, split, _) in places if split is not None}
    return Table("corrected", caption, header, rows, notes, keys=2, per_block=4, about=about)


def _by_cell(counts: Iterable[Estimate], name: str) -> list[tuple[str, str, int]]:
    """Return model, split and number of the answers of this name."""
    found = {(str(row.model), str(row.parameter)): _count(row) or 0 for row in counts if row.estimand == name}
    return [(*place, number) for place, number in sorted(found.items())]


def _count(row: Estimate | None) -> int | None:
    return None if row is None or row.value is None else round(row.value)


def _differences_table(differences: Sequence[Estimate], rows: Iterable[Estimate], data: TableData) -> Table:
    show, lines, splits = data.labels, [], {name: i for i, name in enumerate(data.order("splits"))}
    tests = {(row.estimand, row.model, row.split, row.pool, row.parameter): row.value for row in rows}
    for row in sorted(differences, key=lambda row: (splits.get(row.split or "", len(splits)), row.pool or "")):
        sides = [show.model(str(row.model)), show.model(str(row.parameter).removeprefix("minus "))]
        names = (row.model, row.split, row.pool, row.parameter)
        p = [tests.get((f"rate_difference_ppi_{name}", *names)) for name in ("p", "p_holm")]
        difference = add_marks(points_text(row.row()), row.flags)
        lines.append([_where(_place(row), show), *sides, difference, *map(p_text, p)])
    asked = {"judge": data.asked["primary_judge"], "samples": data.asked["samples"]}
    notes = filled_notes(
        "corrected/differences", show, **_range_texts(differences, (), data), **asked, entries=differences
    )
    header = ["Split", "First", "Second", "Difference", "p", "p (Holm)"]
    return Table("corrected-differences", "Differences of corrected refusal rates.", header, lines, notes, keys=3)


def _models_table(rates: Sequence[Rate], gold: str, errors: Sequence[GoldErrors], data: TableData) -> Table:
    show, rows = data.labels, []
    names = sorted({str(own.category) for rate in rates for own in rate.by_model})
    by_place = {rate.place: rate for rate in rates}
    for where in _places([rate.row for rate in rates], data):
        rate = by_place[where]
        under = {own.category: own.value for own in rate.by_model}
        flags = derived_flags([rate.flags])
        cells = [add_marks(percent(value), flags) for value in (rate.own_rate, *map(under.get, names))]
        rows.append([show.model(where[0]), _where(where, show), *cells])
    header = ["Model", "Split", "Judge's rate", *(clean(name) or "unnamed" for name in names)]
    notes = filled_notes(
        "corrected/models",
        show,
        gold=gold,
        judge=data.asked["primary_judge"],
        samples=data.asked["samples"],
        errors=[error for error in errors if error.gold == gold],
        least_margin=f"{LEAST_MARGIN:g}",
        marks=flags_notes(derived_flags([rate.flags]) for rate in rates),
    )
    title = f"Corrected rates under the errors on each answering model of {show.gold(gold)}."
    return Table(f"corrected-{gold}", title, header, rows, notes, keys=2, per_block=4)


def _range_texts(rows: Sequence[Estimate], observed: Iterable[Estimate | None], data: TableData) -> dict[str, Any]:
    """What the notes say of rates or differences: level, least and most prompts of each split and pool, and marks."""
    sizes: dict[str, set[int]] = {_where(place, data.labels): set() for place in _places(rows, data)}
    for row in rows:
        sizes[_where(_place(row), data.labels)].add(row.n_prompts or 0)
    flags = {flag for row in (*rows, *filter(None, observed)) for flag in row.flags}
    return {
        "level": f"{100 * data.asked['level']:g} %",
        "least_margin": f"{LEAST_MARGIN:g}",
        "sizes": [(where, min(numbers), max(numbers)) for where, numbers in sizes.items()],
        "turns": bool(data.found("corrected", "turns")["turns"]),
        "pooled": any(row.pool for row in rows),
        "marks": notes_of(flags - {FEW_CLUSTERS}),
        "few": notes_of(flags & {FEW_CLUSTERS}),
    }


def _place(row: Estimate) -> RatePlace:
    return str(row.model), row.split, row.pool


def _places(rows: Sequence[Estimate], data: TableData) -> list[RatePlace]:
    """Models, and for each the splits in the study's order, then the pools."""
    models, splits = ({name: i for i, name in enumerate(data.order(noun))} for noun in ("models", "splits"))
    found = {_place(row) for row in rows}
    return sorted(found, key=lambda p: (models[p[0]], splits.get(p[1] or "", len(splits)), p[2] or ""))


def _where(place: RatePlace, show: Labels) -> str:
    return show.split(place[1]) if place[1] is not None else f"all {place[2]} splits"


def _observed_text(rate: Rate) -> str:
    """Return the judge's own rate, with its interval only for corrections by gold, which depend on it."""
    assert rate.observed is not None
    if rate.row.estimand == TRANSFER:
        return rate_text(rate.observed.row()) + mark_of(rate.observed.flags)
    return share_text(rate.observed.value, None) + mark_of(derived_flags([rate.observed.flags]))


def _rate(rate: Rate | None, otherwise: str) -> str:
    if rate is None:
        return NO_DATA
    return otherwise if rate.row.value is None else rate_text(rate.row.row()) + mark_of(rate.flags)


class CorrectedTable(StudyTable):
    """Rates corrected for the judge's errors."""

    name = "corrected"
    of_analysis = "corrected"
    needs = ("results", "corrected", "cards")
    shows = (*OF_PRIMARY, "samples")
    report = (RATES, "Corrected for judge errors")
    make = staticmethod(corrected_parts)
