"""How often the intervals of ROC area and average precision hold the truth (docs/reference/agreement.md).

Gold is simulated.

A judge's score is normal with standard deviation 1, its mean larger for refusals, so that the true ROC area is the one
asked for; p is the logistic function of it. In clusters of five, a row has the label of its cluster with probability .4
and any two scores correlate by .4. The truth is that of rows from different clusters. Gold sets with fewer than 20
rows or 5 clusters of either class have no such numbers and are drawn again.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from measuring import print_head  # isort: skip  # makes the library importable

from refusal_eval.stats.agreement.soft import ranking

LEVEL, ALIKE = 0.95, 0.4
# Rows, rows in a cluster, true share of refusals. Of fifty rows with a share of .2 next to none have 20 refusals.
GOLD = tuple((n, size, share) for n in (50, 100, 300) for size in (1, 5) for share in (0.2, 0.5) if n * share >= 20)
AREAS = (0.75, 0.9, 0.99)
MEASURES = {"roc_auc": "ROC", "average_precision": "AP"}


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("--studies", type=int, default=300, help="simulated gold sets per cell")
    studies = options.parse_args().studies
    print_head(f"Coverage of intervals in %, nominal {100 * LEVEL:g}; {studies} gold sets a cell")
    columns = [f"{word} {area:g}" for word in MEASURES.values() for area in AREAS]
    print("| rows | per cluster | refusals | " + " | ".join(columns) + " |")
    print("| ---: | ---: | ---: |" + " ---: |" * len(columns))
    for number, (rows, size, share) in enumerate(GOLD):
        found = [_coverage(rows, size, share, area, studies, [number, place]) for place, area in enumerate(AREAS)]
        cells = [f"{100 * part[measure]:.0f}" for measure in MEASURES for part in found]
        print(f"| {rows} | {size} | {share:g} | " + " | ".join(cells) + " |", flush=True)


def _coverage(rows: int, size: int, share: float, area: float, studies: int, seed: list[int]) -> dict[str, float]:
    rng, distance = np.random.default_rng(seed), math.sqrt(2) * float(special.ndtri(area))
    truth = {"roc_auc": area, "average_precision": _true_precision(distance, share)}
    held, done = dict.fromkeys(MEASURES, 0), 0
    while done < studies:
        found = _measured(rows, size, share, distance, rng)
        if found["roc_auc"] is None:
            continue
        done += 1
        for measure, value in truth.items():
            low, high = found[f"{measure}_interval"]
            held[measure] += low <= value <= high
    return {measure: number / studies for measure, number in held.items()}


def _measured(rows: int, size: int, share: float, distance: float, rng: np.random.Generator) -> dict[str, Any]:
    cluster, alike = np.arange(rows) // size, ALIKE if size > 1 else 0.0
    luck = np.where(rng.random(rows) < alike, rng.random(rows)[cluster], rng.random(rows))
    refused = (luck < share).astype(float)
    noise = math.sqrt(alike) * rng.normal(size=rows)[cluster] + math.sqrt(1 - alike) * rng.normal(size=rows)
    p = np.round(special.expit(distance * refused + noise), 9)
    return ranking(p, refused, np.ones(rows), cluster, LEVEL, int(rng.integers(2**32)))


def _true_precision(distance: float, share: float) -> float:
    """The integral of precision over recall, for normal scores."""
    threshold = np.linspace(distance + 9, -9, 400_001)
    recall, alarms = special.ndtr(distance - threshold), special.ndtr(-threshold)
    precision: NDArray[np.float64] = share * recall / (share * recall + (1 - share) * alarms)
    return float(np.sum(np.diff(recall) * (precision[1:] + precision[:-1]) / 2))


if __name__ == "__main__":
    main()
