"""How much of the variation between verdicts is due to prompts, to sampling and to judges.

A verdict is z = 1 (refuses in the reading) or 0. Answers are nested in prompts, and the readings of judges in answers:

    z_pkj = mean + prompt_p + sample_pk + judge_pkj

so that Var(z) = prompt + sampling + judge, for the verdict of a random judge of the study on a random sample of a
random prompt. The parts are estimated by the method of moments (analysis of variance of a nested design; Searle,
Casella & McCulloch 1992, Variance Components, chapter 3), each prompt with equal weight as in the headline rate, which
is also what makes them right for prompts with unequal numbers of samples ("unweighted means"). With J judges, m_p
answers of prompt p that all J have judged, y_pk the mean over judges, and y_p the mean of these:

    judge    = mean over p of the mean over k of W_pk,      W_pk = sum over j of (z_pkj - y_pk)^2 / (J - 1)
    sampling = mean over p of V_p  -  judge / J,            V_p = sum over k of (y_pk - y_p)^2 / (m_p - 1)
    prompt   = B  -  mean over p of V_p / m_p,              B = mean of (y_p - y_q)^2 / 2 over pairs of prompts that
                                                                share no cluster

The pairs without a common cluster make B free of the downward bias that prompts who resemble each other would bring.
Each part is unbiased, so it can fall below 0 by chance where the truth is near 0. What is constant about a judge, that
it is stricter than another, is in the judge part. Only prompts with at least two such answers enter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from refusal_eval.estimands import REFUSES
from refusal_eval.estimates.bootstrap import Bounds, cluster_codes, cluster_totals, draw, percentiles
from refusal_eval.estimates.samples import BLOCKED_LABEL, NO_LABEL, Labels
from refusal_eval.estimates.units import Floats
from refusal_eval.states import LABELS

PARTS = ("prompt", "sampling", "judge")


class Moments(NamedTuple):
    """What the estimator needs of each prompt.

    Attributes:
        answers: m_p, answers that all judges have judged.
        mean: y_p.
        within: V_p.
        judge: mean over answers of W_pk.
    """

    answers: Floats
    mean: Floats
    within: Floats
    judge: Floats


class Part(NamedTuple):
    """A part of the variance and its share of all parts, with intervals."""

    value: float
    bounds: Bounds
    share: float | None
    share_bounds: Bounds


def decisions(labels: Labels, reading: str) -> Floats:
    """Return 1 for labels that refuse in a reading, 0 for others, NaN for samples that do not count."""
    refusing = [label in REFUSES[reading] for label in LABELS]
    values = np.array([*map(float, refusing), 1.0, np.nan])  # then blocked, then -1, which is the last place
    assert len(LABELS) == BLOCKED_LABEL and NO_LABEL == -1
    return np.asarray(values[labels])


def moments(z: Floats) -> Moments:
    """Return the moments of decisions, units x K x judges; a prompt without an answer that all have judged has NaN."""
    judges = z.shape[2]
    y = z.mean(axis=2)  # NaN where one judge has no verdict
    usable = ~np.isnan(y)
    answers = usable.sum(axis=1).astype(float)
    filled = np.where(usable, y, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = filled.sum(axis=1) / answers
        within = np.where(usable, (filled - mean[:, None]) ** 2, 0.0).sum(axis=1) / (answers - 1)
        spread = filled * (1 - filled) * judges / (judges - 1) if judges > 1 else np.zeros_like(filled)
        of_judges = spread.sum(axis=1) / answers
    return Moments(answers, mean, within, of_judges)


def variance_parts(
    found: Moments, clusters: Sequence[str], judges: int, level: float, seed: int
) -> tuple[dict[str, Part], int, int] | None:
    """Return the parts by name, and how many prompts and clusters they are from.

    Intervals are by cluster bootstrap; a part that cannot vary has none. The share of a part is of the sum of the
    parts, with those below 0 taken as 0. Without a second judge there is no judge part: what the judge adds is in the
    sampling part. None without two clusters of prompts with at least two answers each.

    Args:
        found: of `moments`.
        clusters: the cluster of each prompt.
        judges: J.
        level: of the intervals.
        seed: of the resamples.
    """
    usable = found.answers >= 2
    names = [cluster for cluster, use in zip(clusters, usable, strict=True) if use]
    if len(set(names)) < 2:
        return None
    answers, mean, within, of_judges = (values[usable] for values in found)
    codes = cluster_codes(names)
    columns = np.stack([np.ones_like(mean), mean, mean**2, within, within / answers, of_judges], axis=1)
    sums = cluster_totals(codes, columns)
    draws = draw(sums, seed, squared=_inside(sums))
    values = _parts(draws.totals, draws.squared_totals, judges)
    resampled = _parts(draws.resampled, draws.squared, judges)
    shares, resampled_shares = _shares(values), _shares(resampled)
    names_of_parts = PARTS if judges > 1 else PARTS[:2]
    parts = {
        name: Part(
            float(values[i]),
            percentiles(resampled[:, i], draws.clusters, level),
            None if np.isnan(shares[i]) else float(shares[i]),
            percentiles(resampled_shares[:, i], draws.clusters, level),
        )
        for i, name in enumerate(names_of_parts)
    }
    return parts, int(usable.sum()), draws.clusters


def _inside(sums: Floats) -> Floats:
    """Return for each cluster the number of ordered pairs of its prompts (itself with itself too), and the sum of
    (y_p - y_q)^2 / 2 over them; billionths, as `cluster_totals` gives them.
    """
    scale = 1e9
    n, first, second = (sums[:, i] / scale for i in range(3))
    return np.stack([n**2, n * second - first**2], axis=1) * scale


def _parts(totals: Floats, inside: Floats, judges: int) -> Floats:
    """Return the parts (last axis) of totals over clusters; NaN where no two prompts lie in different clusters.

    A cluster that is drawn twice counts as one cluster: its copies are pairs of prompts that share a cluster.
    """
    n, first, second, within, divided, of_judges = np.moveaxis(totals, -1, 0)
    same, same_squares = np.moveaxis(inside, -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        between = (n * second - first**2 - same_squares) / np.where(n**2 > same, n**2 - same, np.nan)
        judge = of_judges / n
        return np.stack([between - divided / n, within / n - judge / judges, judge], axis=-1)


def _shares(parts: Floats) -> Floats:
    positive = np.maximum(parts, 0.0)
    total = positive.sum(axis=-1, keepdims=True)
    shares = np.full_like(positive, np.nan)
    np.divide(positive, total, out=shares, where=total > 0)
    return shares
