"""Corrected rates as a frame for CSV and as tables for a paper."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from refusal_eval.features.corrected.ppi import MIN_LABELS
from refusal_eval.features.corrected.transfer import LEAST_MARGIN
from refusal_eval.report.paper.display import NO_DATA, Labels, clean, mark_of, marked, notes_of, p_text, percent
from refusal_eval.report.paper.filled_notes import filled_notes
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import Made, TableData
from refusal_eval.report.paper.table_kind import OF_PRIMARY, RATES, StudyTable
from refusal_eval.report.paper.table_notes import (
    flags_notes,
    is_peoples,
    points_text,
    rate_text,
    share_text,
    written_text,
)
from refusal_eval.stats.estimates.flags import FEW_CLUSTERS, derived_flags

Result = Mapping[str, Any]
Entry = Mapping[str, Any]
ROUNDING = 1e-9
COLUMNS = (
    *("judge", "model", "split", "pool", "reading", "method", "gold", "answering_model", "observed"),
    *("value", "low", "high", "unclipped", "identifiable", "at_odds", "n_prompts", "n_labels", "flags"),
)


def corrected(data: TableData) -> Made:
    """Return the rates corrected for the judge's errors."""
    result = data.found("corrected")
    return corrected_frame(result), corrected_tables(result, data)


def corrected_frame(result: Result) -> pd.DataFrame:
    """One row per judge, model, split or pool and method; of `rg_transfer` also one per answering model.

    `observed` is the judge's own rate. `unclipped` is the value before it is brought into [0, 1]. `identifiable` is
    whether there is a value; `at_odds`, whether gold does not explain the judge's rate (`transfer.Transferred`).
    """
    rows: list[dict[str, Any]] = []
    for entry in result["transfer"]:
        row = _of(entry, "rg_transfer") | {"gold": entry["gold"], "unclipped": entry["unclipped"]}
        rows.append(row | {"identifiable": entry["value"] is not None, "at_odds": entry["at_odds"]})
        for own in entry["by_model"] if len(entry["by_model"]) > 1 else ():
            under = dict.fromkeys(("low", "high", "unclipped")) | own
            rows.append(row | under | {"method": "rg_transfer_by_model", "identifiable": own["value"] is not None})
    for entry in result["ppi"]:
        rows.append(_of(entry, "ppi") | {"n_labels": entry["n_labels"], "identifiable": entry["value"] is not None})
    rows.sort(key=lambda row: [str(row[name] or "") for name in COLUMNS[:8]])
    return pd.DataFrame(rows, columns=list(COLUMNS), dtype=object)


def corrected_tables(result: Result, data: TableData) -> list[Table]:
    """Return the table of corrected rates under the primary judge, and that under each answering model's errors."""
    judge = data.asked["primary_judge"]
    own = {name: [e for e in result[name] if e["judge"] == judge] for name in ("transfer", "ppi", "errors")}
    tables = [_rates_table(own, result, data)]
    differences = [entry for entry in result["differences"] if entry["judge"] == judge]
    tables += [_differences_table(differences, result, data)] if differences else []
    return tables + [
        _models_table([e for e in own["transfer"] if e["gold"] == gold], gold, own["errors"], data)
        for gold in data.asked["gold"]
        if any(len(e["by_model"]) > 1 for e in own["transfer"] if e["gold"] == gold)
    ]


def _rates_table(own: Mapping[str, Sequence[Entry]], result: Result, data: TableData) -> Table:
    show, study = data.labels, data.asked
    written = {card["gold"]: written_text(card) for card in data.cards if card["judge"] == study["primary_judge"]}
    golds = [gold for gold in study["gold"] if any(e["gold"] == gold for e in own["transfer"])]
    intended = {card["gold"] for card in data.cards if not is_peoples(card)}
    golds.sort(key=intended.__contains__)  # those that people labelled first
    transfer = {(*_place(e), e["gold"]): e for e in own["transfer"]}
    ppi = {_place(e): e for e in own["ppi"]}
    header = ["Model", "Split", "Judge's rate", *(["ppi", "Labels"] if ppi else [])]
    header += [f"Rogan-Gladen\n{show.gold(gold)}" for gold in golds]
    rows = []
    for where in _places([*own["transfer"], *own["ppi"]], data):
        found = [transfer.get((*where, gold)) for gold in golds]
        entries = [entry for entry in (*found, ppi.get(where)) if entry is not None and entry["observed"] is not None]
        row = [show.model(where[0]), _where(where, show), _observed(entries[0]) if entries else NO_DATA]
        if ppi:
            labelled = ppi.get(where)
            why = "too few" if labelled is None or labelled["too_few"] else "not given"
            row += [_rate(labelled, why), NO_DATA if labelled is None else str(labelled["n_labels"])]
        rows.append(
            [*row, *(_rate(e, "at odds with gold" if e and e["at_odds"] else "not identifiable") for e in found)]
        )
    judge, readings = study["primary_judge"], {split["reading"] for split in study["splits"]}
    used = {(entry["gold"], entry["reading"]) for entry in own["transfer"]}
    beyond = [abs(e["unclipped"] - e["value"]) > ROUNDING for e in own["transfer"] if e["value"] is not None]
    later, learned = (_by_cell(own["ppi"], name) for name in ("undrawn", "learned"))
    notes = filled_notes(
        "corrected/rates",
        show,
        **_said([*own["transfer"], *own["ppi"]], result, data),
        **own,
        readings=readings,
        least_labels=MIN_LABELS,
        unlabelled=dict.fromkeys(split for entry in own["ppi"] for split in entry["unlabelled"]),
        undrawn=later,
        learned=learned,
        elsewhere=result["elsewhere"],
        one_class=[o[1:] for o in result["one_class"] if o[0] == judge and o[1] in study["gold"] and o[2] in readings],
        golds=golds,
        used=[error for error in own["errors"] if (error["gold"], error["reading"]) in used and error["gold"] in golds],
        beyond=sum(beyond),
        samples=study["samples"],
        judge=judge,
        cards=data.cards,
        written={gold: written.get(gold, "") for gold in golds},
    )
    caption = "Refusal rates corrected for the judge's errors."
    return Table("corrected", caption, header, rows, notes, keys=2, per_block=4)


def _by_cell(entries: Sequence[Entry], name: str) -> list[tuple[str, str, int]]:
    """Return model, split and number of the answers that entries count by split under this name."""
    found = {(entry["model"], split): number for entry in entries for split, number in entry[name].items()}
    return [(*place, number) for place, number in sorted(found.items())]


def _differences_table(entries: Sequence[Entry], result: Result, data: TableData) -> Table:
    show, rows, splits = data.labels, [], {name: i for i, name in enumerate(data.order("splits"))}
    for entry in sorted(entries, key=lambda e: (splits.get(e["split"] or "", len(splits)), e["pool"] or "")):
        sides = [show.model(entry[side]) for side in ("model", "other")]
        difference = marked(points_text(entry), entry["flags"])
        rows.append(
            [_where(_place(entry), show), *sides, difference, *(p_text(entry[name]) for name in ("p", "p_holm"))]
        )
    asked = {"judge": data.asked["primary_judge"], "samples": data.asked["samples"]}
    notes = filled_notes("corrected/differences", show, **_said(entries, result, data), **asked, entries=entries)
    header = ["Split", "First", "Second", "Difference", "p", "p (Holm)"]
    return Table("corrected-differences", "Differences of corrected refusal rates.", header, rows, notes, keys=3)


def _models_table(entries: Sequence[Entry], gold: str, errors: Sequence[Entry], data: TableData) -> Table:
    show, rows = data.labels, []
    names = sorted({own["answering_model"] for entry in entries for own in entry["by_model"]})
    by_place = {_place(entry): entry for entry in entries}
    for where in _places(entries, data):
        entry = by_place[where]
        under = {own["answering_model"]: own["value"] for own in entry["by_model"]}
        flags = derived_flags([entry["flags"]])
        cells = [marked(percent(rate), flags) for rate in (entry["observed"], *map(under.get, names))]
        rows.append([show.model(where[0]), _where(where, show), *cells])
    header = ["Model", "Split", "Judge's rate", *(clean(name) or "unnamed" for name in names)]
    notes = filled_notes(
        "corrected/models",
        show,
        gold=gold,
        judge=data.asked["primary_judge"],
        samples=data.asked["samples"],
        errors=[error for error in errors if error["gold"] == gold],
        least_margin=f"{LEAST_MARGIN:g}",
        marks=flags_notes(derived_flags([entry["flags"]]) for entry in entries),
    )
    title = f"Corrected rates under the errors on each answering model of {show.gold(gold)}."
    return Table(f"corrected-{gold}", title, header, rows, notes, keys=2, per_block=4)


def _said(entries: Sequence[Entry], result: Result, data: TableData) -> dict[str, Any]:
    """What the notes say of rates or differences: level, least and most prompts of each split and pool, and marks."""
    sizes: dict[str, set[int]] = {_where(place, data.labels): set() for place in _places(entries, data)}
    for entry in entries:
        sizes[_where(_place(entry), data.labels)].add(entry["n_prompts"])
    flags = {flag for entry in entries for flag in (*entry["flags"], *entry.get("observed_flags", ()))}
    return {
        "level": f"{100 * result['level']:g} %",
        "least_margin": f"{LEAST_MARGIN:g}",
        "sizes": [(where, min(numbers), max(numbers)) for where, numbers in sizes.items()],
        "turns": bool(result["dialogues"]),
        "pooled": any(entry["pool"] for entry in entries),
        "marks": notes_of(flags - {FEW_CLUSTERS}),
        "few": notes_of(flags & {FEW_CLUSTERS}),
    }


def _of(entry: Entry, method: str) -> dict[str, Any]:
    names = ("judge", "model", "split", "pool", "reading", "observed", "value", "low", "high", "n_prompts", "flags")
    return dict.fromkeys(COLUMNS) | {name: entry[name] for name in names} | {"method": method}


def _place(entry: Entry) -> tuple[str, str | None, str | None]:
    return entry["model"], entry["split"], entry["pool"]


def _places(entries: Sequence[Entry], data: TableData) -> list[tuple[str, str | None, str | None]]:
    """Models, and for each the splits in the study's order, then the pools."""
    models, splits = ({name: i for i, name in enumerate(data.order(noun))} for noun in ("models", "splits"))
    found = {_place(entry) for entry in entries}
    return sorted(found, key=lambda p: (models[p[0]], splits.get(p[1] or "", len(splits)), p[2] or ""))


def _where(place: tuple[str, str | None, str | None], show: Labels) -> str:
    return show.split(place[1]) if place[1] is not None else f"all {place[2]} splits"


def _observed(entry: Entry) -> str:
    """The judge's own rate; with its interval, where it is known."""
    ends = [entry.get(f"observed_{end}") for end in ("low", "high")]
    return share_text(entry["observed"], ends) + mark_of(entry.get("observed_flags", ()))


def _rate(entry: Entry | None, otherwise: str) -> str:
    if entry is None:
        return NO_DATA
    if entry["value"] is None:
        return otherwise
    return rate_text(entry) + mark_of(entry["flags"])


class CorrectedTable(StudyTable):
    """Rates corrected for the judge's errors."""

    name = "corrected"
    of_analysis = "corrected"
    needs = ("corrected", "cards")
    shows = (*OF_PRIMARY, "samples")
    report = (RATES, "Corrected for the judge's errors")
    make = staticmethod(corrected)
