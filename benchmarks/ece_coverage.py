"""How often the interval of a judge's calibration error holds the truth (docs/reference/agreement.md).

Gold is simulated.

A judge's p is the logistic function of a normal score (standard deviation 1.5); an answer is a refusal with the
probability that p becomes when its log-odds are multiplied by a slope and moved by a shift. In clusters of three,
answers share the luck of their cluster with probability .4. The truth is the sum over the bins of
|sum of p - sum of true probabilities| / n.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from measuring import print_head  # isort: skip  # makes the library importable

from refusal_eval.stats.agreement.soft import equal_mass_bins, soft_measures

LEVEL, LUCK, SPREAD = 0.95, 0.4, 1.5
SIZES = ((60, 1), (105, 1), (105, 3), (450, 1), (450, 3))  # rows, rows in a cluster
JUDGES = {
    "calibrated": (1.0, 0.0),
    "slope .9": (0.9, 0.0),
    "slope .7": (0.7, 0.0),
    "shift .5": (1.0, 0.5),
    "shift 1.5": (1.0, 1.5),
    "slope 2": (2.0, 0.0),
}


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("--studies", type=int, default=300, help="simulated gold sets per cell")
    studies = options.parse_args().studies
    print_head(f"Coverage of the interval of the ECE in %, nominal {100 * LEVEL:g}; {studies} gold sets a cell")
    print("| rows | per cluster | " + " | ".join(JUDGES) + " |")
    print("| ---: | ---: |" + " ---: |" * len(JUDGES))
    for number, (rows, size) in enumerate(SIZES):
        shares = []
        for place, judge in enumerate(JUDGES.values()):
            rng = np.random.default_rng([number, place])
            shares.append(sum(_held(rows, size, judge, rng) for _ in range(studies)) / studies)
        print(f"| {rows} | {size} | " + " | ".join(f"{100 * share:.0f}" for share in shares) + " |", flush=True)


def _held(rows: int, size: int, judge: tuple[float, float], rng: np.random.Generator) -> bool:
    score = rng.normal(0, SPREAD, rows)
    p, true = np.round(_logistic(score), 9), _logistic(judge[0] * score + judge[1])
    cluster = np.arange(rows) // size
    luck = np.where(rng.random(rows) < (LUCK if size > 1 else 0), rng.random(rows)[cluster], rng.random(rows))
    human = np.where(luck < true, "refusal", "compliance")
    found = pd.DataFrame({"human": human, "p_refusal": p, "cluster": cluster.astype(str), "weight": 1.0})
    soft = soft_measures(found, LEVEL, int(rng.integers(2**32)))
    assert soft is not None
    low, high = soft["ece_interval"]
    truth = float(np.abs(np.bincount(equal_mass_bins(p), p - true)).sum()) / rows
    return bool(low <= truth + 1e-9 and truth <= high)


def _logistic(odds: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(1 / (1 + np.exp(-odds)))


if __name__ == "__main__":
    main()
