"""The table of agreement between a study's judges, as a frame for CSV and as text."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from refusal_eval.config.report_sections import JUDGES
from refusal_eval.features.judge_pairs.agreement_estimates import ALL, agreement_numbers
from refusal_eval.features.judge_pairs.pair_agreement import MIN_ROWS
from refusal_eval.report.paper.display import MARKS, NO_DATA, Labels, add_marks, notes_of, order_names
from refusal_eval.report.paper.filled_notes import filled_notes
from refusal_eval.report.paper.markup import Table, move_to_notes
from refusal_eval.report.paper.table_data import TableData, TableParts
from refusal_eval.report.paper.table_kind import StudyTable
from refusal_eval.report.paper.table_notes import share_text, value_text
from refusal_eval.stats.estimates.estimands import READINGS

_ALPHA = "all: alpha"  # the row of all judges
_MOST_JUDGES = 3
_MOST_SWAPS = 5

Agreement = Mapping[str, Any]


def judges_agree(data: TableData) -> TableParts:
    """Return how far the judges of a study agree with each other."""
    found = data.found("judge_agreement")
    return agreement_frame(found), [move_to_notes(agreement_table(found, data))]


def agreement_frame(agreement: Agreement) -> pd.DataFrame:
    """One row per split, pair of judges (or all), reading and measure: value, ends of its interval, n, flags.

    Rows are sorted by split, whatever the order of the study. `split` is `all` for all splits together, `second` is
    empty where a row is about all judges. tau is the order of the models: n are models there, else answers.
    """
    rows = []
    found = sorted(agreement_numbers(agreement), key=lambda of: (of["measure"] == "tau", of["split"] or ""))
    for of in found:
        low, high = of["interval"] or (None, None)
        names = {"split": of["split"] or ALL, "first": of["first"] if of["second"] else ALL}
        rows.append(of | names | {"low": low, "high": high})
    columns = ["split", "first", "second", "reading", "measure", "value", "low", "high", "n", "flags"]
    return pd.DataFrame(rows, columns=columns, dtype=object)


def agreement_table(agreement: Agreement, data: TableData) -> Table:
    """One row per pair of judges over all splits, and per split: same labels, kappa, tau; then alpha of the raters.

    With more than three judges the pairs of a split are left to the CSV. Over all splits tau is the lowest of them; a
    study without any tau has no column for it.
    """
    show = data.labels
    places = {name: i for i, name in enumerate(order_names(agreement["judges"], data.order("judges")))}
    ranked = any(rank["tau"] is not None for rank in agreement["rankings"])
    rows = []
    for group in agreement["groups"]:
        where = "All splits" if group["split"] is None else show.split(group["split"])
        shown = group["pairs"] if group["split"] is None or len(places) <= _MOST_JUDGES else []
        for pair in sorted(shown, key=lambda p: sorted(places[p[side]] for side in ("first", "second"))):
            names = sorted((pair["first"], pair["second"]), key=places.__getitem__)
            rank = _rank(agreement["rankings"], group["split"], pair)
            tau = NO_DATA if rank is None else add_marks(value_text(rank["tau"], rank["interval"]), rank["flags"])
            shares = [share_text(share["value"], share["interval"]) for share in (pair[r]["same"] for r in READINGS)]
            kappas = [_text(pair[reading]["kappa"]) for reading in READINGS]
            rows.append(
                [
                    *(where, " and ".join(show.judge(name) for name in names), str(pair["n"])),
                    *(add_marks(text, pair["flags"]) for text in (*shares, *kappas)),
                    *([tau] if ranked else []),
                ]
            )
        known = group["alpha"] and any(group["alpha"][reading]["value"] is not None for reading in READINGS)
        if known and len(group["raters"]) > 2:
            alphas = [add_marks(_text(group["alpha"][reading]), group["alpha_flags"]) for reading in READINGS]
            none = [NO_DATA] if ranked else []
            rows.append([where, _ALPHA, str(group["n_alpha"]), NO_DATA, NO_DATA, *alphas, *none])
    header = ["Split", "Judges", "Answers", "Same label\nstrict", "Same label\nbroad", "Kappa\nstrict", "Kappa\nbroad"]
    header += ["Order of\nmodels (tau)"] if ranked else []
    notes = _notes(agreement, rows, ranked, show)
    blocks = 3 if len(places) > 2 else None  # a single pair has all numbers side by side
    return Table("judges-agree", "Agreement between judges.", header, rows, notes, keys=2, per_block=blocks)


def _notes(agreement: Agreement, rows: Sequence[Sequence[str]], ranked: bool, show: Labels) -> list[str]:
    group, ranks = agreement["groups"][0], agreement["rankings"]
    shown, twins = "".join(cell for row in rows for cell in row[3:]), agreement.get("twins", {})
    return filled_notes(
        "judges_agree/judges_agree",
        show,
        level=f"{100 * agreement['level']:g}",
        several=len(agreement["judges"]) > 2,
        ranked=ranked,
        least=MIN_ROWS,
        some_kappa_lacking=any(NO_DATA in row[5:7] for row in rows),
        some_tau_lacking=ranked and any(row[7] == NO_DATA for row in rows if row[1] != _ALPHA),
        models=sorted({most(rank["n_models"] for rank in ranks) for most in (min, max)}) if ranks else [],
        panels=[judge for judge in agreement["judges"] if judge not in (*group["raters"], *twins)],
        twins=list(twins.items()),
        overlaps=[pair for pair in group["pairs"] if pair["overlap"]],
        swapped=[rank for rank in ranks if rank["swapped"]],
        most_swaps=_MOST_SWAPS,
        disputed=agreement.get("disputed") or {"found": 0},
        marks=notes_of(flag for flag, (symbol, _) in MARKS.items() if symbol in shown),
    )


def _rank(ranks: Iterable[Mapping[str, Any]], split: str | None, pair: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return a pair's ranking on a split; without a split, the one with the lowest tau (ties: lowest interval)."""
    both = (pair["first"], pair["second"])
    found = [rank for rank in ranks if (rank["first"], rank["second"]) == both and split in (None, rank["split"])]
    known = [rank for rank in found if rank["tau"] is not None]
    return min(known, key=lambda r: (r["tau"], (r["interval"] or [r["tau"]])[0], r["split"]), default=None)


def _text(of: Mapping[str, Any]) -> str:
    return value_text(of["value"], of["interval"])


class JudgesAgreeTable(StudyTable):
    """Agreement between the judges."""

    name = "judges_agree"
    of_analysis = "judge_agreement"
    needs = ("judge_agreement",)
    shows = ("models", "splits", "judges")
    report = (JUDGES, "Agreement between judges")
    make = staticmethod(judges_agree)
