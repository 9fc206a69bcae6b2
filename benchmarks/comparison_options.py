"""What tests of equivalence, mid-p values and odds ratios do when the truth is known.

Answers are made up as for `comparison_errors.py`. Tables:

- equivalence: share of comparisons called equivalent where the true difference is the margin (false claims), by the
  test that studies make and by one without the two added prompts, and where there is no difference (power)
- mid-p: share of p <= .05 where both models are alike, of the sign-flip test, exact and mid-p; and coverage of the odds
  ratio's 95 % interval where the true difference is 0.05, of those that have one
- unequal: with clusters of unequal size and K = 5, share of comparisons in which a side that is worse by the margin is
  called no worse, coverage of the odds ratio's interval, and share that is marked `few_clusters`
  (docs/evidence/comparisons.md)

The seeds are fixed: the same code prints the same tables. `--write` puts them into docs/evidence/comparisons.md;
`--only equal` makes the first two, `--only unequal` the third.
"""

from __future__ import annotations

import argparse
import itertools
import math
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
from unequal_designs import DESIGNS, chances, codes_of, correlations

from refusal_eval.stats.comparisons.effects import Effects, effects
from refusal_eval.stats.comparisons.paired import PairedPanel
from refusal_eval.stats.comparisons.sign_flips import sign_flip_p
from refusal_eval.stats.estimates.flags import few_flags
from refusal_eval.stats.estimates.intervals import Floats, effective_number, seed_of
from refusal_eval.tools.power.comparison_design import Design

DOCS = ROOT / "docs" / "evidence" / "comparisons.md"
CLUSTERS, MARGINS = (20, 50, 200), (0.05, 0.1)
# Of each table: how many shares a cell has, and what its columns are called behind the rate.
CELLS = {"equivalence": (3, tuple(f", margin {margin:g}" for margin in MARGINS)), "mid-p": (4, ("",))}
PAIRS = ((0.02, 0.07), (0.1, 0.2), (0.5, 0.6), (0.9, 0.8), (0.95, 0.9))  # true rates that are a margin apart
UNEQUAL_K = 5
INDEX = pd.MultiIndex.from_tuples([], names=["split", "prompt_id", "turn"])  # no number needs the rows' names
Shares = dict[str, list[float]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; return 1 if false claims of equivalence exceed what a test of the right level makes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="made-up comparisons per number (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", choices=("equal", "unequal"), help="clusters of one size only, or the others")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/evidence/comparisons.md")
    chosen = parser.parse_args(arguments)
    designs = [design for design in all_designs() if design.clusters in CLUSTERS and chosen.only != "unequal"]
    kinds = [(name, rho, pair) for name, sizes in DESIGNS.items() for rho in correlations(sizes) for pair in PAIRS]
    kinds = kinds if chosen.only != "equal" else []
    runs = itertools.repeat(chosen.runs)
    with ProcessPoolExecutor(chosen.processes) as pool:
        found: list[Shares] = []
        for shares in pool.map(measured, designs, runs):
            found.append(shares)
            print(f"{len(found)} of {len(designs)}", file=sys.stderr, flush=True)
        parts = ([kind[i] for kind in kinds] for i in range(3))
        apart = dict(zip(kinds, pool.map(unequal, *parts, runs), strict=True))
    tables = {"unequal": unequal_table(apart)} if apart else {}
    for name, (size, heads) in CELLS.items() if found else ():
        texts = (
            [percents(shares[name][at : at + size]) for at in range(0, len(shares[name]), size)] for shares in found
        )
        tables[name] = table_by_rate(zip(designs, texts, strict=True), heads)
    page = DOCS.read_text(encoding="utf-8")
    for name, text in tables.items():
        print(f"\n{name}, {chosen.runs:,} runs per number\n\n{text}")
        page = replaced(page, name, text)
    if chosen.write:
        DOCS.write_text(page, encoding="utf-8")
    most = allowed(chosen.runs)
    wrong = [share > most for shares in found for share in shares["equivalence"][::3]]
    return int(any(wrong) or any(claims > most for claims, _, marked in apart.values() if marked < 0.5))


def replaced(page: str, name: str, text: str) -> str:
    """Return the page with a table of this name."""
    region = re.compile(rf"(<!-- table {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    return region.sub(lambda match: f"{match[1]}\n{text}\n\n{match[2]}", page)


def unequal(name: str, correlation: float, rates: tuple[float, float], runs: int) -> tuple[float, float, float]:
    """Return the shares of false claims of no worse, of odds ratios that are covered, and of marked comparisons."""
    sizes, rng = DESIGNS[name], np.random.default_rng(seed_of("unequal", name, str(correlation), str(rates)))
    codes, few = codes_of(sizes), bool(few_flags(effective_number(sizes)))
    margin, odds = abs(rates[1] - rates[0]), rates[0] * (1 - rates[1]) / (rates[1] * (1 - rates[0]))
    claims, held, marked = [], [], []
    for drawn in chances(sizes, rates, correlation, runs, rng):
        made = rng.binomial(UNEQUAL_K, drawn).T / UNEQUAL_K
        panel = PairedPanel(INDEX, codes, np.zeros(len(codes), dtype=np.intp), made, made, made, made, (UNEQUAL_K,) * 2)
        found = effects(panel, 0, 1, 1 - ALPHA, margin)
        p = found.not_lower_p if rates[0] < rates[1] else found.not_higher_p
        claims.append(p is not None and p <= ALPHA)
        marked.append(few or found.few)
        if found.odds_ratio_low is not None and found.odds_ratio_high is not None:
            held.append(found.odds_ratio_low <= odds <= found.odds_ratio_high)
    return float(np.mean(claims)), float(np.mean(held)) if held else math.nan, float(np.mean(marked))


def unequal_table(found: dict[tuple[str, float, tuple[float, float]], tuple[float, float, float]]) -> str:
    """Return the table in Markdown: a row for each design and correlation, a column for each pair of rates."""
    head = ["clusters", "G*", "correlation", *(f"{one:g} and {other:g}" for one, other in PAIRS)]
    lines = [head, ["---", "--:", "--:", *["--:"] * len(PAIRS)]]
    for name, sizes in DESIGNS.items():
        for rho in correlations(sizes):
            own = [found[name, rho, pair] for pair in PAIRS]
            texts = [f"{percents(shares[:2])} [{100 * shares[2]:.0f}]" for shares in own]
            lines.append([name, f"{effective_number(sizes):.1f}", f"{rho:g}", *texts])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


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
    panel = PairedPanel(INDEX, clusters, splits, rates, rates, rates, rates, (design.samples,) * 2)
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
