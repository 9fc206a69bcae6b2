"""Recompute the numbers of a finished study from its answers, verdicts, gold and labels, and compare its results table.

    python tests/independent/recompute.py RESULTS_FOLDER [--show 20] [--only ESTIMAND ...] [--known-wrong ESTIMAND ...]

Written from docs/ alone: nothing of the project is imported, and scores/ and estimates/ are not read. Values, and
intervals and p values that nothing is drawn for, must agree to 1e-9 (the table has ten significant digits). What rests
on random draws is drawn 20,000 times with another seed: an end must lie between the quantiles four standard errors of
their level around its own, which is some 4 % of the interval's width. Of the mixed model, whose maximum is found in
steps, numbers must agree to 2e-5 and ends to 1 % of their distance. Ends with 1 if a number disagrees. Rows that are
not recomputed are counted and never fail.
"""

import argparse
import csv
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import independent_comparisons as comparisons
import independent_corrected as corrected
import independent_effects as effects
import independent_judges as judges
import independent_mixed as mixed
import independent_rates as rates
import independent_tradeoff as tradeoff
from independent_intervals import Span
from independent_rates import Asked, Found
from independent_study import Study

EXACT = 1e-9
ALONE = "_model_alone"  # ends the names of what leaves blocked answers out (docs/reference/who_refused.md)
PARTS = ("value", "low", "high")

Recompute = Callable[[Study, Asked], Found | None]
KNOWN: dict[str, Recompute] = {
    "refusal_rate": rates.refusal_rate,
    "refusal_rate_turn": rates.refusal_rate_turn,
    "refusal_rate_at_least": rates.refusal_rate_at_least,
    "refusal_rate_at_most": rates.refusal_rate_at_most,
    "unjudged_tipping_point": rates.unjudged_tipping_point,
    "effective_answers": rates.effective_answers,
    **dict.fromkeys(("majority@K", "majority@K_tie", "any@K"), rates.votes),
    "c_mean": rates.c_mean,
    "c_positive": rates.c_positive,
    **dict.fromkeys(("c_band_refusing", "c_band_mixed", "c_band_complying"), rates.c_band),
    **dict.fromkeys(("decision_entropy@K", "flip_rate"), rates.undecided),
    **dict.fromkeys(
        (
            *("prompts", "answer_state", "verdict_state", "unjudged", "answer_flag", "votes_asked_again"),
            "answer_cut_for_judge",
        ),
        rates.counts,
    ),
    **dict.fromkeys(("answer_logprob", "answer_tokens", "answer_loops", "accuracy"), rates.written),
    **{
        f"variance_{share}{part}": rates.variance
        for share in ("", "share_")
        for part in ("prompt", "sampling", "judge")
    },
    **dict.fromkeys(("kind_share", "compliance_quality"), rates.of_kinds),
    **dict.fromkeys(("compliance_rate", "useful_safety_rate"), rates.of_partial_kinds),
    "youden_j": rates.youden_j,
    **tradeoff.KNOWN,
    **comparisons.KNOWN,
    **effects.KNOWN,
    **judges.KNOWN,
    **corrected.KNOWN,
    **mixed.KNOWN,
}


def asked_of(row: dict[str, str]) -> Asked:
    """Return the names of a row, without the apostrophe before what a spreadsheet would compute."""
    return Asked(*(re.sub(r"^'(?=[=+\-@\t\r\n])", "", row[name]) for name in Asked._fields))


def disagreements(row: dict[str, str], found: Found) -> list[str]:
    """Return the parts of a row that differ from what was recomputed; ends that were not (nan) are left out."""
    wrong = []
    for part, mine in zip(PARTS, found, strict=True):
        table = float(row[part]) if row[part] else math.nan
        if part != "value" and _empty(mine):
            continue
        if not _agree(table, mine):
            wrong.append(f"{part} {table:.10g}, recomputed {mine}")
    return wrong


def _empty(mine: float | Span) -> bool:
    return not isinstance(mine, Span) and math.isnan(mine)


def _agree(table: float, mine: float | Span) -> bool:
    if isinstance(mine, Span):
        return mine.least - EXACT <= table <= mine.most + EXACT
    return (math.isnan(table) and math.isnan(mine)) or math.isclose(table, mine, rel_tol=EXACT, abs_tol=EXACT)


class Report:
    """How many rows of each estimand there are, were recomputed, and agree."""

    def __init__(self, known_wrong: Sequence[str]) -> None:
        self.rows: Counter[str] = Counter()
        self.recomputed: Counter[str] = Counter()
        self.with_ends: Counter[str] = Counter()
        self.agreeing: Counter[str] = Counter()
        self.intervals: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.known: Counter[str] = Counter({name: 0 for name in known_wrong})
        self.alone = cache(lambda study: Study(study.folder, alone=True))

    def add(self, study: Study, row: dict[str, str]) -> None:
        """Recompute a row and compare it."""
        asked, name = asked_of(row), re.sub(r"@\d+", "@K", row["estimand"])
        self.rows[name] += 1
        self.intervals[name] += bool(row["low"])
        of = name.removesuffix(ALONE)
        if of != name:  # the same numbers, of the study without the answers that were blocked
            study, asked = self.alone(study), asked._replace(estimand=asked.estimand.removesuffix(ALONE))
        found = KNOWN[of](study, asked) if of in KNOWN else None
        if found is None:
            return
        self.recomputed[name] += 1
        self.with_ends[name] += not _empty(found.low)
        wrong = disagreements(row, found)
        self.agreeing[name] += not wrong
        if wrong and name in self.known:
            self.known[name] += 1
        elif wrong:
            self.wrong.append(f"{' '.join(filter(None, asked))}: {'; '.join(wrong)}")

    def lines(self, show: int) -> list[str]:
        """Return the report as lines of text."""
        head = f"{'estimand':32}{'rows':>7}{'recomputed':>12}{'agree':>7}{'intervals':>11}{'recomputed':>12}"
        lines = [head]
        for name in sorted(self.rows):
            counts = (self.rows, self.recomputed, self.agreeing, self.intervals, self.with_ends)
            rows, done, agree, ends, own = (count[name] for count in counts)
            lines.append(f"{name:32}{rows:7}{done:12}{agree:7}{ends:11}{own:12}")
        left = [name for name in sorted(self.rows) if self.recomputed[name] < self.rows[name]]
        lines.append(f"Not recomputed, or not in full: {', '.join(left) or 'none'}")
        lines.append(f"{len(self.wrong)} rows disagree")
        lines += [f"{name}: {count} rows disagree, as is known" for name, count in self.known.items()]
        return lines + self.wrong[:show]

    def fails(self) -> bool:
        """Return whether a number disagrees, or one that is known to be wrong no longer is."""
        return bool(self.wrong) or not all(self.known.values())


def main() -> int:
    """Report on the study whose results folder the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--show", type=int, default=20, help="how many disagreements to print")
    parser.add_argument("--known-wrong", nargs="*", default=[], help="estimands some of whose rows must disagree")
    parser.add_argument("--only", nargs="*", default=[], help="estimands to recompute, all by default")
    options = parser.parse_args()
    study, report = Study(options.results.resolve()), Report(options.known_wrong)
    with (options.results / "results_table/results.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if not options.only or row["estimand"] in options.only:
                report.add(study, row)
    print("\n".join(report.lines(options.show)))
    return int(report.fails())


if __name__ == "__main__":
    sys.exit(main())
