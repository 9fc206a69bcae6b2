"""The parts of the variance as estimates: of one judge (prompt, sampling), and of all judges of a study (judge too)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from refusal_eval.stats.estimates.estimands import READINGS
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.intervals import seed_of
from refusal_eval.stats.estimates.samples import Labels
from refusal_eval.stats.estimates.scores import derived_flags, few_flags
from refusal_eval.stats.estimates.variance import decisions, moments, variance_parts


def variance_estimates(
    labels: Mapping[str, Labels],
    clusters: Sequence[str],
    model: str,
    split: str,
    level: float,
    flags: Iterable[Sequence[str]],
) -> list[Estimate]:
    """Return the parts of the variance of one model on one split, in both readings, and their shares.

    None for one sample, and where less than two clusters have a prompt with two judged answers. With one judge it is
    named as `judge`; with several, `judge` is None and `parameter` names them all.

    Args:
        labels: of `samples.Samples`, units x K, by judge.
        clusters: the cluster of each unit.
        model: the model.
        split: the split.
        level: of the intervals.
        flags: of the cell of each judge.
    """
    names, of_cells = sorted(labels), list(flags)
    stacked = np.stack([labels[name] for name in names], axis=2)
    named: dict[str, Any] = {"judge": names[0]} if len(names) == 1 else {"parameter": ", ".join(names)}
    found = []
    for reading in READINGS:
        own = moments(decisions(stacked, reading))
        seed = seed_of(split, "estimates")  # the same resamples of prompts for all numbers of a split
        parts = variance_parts(own, clusters, len(names), level, seed)
        if parts is None:
            continue
        by_name, prompts, groups = parts
        size: dict[str, Any] = {"samples": stacked.shape[1], "n_prompts": prompts, "n_clusters": groups}
        size["flags"] = derived_flags(of_cells, few_flags(groups))
        for part, value in by_name.items():
            both = [(f"variance_{part}", value.value, value.bounds)]
            both += [(f"variance_share_{part}", value.share, value.share_bounds)] if value.share is not None else []
            for estimand, number, ends in both:
                estimate = Estimate(estimand, number, reading=reading, model=model, split=split, **named, **size)
                if ends.low is not None:
                    estimate = dataclasses.replace(
                        estimate, low=ends.low, high=ends.high, level=level, method=ends.method
                    )
                found.append(estimate)
    return found
