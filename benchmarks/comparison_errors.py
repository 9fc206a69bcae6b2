"""What the comparison of two models does when the truth is known: false alarms, power, and coverage of its interval.

Answers are made up (`simulated_comparisons.py`), and the comparison is the one that studies make. The table shows:

- false alarms, like models: share of p <= .05 where both models have the same distribution of probabilities over
  prompts
- false alarms, unlike models: both have the same rate, but one varies little between prompts and the other nearly
  always gives the same answer; the sign-flip test does not promise its level there
- power: share of p <= .05 at a true difference for which the normal approximation (`refusal-eval power`) says 80 %;
  the largest that the rate leaves room for where there is none
- coverage: share of 95 % intervals that hold that true difference

The seeds are fixed: the same code prints the same table. `--write` puts it into docs/evidence/comparisons.md.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
import pandas as pd
from measuring import ROOT
from scipy import stats
from simulated_comparisons import cluster_correlation_of, percents, probabilities, simulated_refusals, table_by_rate

from refusal_eval.core.files import write_text
from refusal_eval.stats.comparisons.paired import Paired, PairedPanel, paired_differences
from refusal_eval.stats.estimates.intervals import Floats
from refusal_eval.tools.power.comparison_design import Design, detectable, power

RATES, SAMPLES, CLUSTERS, SIZES = (0.02, 0.1, 0.5), (1, 5), (10, 20, 50, 100, 200), (1, 10)
ALPHA, WANTED = 0.05, 0.8
# Correlations of the made-up answers: two answers to a prompt, the models over prompts, what a cluster shares.
PROMPT, MODEL, SHARED = 0.6, 0.5, 0.3
UNLIKE = (0.2, 0.95)  # the first of these of the two unlike models
BEGIN = "<!-- comparison errors: begin (written by benchmarks/comparison_errors.py) -->"
END = "<!-- comparison errors: end -->"


@dataclass(frozen=True)
class Row:
    """A row of the table; shares of the runs."""

    design: Design
    alarms: float
    unlike: float
    difference: float
    power: float
    approximated: float
    coverage: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if like models give more false alarms than the level allows, from 20 clusters on."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="made-up comparisons per number (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write the table into docs/evidence/comparisons.md")
    chosen = parser.parse_args(arguments)
    designs = list(all_designs())
    with ProcessPoolExecutor(chosen.processes) as pool:
        rows = []
        for row in pool.map(measured, designs, itertools.repeat(chosen.runs)):
            rows.append(row)
            print(f"{len(rows)} of {len(designs)}", file=sys.stderr, flush=True)
    text = table(rows, chosen.runs)
    print(text)
    if chosen.write:
        path = ROOT / "docs" / "evidence" / "comparisons.md"
        before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
        _, end, after = rest.partition(END)
        if not (begin and end):
            print(f"{path} has not the lines {BEGIN} and {END}", file=sys.stderr)
            return 1
        write_text(path, f"{before}{BEGIN}\n\n{text}\n{END}{after}")
    most = allowed(chosen.runs)
    return int(any(row.alarms > most for row in rows if row.design.clusters >= 20))


def all_designs() -> Iterator[Design]:
    """Yield the designs of the table's rows."""
    for rate, samples, size, clusters in itertools.product(RATES, SAMPLES, SIZES, CLUSTERS):
        design = Design(clusters, size, samples, rate, PROMPT, MODEL)
        shared = cluster_correlation_of(design, 0.0, SHARED) if size > 1 else 0.0
        yield dataclasses.replace(design, cluster_correlation=shared)


def measured(design: Design, runs: int) -> Row:
    """Return a row of the table."""
    seed = int(1e6 * design.rate) + 1000 * design.samples + 10 * design.clusters + round(design.prompts_per_cluster)
    difference = detectable(design, WANTED, ALPHA) or 0.98 - design.rate
    null = compared(design, simulated_refusals(design, 0.0, runs, seed))
    unlike = compared(design, unlike_refusals(design, runs, seed + 1))
    real = compared(design, simulated_refusals(design, difference, runs, seed + 2))
    return Row(
        design=design,
        alarms=found(null),
        unlike=found(unlike),
        difference=difference,
        power=found(real),
        approximated=power(design, difference, ALPHA),
        coverage=float(np.mean([one.low <= difference <= one.high for one in real])),  # type: ignore[operator]
    )


def found(results: Sequence[Paired]) -> float:
    """Return the share of comparisons with a p value of at most 5 %."""
    return float(np.mean([one.p is not None and one.p <= ALPHA for one in results]))


def compared(design: Design, refusals: Floats) -> list[Paired]:
    """Return the second model minus the first of each run, from refusals as 2 x runs x clusters x prompts."""
    _, runs, clusters, size = refusals.shape
    rates = (refusals / design.samples).reshape(2 * runs, clusters * size).T
    panel = PairedPanel(
        units=pd.MultiIndex.from_product([["made-up"], range(clusters * size), [0]]),
        clusters=np.repeat(np.arange(clusters), size),
        splits=np.zeros(clusters * size, dtype=np.intp),
        rates=rates,
        lows=rates,
        highs=rates,
        votes=rates,
        denominators=(design.samples,) * (2 * runs),
    )
    names = ["made-up", *map(str, range(2 * runs))]
    return paired_differences(panel, [(runs + run, run) for run in range(runs)], names, 1 - ALPHA, resamples=2000)


def unlike_refusals(design: Design, runs: int, seed: int) -> Floats:
    """Return refusals like `simulated_refusals` of two models with one rate and other spreads over prompts."""
    rng = np.random.default_rng(seed)
    shape = (runs, design.clusters, round(design.prompts_per_cluster))
    both = []
    for spread in UNLIKE:
        normal = rng.standard_normal(shape)
        if design.prompts_per_cluster > 1:
            normal = np.sqrt(SHARED) * rng.standard_normal((*shape[:2], 1)) + np.sqrt(1 - SHARED) * normal
        both.append(rng.binomial(design.samples, probabilities(normal, design.rate, spread)))
    return np.array(both, dtype=float)


def allowed(runs: int) -> float:
    """Return the share of false alarms that a test of the right level exceeds once in a thousand tables' cells."""
    return float(stats.binom.ppf(0.999, runs, ALPHA)) / runs


def table(rows: Sequence[Row], runs: int) -> str:
    """Return the table in Markdown, with what it was made of."""
    lines = [
        f"{runs:,} simulated comparisons per number; two answers to one prompt correlate by {PROMPT:g}, the models by "
        f"{MODEL:g}.",
        f"Prompts of a cluster share {SHARED:.0%} of the model-specific part. Unlike models: {UNLIKE[0]:g} and "
        f"{UNLIKE[1]:g} instead of {PROMPT:g}. A test that",
        f"keeps 5 % gives at most {allowed(runs):.1%} here (more in one of a thousand numbers). In a cell, in percent: "
        "false alarms of like / of unlike models,",
        "then at a true difference (in brackets, in points) power / coverage. The difference is that for which the "
        f"approximation says {WANTED:.0%}.",
        "",
    ]
    cells = ((row.design, [cell_of(row)]) for row in rows)
    return "\n".join(lines) + "\n" + table_by_rate(cells) + "\n"


def cell_of(row: Row) -> str:
    """Return what the table shows of a design."""
    found = f"{percents((row.alarms, row.unlike))}, {percents((row.power, row.coverage))} ({100 * row.difference:.1f})"
    return found if abs(row.approximated - WANTED) < 0.0005 else f"{found}, approximated {row.approximated:.1%}"


if __name__ == "__main__":
    sys.exit(main())
