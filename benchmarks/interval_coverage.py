"""How often the published intervals hold the truth, simulated: 95 % intervals of rates, of means and of pooled rates.

Prompts are beta-binomial: prompt i of cluster c refuses with probability q_i, and its K samples are drawn with that.
q_i is Beta distributed around the cluster's m_c with intra-prompt correlation .5 (two samples of one prompt agree that
much more than two prompts'), m_c is Beta distributed around the rate with an intra-cluster correlation; clusters of
one prompt have none. The truth is the rate over all prompts that might have been written, not over those at hand.

`--write` puts the tables into docs/evidence/coverage.md.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from measuring import ROOT, print_head
from numpy.typing import NDArray
from scipy import special

from refusal_eval.stats.estimates.cell_estimates import flip_rate
from refusal_eval.stats.estimates.flags import few_flags
from refusal_eval.stats.estimates.intervals import (
    cluster_wilson,
    cluster_wilson_between,
    effective_number,
    pooled_rate,
    seed_of,
    wilson_ends,
)

RATES = (0.02, 0.1, 0.5, 0.9)
SAMPLES = (1, 5)
OF_PROMPT = 0.5
DOCS = ROOT / "docs" / "evidence" / "coverage.md"
TABLES = ("wilson", "unequal", "c", "flips", "pooled", "entropy")
LOWEST, HIGHEST, ENOUGH = 0.92, 0.98, 100  # what is asked for, and from how many clusters on


@dataclass(frozen=True)
class Case:
    """A kind of study: number of prompts, prompts in a cluster, their correlation, rate and K."""

    prompts: int
    cluster: int
    correlation: float
    rate: float
    samples: int

    @property
    def clusters(self) -> int:
        """Number of clusters; the last one may be smaller."""
        return math.ceil(self.prompts / self.cluster)


def main() -> None:
    """Simulate and print; with `--write` into the docs too."""
    arguments = parsed()
    print_head(f"Coverage of 95 % intervals, {arguments.studies} simulated studies a cell")
    kinds = [
        *((n, 1, 0.0) for n in (24, 50, 100, 250, 1000)),
        *((n, 20, rho) for rho in (0.1, 0.4) for n in (100, 250, 1000, 2000)),
    ]
    cases = [Case(*kind, rate, k) for kind in kinds for k in SAMPLES for rate in RATES]
    small = [
        c for c in cases if c.samples > 1 and (c.prompts in (24, 100, 250) or (c.prompts, c.cluster) == (1000, 20))
    ]
    few = arguments.bootstrap_studies
    several = [c for c in cases if c.samples > 1]
    makers: dict[str, Callable[[], str]] = {
        "wilson": lambda: wilson_table(cases, arguments.studies),
        "unequal": lambda: unequal_table(arguments.studies),
        "c": lambda: table(several, covered_all(mean_c, several, arguments.studies), arguments.studies),
        "flips": lambda: table(small, covered_all(flips, small, arguments.studies), arguments.studies),
        "pooled": lambda: pooled_table(arguments.studies, few),
        "entropy": entropy_table,
    }
    tables = {}
    for name in arguments.only or makers:
        tables[name] = makers[name]()
        print(f"\n{name}\n\n{tables[name]}", flush=True)
    if arguments.write:
        page = DOCS.read_text(encoding="utf-8")
        for name, text in tables.items():
            region = re.compile(rf"(<!-- table {name} -->\n).*?(<!-- end -->)", re.DOTALL)
            page = region.sub(lambda match, text=text: f"{match[1]}\n{text}\n\n{match[2]}", page)  # type: ignore[misc]
        DOCS.write_text(page, encoding="utf-8")


def parsed() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--studies", type=int, default=2000, help="simulated studies behind each number")
    parser.add_argument("--bootstrap-studies", type=int, default=500, help="the same where a bootstrap is simulated")
    parser.add_argument("--only", nargs="+", choices=TABLES, help="only these tables")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/evidence/coverage.md")
    return parser.parse_args()


def refusals(case: Case, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Return the refusals among the K samples of each prompt of one simulated study, and its cluster."""
    clusters = np.arange(case.prompts) // case.cluster
    means = np.full(case.clusters, case.rate)
    if case.correlation:
        means = beta(means, case.correlation, rng)
    return rng.binomial(case.samples, beta(means[clusters], OF_PROMPT, rng)), clusters


def beta(mean: NDArray[np.float64], correlation: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return draws around means whose variance is mean (1 - mean) correlation."""
    size = 1 / correlation - 1
    inside = np.clip(mean, 1e-9, 1 - 1e-9)  # a cluster that always refuses has prompts that do
    return np.clip(rng.beta(inside * size, (1 - inside) * size), 0.0, 1.0)


def wilson(case: Case, studies: int) -> tuple[float, float]:
    """Return the coverage of the refusal rate's interval, and the share of studies that are marked."""
    rng, held, marked = np.random.default_rng(seed_of("wilson", str(case))), 0, 0
    for _ in range(studies):
        found, clusters = refusals(case, rng)
        draws = case.prompts * case.samples
        interval = cluster_wilson((found / case.samples).tolist(), clusters.tolist(), draws=draws)
        held += holds(interval.low, interval.high, case.rate)
        rarer = min(len(np.unique(clusters[side])) for side in (found > 0, found < case.samples))
        sizes = np.bincount(clusters)
        marked += bool(few_flags(effective_number(sizes), rarer if case.cluster > 1 else None))
    return held / studies, marked / studies


def mean_c(case: Case, studies: int) -> float:
    """Return the coverage of mean c(x)'s interval: samples with log-probabilities that tell nothing about refusal."""
    rng, held = np.random.default_rng(seed_of("c", str(case))), 0
    for _ in range(studies):
        found, clusters = refusals(case, rng)
        z = np.where(np.arange(case.samples) < found[:, None], 1.0, -1.0)
        weights = np.exp(rng.normal(-1.0, 0.3, size=z.shape))
        c = ((weights * z).sum(axis=1) / weights.sum(axis=1)).tolist()
        interval = cluster_wilson_between(c, clusters.tolist(), (-1.0, 1.0))
        held += holds(interval.low, interval.high, 2 * case.rate - 1)
    return held / studies


def flips(case: Case, studies: int) -> float:
    """Return the coverage of the flip rate's interval; its truth is 2 E[q (1 - q)]."""
    truth = 2 * case.rate * (1 - case.rate) * (1 - case.correlation) * (1 - OF_PROMPT)
    rng, held = np.random.default_rng(seed_of("flips", str(case))), 0
    for _ in range(studies):
        found, clusters = refusals(case, rng)
        values, names = flip_rate(found, np.full(case.prompts, case.samples)).tolist(), clusters.tolist()
        interval = cluster_wilson_between(values, names, (0.0, 1.0))
        held += holds(interval.low, interval.high, truth)
    return held / studies


def pooled(sizes: Sequence[int], rates: Sequence[float], studies: int, bootstrap: bool) -> float:
    """Return the coverage of a rate pooled over splits of these sizes and rates, K = 5, prompts their own clusters."""
    rng = np.random.default_rng(seed_of("pooled", str(sizes), str(rates), str(bootstrap)))
    truth, held = float(np.mean(rates)), 0
    for _ in range(studies):
        values = [refusals(Case(n, 1, 0.0, rate, 5), rng)[0] / 5 for n, rate in zip(sizes, rates, strict=True)]
        if bootstrap:
            drawn = [v[rng.integers(len(v), size=(2000, len(v)))].mean(axis=1) for v in values]
            low, high = np.quantile(np.mean(drawn, axis=0), [0.025, 0.975])
        else:
            names = [[f"{s} {i}" for i in range(n)] for s, n in enumerate(sizes)]
            parts = {own[0]: (rates, own, [5] * len(own)) for rates, own in zip(values, names, strict=True)}
            _, interval = pooled_rate(parts, 0.95)
            low, high = interval.low, interval.high
        held += holds(low, high, truth)
    return held / studies


def holds(low: float | None, high: float | None, truth: float) -> bool:
    """Tell whether an interval holds the truth; what says nothing holds everything."""
    return low is None or high is None or low <= truth <= high


def covered_all(measure: Any, cases: Sequence[Case], studies: int) -> dict[Case, Any]:
    """Return what is measured of each case."""
    with ProcessPoolExecutor(parsed().processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        return dict(zip(cases, pool.map(measure, cases, [studies] * len(cases)), strict=True))


def runs_text(studies: int) -> str:
    """Return how many studies a cell has, and the standard error of a coverage that is right and of a low one."""
    right, low = (100 * math.sqrt(covered * (1 - covered) / studies) for covered in (0.95, 0.87))
    return f"{studies} studies a cell, standard error {right:.1f} points at a coverage of 95 %, {low:.1f} at 87 %. "


def wilson_table(cases: Sequence[Case], studies: int) -> str:
    """Return a Markdown table of the rates' intervals, with the share of studies that are marked in brackets."""
    found = covered_all(wilson, cases, studies)
    marked = {case: share for case, (_, share) in found.items()}
    return table(cases, {case: held for case, (held, _) in found.items()}, studies, marked)


def table(
    cases: Sequence[Case], covered: dict[Case, float], studies: int, marked: dict[Case, float] | None = None
) -> str:
    """Return a Markdown table: a row for each kind and K, a column for each rate; bold where the limits are missed."""
    lines = [
        "| prompts | per cluster | correlation | clusters | K | "
        + " | ".join(f"rate {rate:g}" for rate in RATES)
        + " |",
        "| ---: | ---: | ---: | ---: | ---: |" + " ---: |" * len(RATES),
    ]
    kinds = dict.fromkeys((c.prompts, c.cluster, c.correlation, c.clusters, c.samples) for c in cases)
    for n, cluster, rho, groups, k in kinds:
        own = [Case(n, cluster, rho, rate, k) for rate in RATES]
        shares = [f" [{100 * marked[case]:.0f}]" if marked else "" for case in own]
        shown = " | ".join(cell(covered[case]) + share for case, share in zip(own, shares, strict=True))
        lines.append(f"| {n} | {cluster} | {rho:g} | {groups} | {k} | {shown} |")
    enough = [value for case, value in covered.items() if case.clusters >= ENOUGH]
    kept = sum(LOWEST <= value <= HIGHEST for value in enough)
    reported = runs_text(studies)
    reported += (
        f"{kept} of {len(enough)} cells with at least {ENOUGH} clusters are within {LOWEST:.0%} to {HIGHEST:.0%}."
    )
    lines += ["", reported]
    return "\n".join(lines)


def cell(value: float) -> str:
    """Return a coverage as text."""
    shown = f"{100 * value:.1f}"
    return shown if LOWEST <= value <= HIGHEST else f"**{shown}**"


def _log_normal(number: int, middle: float) -> tuple[int, ...]:
    """Sizes at the quantiles of a log-normal distribution with standard deviation 1.2."""
    return tuple(
        max(1, round(middle * math.exp(1.2 * NormalDist().inv_cdf((i + 0.5) / number)))) for i in range(number)
    )


DESIGNS: dict[str, tuple[int, ...]] = {
    "2 of 100, 98 single": (100, 100, *[1] * 98),
    "2 of 40, 40 single": (40, 40, *[1] * 40),
    "100, Zipf (100, 50, 33, ...)": tuple(max(1, round(100 / (i + 1))) for i in range(100)),
    "300, Zipf (60 / i^0.7)": tuple(max(1, round(60 / (i + 1) ** 0.7)) for i in range(300)),
    "100, log-normal": _log_normal(100, 4),
    "300, log-normal": _log_normal(300, 3),
    "20 of 10, 80 of 3": (*[10] * 20, *[3] * 80),
}


class Unequal(NamedTuple):
    """A design with clusters of unequal size."""

    name: str
    correlation: float
    rate: float
    samples: int = 5


def unequal(case: Unequal, studies: int) -> tuple[float, float, float]:
    """Return the coverage of the refusal rate's interval, of the one without weights, and the share that is marked."""
    sizes = np.array(DESIGNS[case.name])
    codes, rng = np.repeat(np.arange(len(sizes)), sizes), np.random.default_rng(seed_of("unequal", *map(str, case)))
    draws, held, before, marked = case.samples * len(codes), 0, 0, 0
    for _ in range(studies):
        means = beta(np.full(len(sizes), case.rate), case.correlation, rng)[codes]
        found = rng.binomial(case.samples, beta(means, OF_PROMPT, rng))
        interval = cluster_wilson((found / case.samples).tolist(), codes.tolist(), draws=draws)
        held += holds(interval.low, interval.high, case.rate)
        before += holds(*unweighted(found / case.samples, codes, draws), case.rate)
        rarer = min(len(np.unique(codes[side])) for side in (found > 0, found < case.samples))
        marked += bool(few_flags(effective_number(sizes), rarer))
    return held / studies, before / studies, marked / studies


def unweighted(rates: NDArray[np.float64], codes: NDArray[np.intp], draws: int) -> tuple[float, float]:
    """Return the interval as it was before clusters were weighed by their size."""
    n, groups, p = len(rates), int(codes.max()) + 1, float(rates.mean())
    if rates.max() == 0 or rates.min() == 1:
        edge = 0.025 ** (1 / groups)
        return (0.0, 1 - edge) if p == 0 else (edge, 1.0)
    sums = np.bincount(codes, weights=rates - p) / n
    squares = sums**2
    behind = squares.sum() ** 2 / (squares**2).sum()
    n_eff = min(p * (1 - p) * (groups - 1) / groups / squares.sum(), draws)
    n_eff = (behind + 1) / (behind / n_eff + 1 / n) if n_eff > n else n_eff
    excess = 1 / behind - 1 / groups - (1 - 4 * p * (1 - p)) / (n_eff * p * (1 - p))
    freedom = groups - 1 if excess * (groups - 1) <= 1 else max(1.0, 1 / excess)
    low, high = wilson_ends(p, n_eff, float(special.stdtrit(freedom, 0.975)))
    edge = 0.025 ** (1 / max(groups, n / 2))
    return min(low, edge), max(high, 1 - edge)


def unequal_table(studies: int) -> str:
    """Return a Markdown table: a row for each design and correlation, a column for each rate."""
    rates = (0.02, 0.05, 0.1, 0.5, 0.9)
    cases = [Unequal(name, rho, rate) for name in DESIGNS for rho in (0.1, 0.3, 0.8) for rate in rates]
    with ProcessPoolExecutor(parsed().processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = dict(zip(cases, pool.map(unequal, cases, [studies] * len(cases)), strict=True))
    lines = [
        "| clusters | G* | correlation | " + " | ".join(f"rate {rate:g}" for rate in rates) + " |",
        "| --- | ---: | ---: |" + " ---: |" * len(rates),
    ]
    for name, sizes in DESIGNS.items():
        effective = effective_number(sizes)
        for rho in (0.1, 0.3, 0.8):
            shown = []
            for rate in rates:
                held, before, marked = found[Unequal(name, rho, rate)]
                shown.append(f"{cell(held)} (before {100 * before:.1f}) [{100 * marked:.0f}]")
            lines.append(f"| {name} | {effective:.1f} | {rho:g} | {' | '.join(shown)} |")
    enough = [held for case, (held, _, _) in found.items() if effective_number(DESIGNS[case.name]) >= 30]
    kept = sum(value >= LOWEST for value in enough)
    reported = runs_text(studies)
    reported += (
        f"{kept} of {len(enough)} cells with G* of 30 or more are at least {LOWEST:.0%}, {max(enough):.1%} at most."
    )
    return "\n".join([*lines, "", reported])


POOLS = (
    ((100, 100), (0.1, 0.1)),
    ((100, 100, 100), (0.02, 0.02, 0.02)),
    ((24, 1000), (0.02, 0.02)),
    ((50, 1000), (0.02, 0.02)),
    ((50, 1000), (0.02, 0.5)),
    ((30, 100, 300), (0.9, 0.5, 0.1)),
    ((24, 24, 24), (0.1, 0.1, 0.1)),
    ((300, 300, 300, 300), (0.5, 0.6, 0.7, 0.9)),
)


def pooled_table(studies: int, few: int) -> str:
    """Return a Markdown table of pooled rates by the published interval and by a bootstrap within splits."""
    with ProcessPoolExecutor(parsed().processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        ours = list(pool.map(pooled, *zip(*POOLS, strict=True), [studies] * len(POOLS), [False] * len(POOLS)))
        boots = list(pool.map(pooled, *zip(*POOLS, strict=True), [few] * len(POOLS), [True] * len(POOLS)))
    reported = f"{studies} studies a cell, {few} of the bootstrap."
    lines = [
        "| prompts of the splits | their rates | Wilson, recovered | bootstrap within splits |",
        "| --- | --- | ---: | ---: |",
    ]
    for (sizes, rates), our, boot in zip(POOLS, ours, boots, strict=True):
        lines.append(
            f"| {', '.join(map(str, sizes))} | {', '.join(f'{r:g}' for r in rates)} | {cell(our)} | {cell(boot)} |"
        )
    return "\n".join([*lines, "", reported])


def entropy_table() -> str:
    """Return a Markdown table of the decision entropy to be expected of a prompt, computed exactly."""
    shares = (0.02, 0.1, 0.25, 0.5)
    lines = ["| K | " + " | ".join(f"q = {q:g}" for q in shares) + " |", "| ---: |" + " ---: |" * len(shares)]
    for k in (2, 3, 5, 10, 20, 50):
        lines.append(f"| {k} | " + " | ".join(f"{expected_entropy(q, k):.3f}" for q in shares) + " |")
    truth = " | ".join(f"{-(q * math.log2(q) + (1 - q) * math.log2(1 - q)):.3f}" for q in shares)
    return "\n".join([*lines, f"| all | {truth} |"])


def expected_entropy(q: float, k: int) -> float:
    """Return the expected entropy (bits) of the shares observed in k samples of a prompt that refuses with q."""
    total = 0.0
    for r in range(1, k):
        share = r / k
        bits = -(share * math.log2(share) + (1 - share) * math.log2(1 - share))
        total += math.comb(k, r) * q**r * (1 - q) ** (k - r) * bits
    return total


if __name__ == "__main__":
    main()
