"""How much of the variation between verdicts is due to prompts, to sampling and to judges.

A verdict is z = 1 (refuses in the reading) or 0. Answers k are nested in prompts p, and J judges j read every answer.
The judges are those of the study, not a sample of all judges. Let z be the verdict of one of them, drawn at random, on
a random answer to a random prompt, and y_pk the mean over the judges of z_pkj, their common verdict on an answer. By
the law of total variance, taken twice,

    Var(z) = judge + sampling + prompt      judge    = E[Var(z | p, k)]        the judges on one answer
                                            sampling = E[Var(y_pk | p)]        the answers to one prompt
                                            prompt   = Var(E[y_pk | p])        the prompts

All three are 0 or more, and their sum is r (1 - r) for the rate r over all judges: at most 1/4. As the judges are
fixed, Var(z | p, k) is the mean square of their deviations from y_pk, with the divisor J: it is known of each answer
and not estimated from a sample of judges, for which J - 1 would be right; with it the parts would add up to more than
Var(z), by judge / (J - 1). Differences between judges enter `sampling` and `prompt` as far as they move the mean: one
of J judges that errs by chance adds 1 / J^2 of what it adds to the variance of its own verdicts.

Parts are estimated by the method of moments (analysis of variance of a nested design; Searle, Casella & McCulloch 1992,
Variance Components, chapter 3), each prompt with equal weight as in the headline rate, which makes them right for
unequal numbers of samples too. With n prompts, m_p answers of prompt p that all J have judged, and y_p the mean of
y_pk over them:

    judge    = mean over p of the mean over k of y_pk (1 - y_pk)
    sampling = mean over p of C_p                   C_p = sum over k of (y_pk - y_p)^2 / (m_p - 1)
    prompt   = B  -  mean over p of C_p / m_p       B = mean over pairs of prompts p, q that share no cluster of
                                                    (y_p - y_q)^2 / 2

With one judge there is no judge part, and what it adds by chance is in `sampling`. Pairs of prompts without a common
cluster make B free of the downward bias that prompts which resemble each other would bring. Each part is unbiased, so
`prompt` can fall below 0, and `sampling` and `prompt` above 1/4, by chance. Only prompts with two such answers enter.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from refusal_eval.core.states import LABELS
from refusal_eval.stats.estimates.estimands import READINGS, REFUSES
from refusal_eval.stats.estimates.estimate import Estimate, NumberInterval, estimate_from
from refusal_eval.stats.estimates.flags import derived_flags, few_flags
from refusal_eval.stats.estimates.intervals import Floats, effective_number, seed_of
from refusal_eval.stats.estimates.resampling import (
    WHOLE,
    cluster_codes,
    cluster_sums,
    drawn_counts,
    resamples_for,
    whole,
    with_interval,
)
from refusal_eval.stats.estimates.units import BLOCKED_LABEL, NO_LABEL, LabelCodes

_DIGITS = 9  # of a part of the variance
PARTS = ("prompt", "sampling", "judge")


def variance_estimates(
    labels: Mapping[str, LabelCodes],
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
        labels: of `units.Units`, units x K, by judge.
        flags: of the cell of each judge.
    """
    names, of_cells = sorted(labels), list(flags)
    stacked = np.stack([labels[name] for name in names], axis=2)
    about: dict[str, Any] = {"judge": names[0]} if len(names) == 1 else {"parameter": ", ".join(names)}
    about |= {"model": model, "split": split, "samples": stacked.shape[1]}
    found = []
    for reading in READINGS:
        seed = seed_of(split, "estimates")  # the same resamples of prompts for all numbers of a split
        parts = variance_parts(decisions(stacked, reading), clusters, level, seed)
        if parts is None:
            continue
        numbers, prompts, groups, effective = parts
        about |= {"reading": reading, "n_prompts": prompts, "n_clusters": groups}
        about["flags"] = derived_flags(of_cells, few_flags(effective))
        found += [estimate_from(f"variance_{name}", number, level, **about) for name, number in numbers.items()]
    return found


def decisions(labels: LabelCodes, reading: str) -> Floats:
    """Return 1 for labels that refuse in a reading, 0 for others, NaN for samples that do not count."""
    refusing = [label in REFUSES[reading] for label in LABELS]
    values = np.array([*map(float, refusing), 1.0, np.nan])  # then blocked, then -1, which is the last place
    assert len(LABELS) == BLOCKED_LABEL and NO_LABEL == -1
    return np.asarray(values[labels])


def moments(z: Floats) -> Floats:
    """Return the estimator's statistics of each prompt (4 x units), from decisions (units x K x judges).

    m_p, answers that all judges have judged; y_p; C_p; the mean over answers of the variance over judges. NaN without
    such an answer.
    """
    usable = np.asarray(~np.isnan(z).any(axis=2))
    answers = usable.sum(axis=1).astype(float)
    common = np.where(usable, np.where(usable[:, :, None], z, 0.0).mean(axis=2), 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = common.sum(axis=1) / answers
        deviations = np.where(usable, common - means[:, None], 0.0)
        within = (deviations**2).sum(axis=1) / (answers - 1)
        of_judges = (common * (1 - common)).sum(axis=1) / answers
    return np.stack([answers, means, within, of_judges])


def variance_parts(
    z: Floats, clusters: Sequence[str], level: float, seed: int
) -> tuple[dict[str, NumberInterval], int, int, float] | None:
    """Return the parts of `decisions` and their shares (`share_*`) by name, the number of prompts and clusters, and the
    effective number of clusters (`intervals.effective_number`).

    Intervals come from a cluster bootstrap; a part that cannot vary has none. In shares, negative parts count as 0, in
    the value and in every resample: a share is the part, or 0, divided by the sum of the positive ones; there is none
    if no part is positive. Without a second judge there is no judge part. None without two clusters of prompts with at
    least two answers.
    """
    found = moments(z)
    usable = found[0] >= 2
    codes = cluster_codes(np.asarray(clusters, dtype=object)[usable])
    groups = len(np.unique(codes))
    if groups < 2:
        return None
    answers, means, within, of_judges = found[:, usable]
    columns = [np.ones_like(within), means**2, within, within / answers, of_judges, means]
    sums = cluster_sums(codes, whole(np.column_stack(columns)))
    pairs = np.rint(_inside(sums / WHOLE) * WHOLE)
    drawn = [(counts @ sums, counts**2 @ pairs) for counts in drawn_counts(groups, seed, resamples_for(groups))]
    totals, inside = (np.concatenate(blocks) / WHOLE for blocks in zip(*drawn, strict=True))
    values, resampled = _parts(sums.sum(axis=0) / WHOLE, pairs.sum(axis=0) / WHOLE), _parts(totals, inside)
    shares, resampled_shares = _shares(values), _shares(resampled)
    numbers = {}
    for i, name in enumerate(PARTS if z.shape[2] > 1 else PARTS[:2]):
        numbers[name] = with_interval(float(values[i]), resampled[:, i], groups, level)
        if not np.isnan(shares[i]):
            numbers[f"share_{name}"] = with_interval(float(shares[i]), resampled_shares[:, i], groups, level)
    return numbers, int(usable.sum()), groups, effective_number(np.bincount(codes))


def _inside(totals: Floats) -> Floats:
    """For each cluster the number of ordered pairs of its prompts (itself with itself too), and the sum over them of
    what B is the mean of.
    """
    n, squares = totals[:, 0], totals[:, 1]
    return np.stack([n**2, n * squares - totals[:, 5] ** 2], axis=1)


def _parts(totals: Floats, inside: Floats) -> Floats:
    """Return the parts (last axis) of totals over clusters; NaN if no two prompts lie in different clusters.

    A cluster that is drawn twice counts as one cluster: its copies are pairs of prompts that share a cluster.
    """
    n, squares, within, divided, of_judges, means = np.moveaxis(totals, -1, 0)
    same, same_squares = np.moveaxis(inside, -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        pairs = np.where(n**2 > same, n**2 - same, np.nan)
        between = (n * squares - means**2 - same_squares) / pairs
        # Rounded: of parts that are exactly 0 products of matrices leave digits, which differ between machines.
        return np.round(np.stack([between - divided / n, within / n, of_judges / n], axis=-1), _DIGITS) + 0.0


def _shares(parts: Floats) -> Floats:
    positive = np.maximum(parts, 0.0)
    total = positive.sum(axis=-1, keepdims=True)
    shares = np.full_like(positive, np.nan)
    np.divide(positive, total, out=shares, where=total > 0)
    return shares
