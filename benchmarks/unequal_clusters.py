"""How often intervals that are not of plain rates hold the truth where clusters are of unequal size.

- battles: by how much a refusal moves the log-odds of winning a battle (docs/reference/battles.md), alone and with
  lengths and models held equal. Each prompt has one battle, three in ten answers refuse, and a refusal wins with the
  probability at the head of the column, which correlates within clusters.
- gold: the share of rows of weighted gold on which a judge agrees with people (docs/reference/agreement.md); a third of
  the rows were drawn three times as often as the others.

The designs are those of `unequal_designs.py`. A cell has the coverage of the 95 % interval, and in brackets how many
are marked `few_clusters`, both in percent.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from unequal_designs import DESIGNS, chances, codes_of, correlations

from refusal_eval.features.battles.battle_rows import LLM, PEOPLE, PROMPTS, BattleRows
from refusal_eval.features.battles.log_odds import log_odds
from refusal_eval.stats.agreement.weighting import normalise, weighted_share
from refusal_eval.stats.estimates.flags import few_flags
from refusal_eval.stats.estimates.intervals import Floats, effective_number, effective_of, seed_of

LEVEL, REFUSING = 0.95, 0.3
WINS, AGREED = (0.1, 0.3, 0.5), (0.5, 0.8, 0.95, 0.98)
Found = tuple[float, float]  # the share of intervals that hold the truth, and of those that are marked


def battles_of(wins: Floats, codes: NDArray[np.intp], rng: np.random.Generator) -> BattleRows:
    """Return a battle of each prompt, which a refusal wins with these probabilities."""
    count = len(codes)
    refuses = rng.random((count, 2)) < REFUSING
    better = np.where(refuses[:, 0] == refuses[:, 1], 0.5, np.where(refuses[:, 0], wins, 1 - wins))
    won = (rng.random(count) < better).astype(float)
    labels = np.where(refuses, "refusal", "compliance").astype(object)
    models = np.array([rng.permutation(4)[:2] for _ in range(count)])
    names, nobody = np.array(["k", "l", "m", "n"], dtype=object)[models], np.full((count, 2), np.nan)
    lengths = np.round(rng.lognormal(6.0, 0.7, (count, 2)))
    points = {PEOPLE: np.column_stack([won, 1 - won]), LLM: nobody}
    clusters = {PROMPTS: np.array([f"{code:04d}" for code in codes], dtype=object)}
    return BattleRows(labels, labels, names, lengths, points, np.full(count, ""), clusters)


def of_battles(controls: bool, name: str, correlation: float, wins: float, runs: int) -> Found:
    """Return what becomes of the log-odds of a refusal."""
    rng, codes = np.random.default_rng(seed_of("battles", name, str(correlation), str(wins))), codes_of(DESIGNS[name])
    held, marked, truth = [], [], math.log(wins / (1 - wins))
    for drawn in chances(DESIGNS[name], (wins, wins), correlation, runs, rng):
        battles = battles_of(drawn[0], codes, rng)
        found = log_odds(battles, battles.labels, ["refusal"], controls, LEVEL)["refusal"]
        if found is not None and found.low is not None and found.high is not None:
            held.append(found.low <= truth <= found.high)
            differ = battles.labels[:, 0] != battles.labels[:, 1]
            marked.append(bool(few_flags(effective_of(battles.clusters[PROMPTS][differ]))))
    return float(np.mean(held)), float(np.mean(marked))


def of_gold(name: str, correlation: float, agreed: float, runs: int) -> Found:
    """Return what becomes of a share of weighted rows."""
    rng, codes = np.random.default_rng(seed_of("gold", name, str(correlation), str(agreed))), codes_of(DESIGNS[name])
    clusters, held = codes.tolist(), []
    for drawn in chances(DESIGNS[name], (agreed, agreed), correlation, runs, rng):
        values = (rng.random(len(codes)) < drawn[0]).astype(float)
        weights = normalise(rng.choice([1.0, 3.0], len(codes), p=[1 / 3, 2 / 3]).tolist())
        _, (low, high) = weighted_share(values.tolist(), weights, clusters, LEVEL)
        assert low is not None and high is not None
        held.append(low <= agreed <= high)
    return float(np.mean(held)), float(bool(few_flags(effective_number(DESIGNS[name]))))


KINDS: dict[str, tuple[Callable[[str, float, float, int], Found], tuple[float, ...]]] = {
    "battles": (lambda *case: of_battles(False, *case), WINS),
    "battles, lengths and models held equal": (lambda *case: of_battles(True, *case), WINS),
    "gold": (of_gold, AGREED),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table of each kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500, help="simulated data sets per number (default: %(default)s)")
    parser.add_argument("--only", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--designs", nargs="+", choices=list(DESIGNS), default=list(DESIGNS))
    chosen = parser.parse_args(arguments)
    for kind in chosen.only:
        simulate, rates = KINDS[kind]
        print(f"\n{kind}, {chosen.runs:,} runs per number\n")
        print("| clusters | G* | correlation | " + " | ".join(f"{rate:g}" for rate in rates) + " |")
        print("| --- | --: | --: |" + " --: |" * len(rates))
        for name in chosen.designs:
            for rho in correlations(DESIGNS[name]):
                found = (simulate(name, rho, rate, chosen.runs) for rate in rates)
                texts = [f"{100 * held:.1f} [{100 * marked:.0f}]" for held, marked in found]
                row = [name, f"{effective_number(DESIGNS[name]):.1f}", f"{rho:g}", *texts]
                print("| " + " | ".join(row) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
