"""What tests of equivalence, mid-p values and odds ratios do when the truth is known.

Answers are made up as for `comparison_errors.py`. Tables:

- equivalence: share of comparisons called equivalent where the true difference is the margin (false claims), by the
  test that studies make and by one without the two added prompts, and where there is no difference (power)
- mid-p: share of p <= .05 where both models are alike, of the sign-flip test, exact and mid-p; and coverage of the odds
  ratio's 95 % interval where the true difference is 0.05, of those that have one

The seeds are fixed: the same code prints the same tables. `--write` puts them into docs/comparisons.md.
"""

from __future__ import annotations

import argparse
import itertools
import re
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pandas as pd
from comparison_errors import ALPHA, all_designs, allowed
from measuring import ROOT
from scipy import stats
from simulated_comparisons import percents, simulated_refusals, table_by_rate

from refusal_eval.stats.comparisons.effects import Effects, effects
from refusal_eval.stats.comparisons.paired import Panel
from refusal_eval.stats.comparisons.sign_flips import sign_flip_p
from refusal_eval.stats.estimates.intervals import Floats
from refusal_eval.tools.power.comparison_design import Design

DOCS = ROOT / "docs" / "comparisons.md"
CLUSTERS, MARGINS = (20, 50, 200), (0.05, 0.1)
# Of each table: how many shares a cell has, and what its columns are called behind the rate.
CELLS = {"equivalence": (3, tuple(f", margin {margin:g}" for margin in MARGINS)), "mid-p": (4, ("",))}
INDEX = pd.MultiIndex.from_tuples([], names=["split", "prompt_id", "turn"])  # no number needs the rows' names
Shares = dict[str, list[float]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; return 1 if false claims of equivalence exceed what a test of the right level makes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="made-up comparisons per number (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write the tables into docs/comparisons.md")
    chosen = parser.parse_args(arguments)
    designs = [design for design in all_designs() if design.clusters in CLUSTERS]
    with ProcessPoolExecutor(chosen.processes) as pool:
        found: list[Shares] = []
        for shares in pool.map(measured, designs, itertools.repeat(chosen.runs)):
            found.append(shares)
            print(f"{len(found)} of {len(designs)}", file=sys.stderr, flush=True)
    page = DOCS.read_text(encoding="utf-8")
    for name, (size, parts) in CELLS.items():
        texts = (
            [percents(shares[name][at : at + size]) for at in range(0, len(shares[name]), size)] for shares in found
        )
        text = table_by_rate(zip(designs, texts, strict=True), parts)
        print(f"\n{name}, {chosen.runs:,} runs per number\n\n{text}")
        region = re.compile(rf"(<!-- table {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        page = region.sub(lambda match, text=text: f"{match[1]}\n{text}\n\n{match[2]}", page)  # type: ignore[misc]
    if chosen.write:
        DOCS.write_text(page, encoding="utf-8")
    most = allowed(chosen.runs)
    return int(any(share > most for shares in found for share in shares["equivalence"][::3]))


def measured(design: Design, runs: int) -> Shares:
    """Return the shares of a row of each table."""
    seed = int(1e6 * design.rate) + 1000 * design.samples + 10 * design.clusters + round(design.prompts_per_cluster)
    alike = simulated_refusals(design, 0.0, runs, seed)
    equivalence = []
    for margin in MARGINS:
        apart = simulated_refusals(design, margin, runs, seed + 1)
        plain = np.mean([unadjusted_p(design, one, two, margin) <= ALPHA for one, two in pairs_of(apart)])
        equivalence += [claimed(design, apart, margin), float(plain), claimed(design, alike, margin)]
    sums = (alike[1] - alike[0]).sum(axis=2).astype(np.int64)
    alarms = [float(np.mean([sign_flip_p(own, seed, mid=mid)[0] <= ALPHA for own in sums])) for mid in (False, True)]
    apart = simulated_refusals(design, 0.05, runs, seed + 2)
    odds = (design.rate + 0.05) / (0.95 - design.rate) / (design.rate / (1 - design.rate))
    ratios = [effects_of(design, one, two) for one, two in pairs_of(apart)]
    given = [(e.odds_ratio_low, e.odds_ratio_high) for e in ratios if e.odds_ratio_low and e.odds_ratio_high]
    covered = float(np.mean([low <= odds <= high for low, high in given])) if given else float("nan")
    return {"equivalence": equivalence, "mid-p": [*alarms, len(given) / runs, covered]}


def claimed(design: Design, refusals: Floats, margin: float) -> float:
    """Return the share of runs that are called equivalent."""
    found = [effects_of(design, one, two, margin).equivalence_p for one, two in pairs_of(refusals)]
    return float(np.mean([p is not None and p <= ALPHA for p in found]))


def pairs_of(refusals: Floats) -> Iterator[tuple[Floats, Floats]]:
    """Yield the refusals of both models in each run."""
    first, second = refusals
    yield from zip(first, second, strict=True)


def effects_of(design: Design, first: Floats, second: Floats, margin: float | None = None) -> Effects:
    """Return what is said of the second model less the first, from refusals as clusters x prompts."""
    rates = np.column_stack([second.ravel(), first.ravel()]) / design.samples
    clusters = np.repeat(np.arange(len(first)), first.shape[1])
    splits = np.zeros(len(rates), dtype=np.intp)
    panel = Panel(INDEX, clusters, splits, rates, rates, rates, rates, (design.samples,) * 2)
    return effects(panel, 0, 1, 1 - ALPHA, margin)


def unadjusted_p(design: Design, first: Floats, second: Floats, margin: float) -> float:
    """Return the p value of two one-sided t tests of the clusters' mean differences."""
    means = ((second - first) / design.samples).mean(axis=1)
    error = float(means.std(ddof=1)) / np.sqrt(len(means))
    if error == 0:
        return 0.0 if abs(means[0]) < margin else 1.0
    return float(stats.t.sf((margin - abs(means.mean())) / error, len(means) - 1))


if __name__ == "__main__":
    sys.exit(main())
