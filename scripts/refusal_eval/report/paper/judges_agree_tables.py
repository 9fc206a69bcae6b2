"""The table of agreement between a study's judges, as a frame for CSV and as text."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from refusal_eval.report.paper.display import MARKS, NO_DATA, Labels, marked, notes_of, ordered
from refusal_eval.report.paper.markup import Table, told_once
from refusal_eval.report.paper.table_data import Made, TableData
from refusal_eval.report.paper.table_notes import READINGS_NOTE, share_text, value_text
from refusal_eval.stats.estimates.estimands import READINGS
from refusal_eval.stats.judge_pairs.pair_agreement import MIN_ROWS, THREE

ALL = "all"
_ALPHA = "all: alpha"  # the row of all judges
_MOST_JUDGES = 3
_MOST_SWAPS = 5

Agreement = Mapping[str, Any]


def judges_agree(data: TableData) -> Made:
    """Return how far the judges of a study agree with each other."""
    found = data.found("agreement")
    return agreement_frame(found), [told_once(agreement_table(found, data.order("judges"), data.labels))]


def agreement_frame(agreement: Agreement) -> pd.DataFrame:
    """One row per split, pair of judges (or all), reading and measure: value, ends of its interval, n, flags.

    Rows are sorted by split, whatever the order of the study. `split` is `all` for all splits together, `second` is
    empty where a row is about all judges. tau is the order of the models: n are models there, else answers.
    """
    rows: list[dict[str, Any]] = []

    def add(split: str | None, judges: tuple[str, str | None], names: tuple[str, str], of: Any, flags: Any) -> None:
        (reading, measure), (low, high) = names, of["interval"] or (None, None)
        row = {"split": split or ALL, "first": judges[0], "second": judges[1], "reading": reading, "measure": measure}
        rows.append(row | {"value": of["value"], "low": low, "high": high, "n": of["n"], "flags": " ".join(flags)})

    for group in sorted(agreement["groups"], key=lambda group: group["split"] or ""):
        for pair in group["pairs"]:
            judges = (pair["first"], pair["second"])
            for reading in (*READINGS, THREE):
                for measure in ("same", "kappa"):
                    of = pair[reading][measure] | {"n": pair["n"]}
                    add(group["split"], judges, (reading, measure), of, pair["flags"])
        for reading in (*READINGS, THREE) if group["alpha"] else ():
            of = group["alpha"][reading] | {"n": group["n_alpha"]}
            add(group["split"], (ALL, None), (reading, "alpha"), of, group["alpha_flags"])
    for rank in sorted(agreement["rankings"], key=lambda rank: rank["split"]):
        tau = {"value": rank["tau"], "interval": rank["interval"], "n": rank["n_models"]}
        add(rank["split"], (rank["first"], rank["second"]), (rank["reading"], "tau"), tau, rank["flags"])
    columns = ["split", "first", "second", "reading", "measure", "value", "low", "high", "n", "flags"]
    return pd.DataFrame(rows, columns=columns, dtype=object)


def agreement_table(agreement: Agreement, judges: Sequence[str] = (), labels: Labels | None = None) -> Table:
    """One row per pair of judges over all splits, and per split: same labels, kappa, tau; then alpha of the raters.

    With more than three judges the pairs of a split are left to the CSV. Over all splits tau is the lowest of them; a
    study without any tau has no column for it.
    """
    show = labels or Labels()
    places = {name: i for i, name in enumerate(ordered(agreement["judges"], judges))}
    ranked = any(rank["tau"] is not None for rank in agreement["rankings"])
    rows = []
    for group in agreement["groups"]:
        where = "All splits" if group["split"] is None else show.split(group["split"])
        shown = group["pairs"] if group["split"] is None or len(places) <= _MOST_JUDGES else []
        for pair in sorted(shown, key=lambda p: sorted(places[p[side]] for side in ("first", "second"))):
            names = sorted((pair["first"], pair["second"]), key=places.__getitem__)
            rank = _rank(agreement["rankings"], group["split"], pair)
            tau = NO_DATA if rank is None else marked(value_text(rank["tau"], rank["interval"]), rank["flags"])
            shares = [share_text(share["value"], share["interval"]) for share in (pair[r]["same"] for r in READINGS)]
            kappas = [_text(pair[reading]["kappa"]) for reading in READINGS]
            rows.append(
                [
                    *(where, " and ".join(show.judge(name) for name in names), str(pair["n"])),
                    *(marked(text, pair["flags"]) for text in (*shares, *kappas)),
                    *([tau] if ranked else []),
                ]
            )
        if group["alpha"] and len(group["raters"]) > 2:
            alphas = [marked(_text(group["alpha"][reading]), group["alpha_flags"]) for reading in READINGS]
            none = [NO_DATA] if ranked else []
            rows.append([where, _ALPHA, str(group["n_alpha"]), NO_DATA, NO_DATA, *alphas, *none])
    header = ["Split", "Judges", "Answers", "Same label\nstrict", "Same label\nbroad", "Kappa\nstrict", "Kappa\nbroad"]
    header += ["Order of\nmodels (tau)"] if ranked else []
    return Table(
        name="judges-agree",
        caption="Agreement between judges.",
        header=header,
        rows=rows,
        notes=_notes(agreement, rows, ranked, show),
        keys=2,
        # Of a single pair all numbers stand side by side.
        per_block=3 if len(places) > 2 else None,
    )


def _notes(agreement: Agreement, rows: Sequence[Sequence[str]], ranked: bool, show: Labels) -> list[str]:
    several = len(agreement["judges"]) > 2
    kappa = "Kappa: Cohen's; for all judges, Krippendorff's alpha" if several else "Kappa: Cohen's"
    if any(NO_DATA in row[5:7] for row in rows):
        kappa += f"; {NO_DATA} where both judges put fewer than {MIN_ROWS} answers in one class"
    known = {rank["n_models"] for rank in agreement["rankings"]}
    tau = (
        f"Tau: Kendall's tau-b between the two judges' orders of the {max(known, default=0)} models by headline "
        "refusal rate, from 1 (same order) to \u22121 (reversed); over all splits, the lowest tau"
    )
    if ranked and any(row[7] == NO_DATA for row in rows if row[1] != _ALPHA):
        tau += f"; {NO_DATA} where a judge gives all models one rate"
    return [
        f"With {100 * agreement['level']:g} % intervals over clusters: {_methods(ranked, several)}. {READINGS_NOTE}",
        f"Same label: share in percent of the answers that both judges labelled. {kappa}.",
        *([f"{tau}."] if ranked else []),
        *_overlaps(agreement, show),
        *_swaps(agreement["rankings"], show),
        *_disputed(agreement),
        *_marks(rows),
        "That judges agree does not make them right: the judge cards show their agreement with people.",
    ]


def _marks(rows: Sequence[Sequence[str]]) -> list[str]:
    """The notes for the marks that numbers have."""
    shown = "".join(cell for row in rows for cell in row[3:])
    return notes_of(flag for flag, (symbol, _) in MARKS.items() if symbol in shown)


def _methods(ranked: bool, several: bool) -> str:
    """How the intervals of the columns are made."""
    reaching = ["kappa", *(["alpha"] if several else [])]
    drawn = [*reaching, *(["tau"] if ranked else [])]
    unseen = f"extended to allow for unseen exceptions for {' and '.join(reaching)}"
    return f"Wilson for same label; bootstrap for {', '.join(drawn)}, {unseen}"


def _disputed(agreement: Agreement) -> list[str]:
    """How many answers the judges label differently, and how many of them are listed."""
    disputed = agreement.get("disputed")
    if not disputed or not disputed["found"]:
        return []
    found, listed = disputed["found"], disputed["listed"]
    which = "all of them" if listed == found else f"the {listed} that they disagree on most"
    return [f"Answers that judges label differently: {found}; judges_disagree.csv lists {which}."]


def _rank(ranks: Iterable[Mapping[str, Any]], split: str | None, pair: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The ranking of a pair on a split; for all splits the one with the lowest tau."""
    both = (pair["first"], pair["second"])
    found = [rank for rank in ranks if (rank["first"], rank["second"]) == both and split in (None, rank["split"])]
    known = [rank for rank in found if rank["tau"] is not None]
    return min(known, key=lambda rank: (rank["tau"], rank["split"]), default=None)


def _text(of: Mapping[str, Any]) -> str:
    return value_text(of["value"], of["interval"])


def _overlaps(agreement: Agreement, show: Labels) -> list[str]:
    """Which judges are panels: whom alpha leaves out, and whose pairs agree in part with themselves."""
    group = agreement["groups"][0]
    panels = [show.judge(judge) for judge in agreement["judges"] if judge not in group["raters"]]
    if not panels:
        return []
    pairs = [
        " and ".join(show.judge(pair[side]) for side in ("first", "second"))
        for pair in group["pairs"]
        if pair["overlap"]
    ]
    notes = [f"Panels only combine other judges, so alpha leaves them out: {', '.join(panels)}."]
    if pairs:
        notes.append(f"A panel agrees with its members in part because it consists of them: {'; '.join(pairs)}.")
    return notes


def _swaps(ranks: Iterable[Mapping[str, Any]], show: Labels) -> list[str]:
    """Which models change places: a note for each of the first few splits and pairs of judges where some do."""
    changed = [rank for rank in ranks if rank["swapped"]]
    notes = []
    for rank in changed[:_MOST_SWAPS]:
        pairs = [f"{show.model(a)} and {show.model(b)}" for a, b in rank["swapped"][:3]]
        more = f" and {len(rank['swapped']) - 3} more" if len(rank["swapped"]) > 3 else ""
        judges = f"{show.judge(rank['first'])} and {show.judge(rank['second'])}"
        notes.append(f"On {show.split(rank['split'])}, {judges} reverse the order of {', '.join(pairs)}{more}.")
    if len(changed) > _MOST_SWAPS:
        notes.append(f"Further reversed orders, by split and pair of judges: {len(changed) - _MOST_SWAPS}.")
    return notes
