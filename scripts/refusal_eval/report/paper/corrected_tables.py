"""Corrected rates as a frame for CSV and as tables for a paper."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from refusal_eval.report.paper.display import (
    NO_DATA,
    Labels,
    clean,
    mark_of,
    marked,
    notes_of,
    p_text,
    percent,
    points,
    points_interval,
)
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import Card, Made, TableData
from refusal_eval.report.paper.table_notes import (
    OF_DIALOGUES,
    READINGS_NOTE,
    flags_notes,
    judges_notes,
    rate_text,
    share_text,
)
from refusal_eval.stats.corrected.ppi import MIN_LABELS
from refusal_eval.stats.corrected.transfer import LEAST_MARGIN
from refusal_eval.stats.estimates.flags import FEW_CLUSTERS, derived_flags

Result = Mapping[str, Any]
Entry = Mapping[str, Any]
ROUNDING = 1e-9
_UNCHECKED = (
    "The file of labels does not record the answers that they were drawn from, so later answers could not be ruled out."
)
COLUMNS = (
    *("judge", "model", "split", "pool", "reading", "method", "gold", "answering_model", "observed"),
    *("value", "low", "high", "unclipped", "identifiable", "at_odds", "n_prompts", "n_labels", "flags"),
)


def corrected(data: TableData) -> Made:
    """Return the rates corrected for the judge's errors."""
    result = data.found("corrected")
    return corrected_frame(result), corrected_tables(result, data.cards, data.asked)


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


def corrected_tables(result: Result, cards: Sequence[Card], study: Mapping[str, Any]) -> list[Table]:
    """Return the table of corrected rates under the primary judge, and that under each answering model's errors.

    Args:
        result: of `study.study_corrected`.
        cards: of all judges.
        study: `models`, `splits` (each `name`, `expectation`, `reading`), `gold`, `primary_judge`, `labels`, `samples`.
    """
    show, judge = Labels(**study["labels"]), study["primary_judge"]
    own = {name: [e for e in result[name] if e["judge"] == judge] for name in ("transfer", "ppi", "errors")}
    tables = [_rates_table(own, result, cards, show, study)]
    differences = [entry for entry in result["differences"] if entry["judge"] == judge]
    tables += [_differences_table(differences, result, show, study)] if differences else []
    return tables + [
        _models_table([e for e in own["transfer"] if e["gold"] == gold], gold, own["errors"], show, study)
        for gold in study["gold"]
        if any(len(e["by_model"]) > 1 for e in own["transfer"] if e["gold"] == gold)
    ]


def _rates_table(
    own: Mapping[str, Sequence[Entry]], result: Result, cards: Sequence[Card], show: Labels, study: Mapping[str, Any]
) -> Table:
    golds = [gold for gold in study["gold"] if any(e["gold"] == gold for e in own["transfer"])]
    transfer = {(*_place(e), e["gold"]): e for e in own["transfer"]}
    ppi = {_place(e): e for e in own["ppi"]}
    header = ["Model", "Split", "Judge's rate", *(["ppi", "Labels"] if ppi else [])]
    header += [f"Rogan-Gladen\n{show.gold(gold)}" for gold in golds]
    rows = []
    for where in _places([*own["transfer"], *own["ppi"]], study):
        found = [transfer.get((*where, gold)) for gold in golds]
        entries = [entry for entry in (*found, ppi.get(where)) if entry is not None and entry["observed"] is not None]
        row = [show.model(where[0]), _where(where, show), _observed(entries[0]) if entries else NO_DATA]
        if ppi:
            labelled = ppi.get(where)
            why = "not given" if labelled and (labelled["unlabelled"] or labelled["undrawn"]) else "too few"
            row += [_rate(labelled, why), NO_DATA if labelled is None else str(labelled["n_labels"])]
        rows.append([*row, *(_rate(entry, _without(entry)) for entry in found)])
    judge = study["primary_judge"]
    level = f"{100 * result['level']:g} %"
    readings = {split["reading"] for split in study["splits"]}
    notes = [
        f"Rates per answer in percent with {level} intervals, in the headline reading of each split"
        f"{' (' + readings.pop() + ')' if len(readings) == 1 else ''}. {READINGS_NOTE}",
        _prompts_note([*own["transfer"], *own["ppi"]], bool(result["dialogues"]), study, show),
        *(_ppi_notes(own["ppi"], show) if ppi else []),
        *_elsewhere_notes(result["elsewhere"], show),
        *_one_class_notes(result["one_class"], study, show),
        *(_transfer_notes(own["errors"], own["transfer"], golds, show) if golds else []),
        f"K = {study['samples']} answers to each prompt.",
        *judges_notes([judge], cards, show)[1:],
        "Judge's rate: the rate as the judge reads the answers. Only intervals of corrected rates include its errors.",
        *_marked([*own["transfer"], *own["ppi"]]),
    ]
    return _table("corrected", "Refusal rates corrected for the judge's errors.", header, rows, notes)


def _differences_table(entries: Sequence[Entry], result: Result, show: Labels, study: Mapping[str, Any]) -> Table:
    rows, splits = [], {split["name"]: i for i, split in enumerate(study["splits"])}
    for entry in sorted(entries, key=lambda e: (splits.get(e["split"] or "", len(splits)), e["pool"] or "")):
        difference = f"{points(entry['value'])} {points_interval(entry['low'], entry['high'])}"
        where = _where((entry["model"], entry["split"], entry["pool"]), show)
        row = [where, show.model(entry["model"]), show.model(entry["other"]), marked(difference, entry["flags"])]
        rows.append([*row, *(p_text(entry[name]) for name in ("p", "p_holm"))])
    level = f"{100 * result['level']:g} %"
    notes = [
        f"First minus second, in percentage points with {level} intervals, of rates corrected with human labels "
        "(ppi). Interval and p include the judge's errors on both models.",
        "Interval and test: Student's t with the cluster-robust variance of the paired difference, including the "
        f"sampling of labels. p (Holm): corrected for these {len(entries)} differences.",
        _prompts_note(entries, bool(result["dialogues"]), study, show),
        *_marked(entries),
    ]
    header = ["Split", "First", "Second", "Difference", "p", "p (Holm)"]
    return Table("corrected-differences", "Differences of corrected refusal rates.", header, rows, notes, keys=3)


def _table(name: str, caption: str, header: Sequence[str], rows: list[list[str]], notes: Sequence[str]) -> Table:
    return Table(name, caption, header, rows, notes, keys=2, per_block=4)


def _models_table(
    entries: Sequence[Entry], gold: str, errors: Sequence[Entry], show: Labels, study: Mapping[str, Any]
) -> Table:
    names = sorted({own["answering_model"] for entry in entries for own in entry["by_model"]})
    by_place = {_place(entry): entry for entry in entries}
    rows = []
    for where in _places(entries, study):
        entry = by_place[where]
        under = {own["answering_model"]: own["value"] for own in entry["by_model"]}
        flags = derived_flags([entry["flags"]])
        cells = [marked(percent(rate), flags) for rate in (entry["observed"], *map(under.get, names))]
        rows.append([show.model(where[0]), _where(where, show), *cells])
    header = ["Model", "Split", "Judge's rate", *(clean(name) or "unnamed" for name in names)]
    notes = [
        "Rates in percent if the judge erred on a model's answers as it does on those of one answering model of "
        f"{show.gold(gold)}. {NO_DATA} where sensitivity + specificity \u2212 1 is below {LEAST_MARGIN:g} for that "
        "answering model, or the gold set has too few of its answers.",
        *(_by_model_note(error) for error in errors if error["gold"] == gold),
        READINGS_NOTE,
        *flags_notes(derived_flags([entry["flags"]]) for entry in entries),
    ]
    title = f"Corrected rates under the errors on each answering model of {show.gold(gold)}."
    return _table(f"corrected-{gold}", title, header, rows, notes)


def _by_model_note(error: Entry) -> str:
    parts = [
        f"{clean(own['answering_model']) or 'unnamed'} {percent(own['sensitivity'], 0)}, "
        f"{percent(own['specificity'], 0)} (n = {own['n_positive']}, {own['n_negative']})"
        for own in error["by_model"]
    ]
    return f"Sensitivity and specificity in percent ({error['reading']}): {'; '.join(parts)}."


def _prompts_note(entries: Sequence[Entry], turns: bool, study: Mapping[str, Any], show: Labels) -> str:
    """How many prompts with a rate each split and pool has, such as "safe 250; bad 198 to 200"; `turns`: of dialogues
    scored turns.
    """
    sizes: dict[str, set[int]] = {}
    for place in _places(entries, study):
        own = {entry["n_prompts"] for entry in entries if _place(entry) == place}
        sizes.setdefault(_where(place, show), set()).update(own)
    texts = [f"{where} {min(n)}" + (f" to {max(n)}" if len(n) > 1 else "") for where, n in sizes.items()]
    once = " In pools near-duplicates count once." if any(entry["pool"] for entry in entries) else ""
    return f"Prompts with a rate{OF_DIALOGUES if turns else ''}: {'; '.join(texts) or 'none'}.{once}"


def _marked(entries: Sequence[Entry]) -> list[str]:
    """The notes for the marks, and of what clusters there are few."""
    flags = {flag for entry in entries for flag in (*entry["flags"], *entry.get("observed_flags", ()))}
    of = "For ppi these are clusters with labels; for Rogan-Gladen, those of the study or of the gold set."
    few = [f"{note} {of}" for note in notes_of(flags & {FEW_CLUSTERS})]
    return [*notes_of(flags - {FEW_CLUSTERS}), *few]


def _ppi_notes(entries: Sequence[Entry], show: Labels) -> list[str]:
    without = list(dict.fromkeys(split for entry in entries for split in entry["unlabelled"]))
    later = {(entry["model"], split): number for entry in entries for split, number in entry["undrawn"].items()}
    return [
        "ppi: human labels on this study's answers, weighted by their sampling probabilities, combined with the "
        "judge's reading of all answers as far as it helps (PPI++). It assumes nothing about the judge. Interval: "
        "Wilson with the cluster-robust variance of answers and labels. Labels: answers that people labelled, at least "
        f"{MIN_LABELS}. An answer without a verdict counts by its label; an answer without text is left out.",
        *([_not_given(without, show)] if without else []),
        *([_came_later(later, show)] if later else []),
        *([] if all(entry["checked"] for entry in entries) else [_UNCHECKED]),
    ]


def _elsewhere_notes(labels: Sequence[tuple[str, str, int]], show: Labels) -> list[str]:
    """What people labelled and the study no longer has."""
    if not labels:
        return []
    left_out = "; ".join(f"{show.model(model)} on {show.split(split)}: {n}" for model, split, n in labels)
    return [f"Labels of models or splits that are not in this study are left out ({left_out})."]


def _one_class_notes(found: Sequence[tuple[str, str, str]], study: Mapping[str, Any], show: Labels) -> list[str]:
    """Which gold sets cannot correct the primary judge in a headline reading of the study."""
    used = {split["reading"] for split in study["splits"]}
    golds = [(gold, reading) for judge, gold, reading in found if judge == study["primary_judge"] and reading in used]
    return [
        f"No Rogan-Gladen rate ({reading}) from {show.gold(gold)}: of the answers that the judge labelled, people call "
        "all or none refusals, so its sensitivity or specificity is unknown."
        for gold, reading in golds
        if gold in study["gold"]
    ]


def _not_given(splits: Sequence[str], show: Labels) -> str:
    return (
        f"Not given: people labelled no answer of that model on {', '.join(map(show.split, splits))}, and labels of "
        "other splits cannot replace them."
    )


def _came_later(later: Mapping[tuple[str, str], int], show: Labels) -> str:
    where = "; ".join(f"{show.model(model)} on {show.split(split)}: {n}" for (model, split), n in sorted(later.items()))
    return (
        f"Not given where answers were added or changed after the sample for people was drawn ({where}): they had no "
        "chance of being drawn, and labels of other answers cannot replace theirs. A new audit is needed."
    )


def _transfer_notes(errors: Sequence[Entry], entries: Sequence[Entry], golds: Sequence[str], show: Labels) -> list[str]:
    notes = [
        "Rogan-Gladen: assumes that the judge errs on these models' answers as on those of the gold set; "
        "an indication, not a headline. Its interval includes the uncertainty of both samples.",
    ]
    if any(entry["value"] is None and not entry["at_odds"] for entry in entries):
        notes.append(
            f"Not identifiable: the lower end of sensitivity + specificity \u2212 1 is below {LEAST_MARGIN:g}."
        )
    if any(entry["at_odds"] for entry in entries):
        notes.append(
            "At odds with gold: the judge's rate lies below 1 \u2212 specificity (its false refusals on the gold set) "
            "or above its sensitivity, by more than the errors of both explain. No refusal rate would produce it, so "
            "the judge errs differently here, and no rate is given."
        )
    used = {(entry["gold"], entry["reading"]) for entry in entries}
    for error in errors:
        if error["gold"] not in golds or (error["gold"], error["reading"]) not in used:
            continue
        spread = error["spread"]
        between = (
            "fewer than two answering models have enough answers, so the spread between models is not in the interval"
            if spread is None
            else f"between {len(error['by_model'])} answering models they have standard deviations of "
            f"{percent(spread['sensitivity'])} and {percent(spread['specificity'])}, which the interval includes"
        )
        notes.append(
            f"{show.gold(error['gold'])} ({error['reading']}): sensitivity {percent(error['sensitivity'])}, "
            f"specificity {percent(error['specificity'])} on {error['n']} answers; {between}."
        )
    if any(entry["blocked"] > 0 for entry in entries):
        notes.append("Rogan-Gladen corrects what the judge read; answers that a provider blocked stay refusals.")
    given = [entry for entry in entries if entry["value"] is not None]
    beyond = [entry for entry in given if abs(entry["unclipped"] - entry["value"]) > ROUNDING]
    if beyond:
        notes.append(
            f"In {len(beyond)} {'row' if len(beyond) == 1 else 'rows'} the corrected rate of what the judge read lies "
            "outside 0 to 100 and is shown at the limit. The cause is sampling error, or different errors of the judge."
        )
    return notes


def _of(entry: Entry, method: str) -> dict[str, Any]:
    names = ("judge", "model", "split", "pool", "reading", "observed", "value", "low", "high", "n_prompts")
    flags = " ".join(entry["flags"])
    return dict.fromkeys(COLUMNS) | {name: entry[name] for name in names} | {"method": method, "flags": flags}


def _place(entry: Entry) -> tuple[str, str | None, str | None]:
    return entry["model"], entry["split"], entry["pool"]


def _places(entries: Sequence[Entry], study: Mapping[str, Any]) -> list[tuple[str, str | None, str | None]]:
    """Models, and for each the splits in the study's order, then the pools."""
    models = {name: i for i, name in enumerate(study["models"])}
    splits = {split["name"]: i for i, split in enumerate(study["splits"])}
    found = {_place(entry) for entry in entries}
    return sorted(found, key=lambda p: (models[p[0]], splits.get(p[1] or "", len(splits)), p[2] or ""))


def _where(place: tuple[str, str | None, str | None], show: Labels) -> str:
    return show.split(place[1]) if place[1] is not None else f"all {place[2]} splits"


def _observed(entry: Entry) -> str:
    """The judge's own rate; with its interval, where it is known."""
    ends = [entry.get(f"observed_{end}") for end in ("low", "high")]
    return share_text(entry["observed"], ends) + mark_of(entry.get("observed_flags", ()))


def _without(entry: Entry | None) -> str:
    """What stands in place of a rate that gold of other models does not give."""
    return "at odds with gold" if entry is not None and entry["at_odds"] else "not identifiable"


def _rate(entry: Entry | None, otherwise: str) -> str:
    if entry is None:
        return NO_DATA
    if entry["value"] is None:
        return otherwise
    return rate_text(entry) + mark_of(entry["flags"])
