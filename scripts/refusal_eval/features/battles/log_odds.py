"""A Bradley-Terry model of battles with what differs between both answers: their classes, lengths and models."""

import math
import warnings
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import scipy

from refusal_eval.features.battles.battle_rows import PEOPLE, BattleRows, NameArray, clusterings
from refusal_eval.stats.estimates.estimate import NumberInterval
from refusal_eval.stats.estimates.intervals import Floats, effective_of
from refusal_eval.stats.estimates.resampling import cluster_codes, cluster_sums

METHOD = "cluster-robust, t quantile"
SEPARATED = "none (outcomes, or other columns, tell this one exactly)"
LENGTH = "length"
LEAST_BATTLES = 20  # of a model with a strength of its own; rarer ones share one
DIGITS = 6  # that all machines agree on
MOST = 10.0  # log-odds beyond which the fit only says that one side always wins
_Name = TypeVar("_Name", bound=Hashable)


def log_odds(
    battles: BattleRows, classes: NameArray, compared: Sequence[str], controls: bool, level: float
) -> dict[str, NumberInterval | None]:
    """Return by how much each class, against the baseline, moves the log-odds of being preferred by people.

    The logistic regression of the first answer's points (1, 0, and .5 for a tie) on a constant, which is what its place
    adds, and on differences between the first and the second answer: of being of each class, and with `controls` of
    log2 of the length in characters (under the name `length`, per doubling) and of each model. Without classes and
    lengths this is the model of Bradley and Terry (1952, Biometrika 39:324). What both answers share, such as the
    prompt and its language, cancels. Variances are cluster-robust (Liang and Zeger 1986, Biometrika 73:13), so that
    points need not be binary (Papke and Wooldridge 1996, J. Applied Econometrics 11:619); of several clusterings the
    larger counts.

    Args:
        classes: of both answers, battles x 2.
        compared: the classes beside the baseline.
        controls: whether length and models are held equal.

    Returns:
        By class; None where nothing but this class tells who wins, or it never differs within a battle. No interval
        where all battles in which it differs ended alike for it, such as in ties, and with one cluster.
    """
    differing = {name: _difference(classes, name) for name in compared}
    if controls:
        lengths = doublings(battles)
        differing[LENGTH] = lengths[:, 0] - lengths[:, 1]
    return coefficients(battles, differing, controls, level)


def doublings(battles: BattleRows) -> Floats:
    """Return the length of both answers in doublings of characters."""
    return np.asarray(np.log2(1 + battles.lengths))


def coefficients(
    battles: BattleRows, differing: Mapping[_Name, Floats], controls: bool, level: float
) -> dict[_Name, NumberInterval | None]:
    """Return the coefficient of each column of differences in the regression of `log_odds`, see there.

    Args:
        differing: columns of the design, whose sign turns if both answers change places.
        controls: whether models are held equal.
    """
    models = _models(battles.models) if controls else []
    design = np.column_stack([np.ones(len(battles)), *differing.values(), *models])
    place = {name: number for number, name in enumerate(differing, 1)}
    identified = {name for name, number in place.items() if _identified(design, number)}
    found: dict[_Name, NumberInterval | None] = dict.fromkeys(differing)
    if not identified:
        return found
    values, parts = _fitted(design, battles)
    for name in identified:
        there = differing[name] != 0
        own, column = clusterings(battles, there), place[name]
        value, found_errors = float(values[column]), [_error(parts[what][:, column], own[what]) for what in own]
        error, free = max(error for error, _ in found_errors), min(free for _, free in found_errors)
        if not abs(value) < MOST or error >= MOST:
            continue
        ends = np.where(differing[name] > 0, battles.points[PEOPLE][:, 0], battles.points[PEOPLE][:, 1])[there]
        if math.isnan(error) or len(np.unique(ends)) == 1:
            found[name] = NumberInterval(_rounded(value))
            continue
        half = float(scipy.special.stdtrit(free, (1 + level) / 2)) * error
        found[name] = NumberInterval(_rounded(value), _rounded(value - half), _rounded(value + half), METHOD)
    return found


def _error(parts: Floats, names: NameArray) -> tuple[float, float]:
    """Return the standard error of a coefficient and its degrees of freedom; NaN where it differs in one cluster.

    Args:
        parts: what each cluster adds to its error.
        names: the clusters of the battles in which it differs.
    """
    if len(set(names)) == 1:
        return math.nan, 1.0
    groups = len(parts)
    error = math.sqrt((groups - 1) / groups * math.fsum(parts**2))
    return error, max(1.0, effective_of(names) - 1)


def _rounded(value: float) -> float:
    return round(value, DIGITS) + 0.0  # no -0.0, whose sign differs between machines


def _difference(classes: NameArray, name: str) -> Floats:
    held = (classes == name).astype(float)
    return np.asarray(held[:, 0] - held[:, 1])


def _models(models: NameArray) -> list[Floats]:
    """A column for each model but the most frequent one."""
    names, counts = np.unique(models.astype(str), return_counts=True)
    rare = set(names[counts < LEAST_BATTLES])
    pooled = np.where(np.isin(models, list(rare)), "", models)
    names, counts = np.unique(pooled.astype(str), return_counts=True)
    return [_difference(pooled, name) for name in np.delete(names, counts.argmax())]


def _identified(design: Floats, column: int) -> bool:
    """Whether a column is no combination of the others."""
    own, others = design[:, column], np.delete(design, column, axis=1)
    rest = own - others @ np.linalg.lstsq(others, own, rcond=None)[0]
    return float(rest @ rest) > 1e-8 * max(1.0, float(own @ own))


def _fitted(design: Floats, battles: BattleRows) -> tuple[Floats, dict[str, Floats]]:
    """Coefficients, and by clustering what each cluster adds to their errors (clusters x columns).

    Columns may depend on each other, as those of two models that meet nobody else: pseudo-inverses leave coefficients
    that are identified as they are. What a cluster adds is divided by 1 - h, with h its share of what is known of the
    coefficient, as that moves towards a large cluster (`intervals.error_variance`).
    """
    from statsmodels.genmod.families import Binomial
    from statsmodels.genmod.generalized_linear_model import GLM

    points = battles.points[PEOPLE][:, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of separation, which shows in the coefficients
        fit = GLM(points, design, family=Binomial()).fit()
    expected = np.asarray(fit.mu, dtype=float)
    information = design.T @ (design * (expected * (1 - expected))[:, None])
    bread = np.linalg.pinv(information, rcond=1e-10, hermitian=True)
    slopes = design @ bread
    shares = slopes**2 * (expected * (1 - expected))[:, None] / np.maximum(np.diag(bread), 1e-300)
    found = {}
    for what, names in battles.clusters.items():
        codes = cluster_codes(names)
        sums, known = (cluster_sums(codes, rows) for rows in (slopes * (points - expected)[:, None], shares))
        found[what] = np.divide(sums, 1 - known, out=np.zeros_like(sums), where=known < 1 - 1e-9)
    return np.asarray(fit.params, dtype=float), found
