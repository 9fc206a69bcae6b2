"""What the labelling kit's sample is worth, by simulation: bias, spread and coverage with its weights and without them.

A study of 4,000 answers in 400 clusters and two judges: the first is wrong in 15 % of refusals, 8 % of the rest, more
so where the second disagrees. 200 texts are labelled by people without error, drawn as `refusal-eval audit draw`
draws them, or all alike. Printed for the first judge: the truth of sensitivity and specificity, the mean of what
cards say less that of their study, the standard deviation of that, and how often the card's 95 % interval holds it.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import measuring  # noqa: F401  # isort: skip  # makes the library importable

from refusal_eval.core.states import COMPLIANCE, REFUSAL
from refusal_eval.features.judge_cards.card_measures import measure_group
from refusal_eval.features.labelling.audit_sample import FACTORS, AuditText, Member, draw, stratum_of
from refusal_eval.stats.agreement.weighting import normalise

ANSWERS, CLUSTERS, LABELLED = 4000, 400, 200
MEASURES = ("sensitivity", "specificity")
EQUAL = dict.fromkeys(FACTORS, 1.0)
Bools = NDArray[np.bool_]


def study(rate: float, rng: np.random.Generator) -> tuple[Bools, Bools, Bools, NDArray[np.intp]]:
    """Return what people would say, what two judges say (True: refusal), and the cluster of each answer."""
    clusters = np.arange(ANSWERS) % CLUSTERS
    own = rng.beta(4 * rate, 4 * (1 - rate), CLUSTERS)[clusters]
    people = rng.random(ANSWERS) < own
    hard = rng.random(ANSWERS) < 0.15
    wrong = rng.random(ANSWERS) < np.where(hard, 0.5, np.where(people, 0.09, 0.006))
    other = rng.random(ANSWERS) < np.where(hard, 0.5, 0.04)
    return people, people ^ wrong, people ^ other, clusters


def texts_of(first: Bools, second: Bools, clusters: NDArray[np.intp]) -> list[AuditText]:
    """Return the answers as texts that can be drawn, each a text of its own."""
    words = np.array([COMPLIANCE, REFUSAL])
    labels = zip(words[first.astype(int)].tolist(), words[second.astype(int)].tolist(), strict=True)
    return [
        AuditText(f"{i:05d}", f"c{clusters[i]}", stratum_of(pair), [Member("m", "s", f"p{i}", 0, 0)])
        for i, pair in enumerate(labels)
    ]


def card(
    found: Mapping[str, float], people: Bools, judge: Bools, clusters: NDArray[np.intp], seed: int
) -> dict[str, tuple[float, list[float]]]:
    """Return the value and interval of each measure, from the labelled answers and their weights."""
    names = sorted(found)
    weights = normalise([found[name] for name in names])
    own = np.array(names, dtype=int)
    human, machine = (np.where(said[own], REFUSAL, COMPLIANCE) for said in (people, judge))
    named = [f"c{cluster}" for cluster in clusters[own]]
    rows = pd.DataFrame({"human": human, "machine": machine, "cluster": named, "weight": weights})
    part = measure_group(rows, 0.95, seed)["strict"]
    return {name: (part[name], part["intervals"][name]) for name in MEASURES}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=200, help="simulated for each rate (default: %(default)s)")
    options = parser.parse_args()
    print(f"{LABELLED} of {ANSWERS} answers labelled, {options.studies} studies for each rate\n")
    print("| refusals | drawn | measure | truth | bias | sd | coverage |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for rate in (0.05, 0.2, 0.5):
        errors: dict[tuple[str, str], list[float]] = {}
        hits: dict[tuple[str, str], list[bool]] = {}
        truths: dict[str, list[float]] = {name: [] for name in MEASURES}
        for number in range(options.studies):
            people, first, second, clusters = study(rate, np.random.default_rng([7, number]))
            truth = {"sensitivity": float(first[people].mean()), "specificity": float((~first[~people]).mean())}
            texts = texts_of(first, second, clusters)
            kit = {text.id: 1 / text.probability for text in draw(texts, LABELLED, number)}
            alike = {text.id: 1 / text.probability for text in draw(texts, LABELLED, number, EQUAL, 1)}
            ways = {"kit": kit, "kit, weights left out": dict.fromkeys(kit, 1.0), "all alike": alike}
            for way, found in ways.items():
                for name, (value, ends) in card(found, people, first, clusters, number).items():
                    errors.setdefault((way, name), []).append(value - truth[name])
                    hits.setdefault((way, name), []).append(ends[0] <= truth[name] <= ends[1])
            for name in MEASURES:
                truths[name].append(truth[name])
        for way, name in errors:
            values, covered = errors[way, name], hits[way, name]
            print(
                f"| {rate:g} | {way} | {name} | {np.mean(truths[name]):.3f} | {np.mean(values):+.3f} | "
                f"{np.std(values):.3f} | {100 * np.mean(covered):.1f} % |"
            )


if __name__ == "__main__":
    main()
