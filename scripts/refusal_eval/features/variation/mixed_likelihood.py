"""The likelihood of a logistic mixed model of verdicts, integrated numerically, and its maximum.

Prompts are independent, and models and judges are those of the study, so that no integral runs over more than the few
random effects of one prompt: they are summed over a fine grid. What libraries have for such models is approximate where
prompts have few verdicts (docs/reference/statistics.md has figures): mean-field variational Bayes (statsmodels) finds
half of the standard deviation of prompt x model or less, and its standard errors are too small.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, count
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import scipy

from refusal_eval.stats.estimates.intervals import Codes, Floats

EFFECTS = ("prompt", "prompt_model", "prompt_judge")
SMALLEST, LARGEST = 0.02, 12.0  # of standard deviations that are looked for; at either end nothing is known of it
STEEPEST = 25.0  # of a log-odds
_Table = tuple[Floats, ...]  # of a model, at each place: the rows of counts there
_AT_ONCE = 2_000  # prompts, which bounds the memory
_STEP = 1e-4  # of the differences of the score that the curvature is made of
_STEPS, _CLOSE = 50, 1e-8  # Newton's, at the end
SECONDS_BETWEEN_LINES = 60.0  # of the log
LOG = logging.getLogger(__name__)


class Fit(NamedTuple):
    """The maximum of the likelihood."""

    log_odds: Floats  # models x judges, of a prompt in the middle
    sds: dict[str, float]  # of the random effects by name
    names: tuple[str, ...]  # of those that are above 0, in the order of the last columns of:
    covariance: Floats  # of the errors of the log-odds, row by row, and of the logarithms of the standard deviations


class _Pace:
    """Tells the log now and then what a fit is at: one of many models and judges takes minutes."""

    def __init__(self) -> None:
        self._began = self._last = time.monotonic()

    def at(self, what: str) -> None:
        """Say so, if nothing was said for a minute."""
        now = time.monotonic()
        if now - self._last >= SECONDS_BETWEEN_LINES:
            self._last = now
            LOG.info("fitting for %.0f s: %s", now - self._began, what)


class Part(NamedTuple):
    """Verdicts of one judge, or of two who share the answers in two ways; in no way has an answer a verdict of both."""

    judges: tuple[int, ...]
    cells: Codes  # prompts (that differ) x models: which row of `counts`
    counts: Codes  # refusals and others of the first judge, then of the second
    prompts: Codes  # ways x prompts: which row of `cells` each prompt has


def parts_of(z: Floats) -> Iterator[Part]:
    """Yield what the likelihood is the product of, from decisions that are prompts x models x K x judges.

    Verdicts of two judges on one answer are not independent. So each pair of judges shares the answers out, every
    second one to the other, and once more the other way round; with one judge there is one part, and nothing to share.
    """
    prompts, _, samples, judges = z.shape
    turns = np.add.outer(np.arange(prompts), np.arange(samples))[:, None, :] % 2
    for pair in combinations(range(judges), 2):
        first, second = (z[..., j] for j in pair)
        yield _part(
            pair, [[np.where(turns == way, z_j, np.nan) for way, z_j in ((w, first), (1 - w, second))] for w in (0, 1)]
        )
    if judges == 1:
        yield _part((0,), [[z[..., 0], np.full_like(z[..., 0], np.nan)]])


def fit_model(z: Floats, effects: Sequence[str], clusters: Codes) -> Fit | None:
    """Return the maximum for decisions that are prompts x models x K x judges (NaN where there is none).

    The covariance is the sandwich over clusters of prompts (Godambe 1960; for the product of several likelihoods of the
    same verdicts Varin, Reid & Firth 2011, Statistica Sinica 21:5); what a cluster adds is divided by 1 less its share
    of the prompts, as in `intervals`, where the reason is. None where the likelihood has no maximum within the limits.
    """
    parts, (_, models, _, judges) = list(parts_of(z)), z.shape
    rates = np.nanmean(z, axis=(0, 2)).ravel()
    names, pace, tried = tuple(effects), _Pace(), count(1)
    while True:
        start = np.concatenate([1.5 * np.log(rates / (1 - rates)), np.zeros(len(names))])
        limits = [(-STEEPEST, STEEPEST)] * len(rates) + [(np.log(SMALLEST), np.log(LARGEST))] * len(names)

        def objective(theta: Floats, names: tuple[str, ...] = names) -> tuple[float, Floats]:
            pace.at(f"evaluation {next(tried)} of the likelihood")
            value, scores = likelihood(theta, parts, names, models, judges)
            return -value / len(z), -scores.sum(axis=0) / len(z)

        found = scipy.optimize.minimize(objective, start, jac=True, bounds=limits, method="L-BFGS-B")
        sds = dict(zip(names, np.exp(found.x[len(rates) :]), strict=True))
        nought = [name for name, sd in sds.items() if sd < 2 * SMALLEST]
        if not nought:
            break
        names = tuple(name for name in names if name not in nought)  # one of 0 makes the curvature singular
    if max(sds.values(), default=0.0) > 0.9 * LARGEST or np.abs(found.x[: len(rates)]).max() > 0.9 * STEEPEST:
        return None
    theta = found.x

    def inverse_at(theta: Floats) -> Floats | None:
        bread = _curvature(theta, parts, names, models, judges, pace)
        return None if np.linalg.eigvalsh(bread)[0] <= 0 else np.asarray(np.linalg.inv(bread), dtype=float)

    if (inverse := inverse_at(theta)) is None:
        return None
    for number in range(_STEPS):  # the last digits of L-BFGS-B differ between machines
        pace.at(f"step {number + 1} at the maximum")
        _, scores = likelihood(theta, parts, names, models, judges)
        step = inverse @ scores.sum(axis=0)
        theta = theta + step
        if np.abs(step).max() < _CLOSE:
            break
    else:
        return None
    if (inverse := inverse_at(theta)) is None:  # that of before the steps differs by some hundredths of a percent
        return None
    sizes = np.bincount(clusters)
    of_clusters = np.zeros((len(sizes), len(theta)))
    np.add.at(of_clusters, clusters, scores)
    of_clusters /= (1 - sizes / sizes.sum())[:, None]
    covariance = inverse @ (of_clusters.T @ of_clusters) @ inverse * (len(sizes) - 1) / len(sizes)
    sds = dict.fromkeys(effects, 0.0) | dict(zip(names, np.exp(theta[len(rates) :]).tolist(), strict=True))
    return Fit(theta[: len(rates)].reshape(models, judges), sds, names, covariance)


def likelihood(
    theta: Floats, parts: Iterable[Part], names: Sequence[str], models: int, judges: int
) -> tuple[float, Floats]:
    """Return the logarithm of the likelihood, and what each prompt adds to its derivatives (prompts x theta).

    Args:
        theta: the log-odds of (model, judge), row by row, and the logarithms of the standard deviations of `names`.
    """
    found = [_of_part(theta, part, names, models, judges) for part in parts]
    return sum(value for value, _, _ in found), np.sum([scores for _, scores, _ in found], axis=0)


def _of_part(
    theta: Floats,
    part: Part,
    names: Sequence[str],
    models: int,
    judges: int,
    known: Mapping[tuple[float, ...], _Table] = MappingProxyType({}),
) -> tuple[float, Floats, dict[tuple[float, ...], _Table]]:
    """Return what a part adds to both, and its tables by all that they depend on; those in `known` are not remade."""
    log_odds = theta[: models * judges].reshape(models, judges)
    sd = dict.fromkeys(EFFECTS, 0.0) | dict(zip(names, np.exp(theta[models * judges :]).tolist(), strict=True))
    # Of two judges the prompt's mean and half their difference: independent, which the two are not.
    both = len(part.judges) == 2
    mean, half = np.hypot(sd["prompt"], sd["prompt_judge"] * np.sqrt(0.5) * both), sd["prompt_judge"] * np.sqrt(0.5)
    finer = max(1.0, np.sqrt(models * part.counts.sum(axis=1).max() / 80))
    (z_mean, w_mean), (z_half, w_half) = _grid(61 * finer, mean), _grid(15 * finer, half * both)
    at = np.repeat(z_mean, len(z_half)), np.tile(z_half, len(z_mean))
    tables: dict[tuple[float, ...], _Table] = {}
    for m, own_odds in enumerate(log_odds[:, list(part.judges)].tolist()):
        key = (m, *own_odds, *sd.values())
        tables[key] = known.get(key) or _table(own_odds, mean * at[0], half * at[1], sd["prompt_model"], part.counts)
    value, found = _sum_prompts(part, list(tables.values()), np.outer(w_mean, w_half).ravel(), at)
    own = np.zeros((len(found), len(theta)))
    for side, judge in enumerate(part.judges):
        own[:, judge : models * judges : judges] = found[:, side * models : (side + 1) * models]
    by_mean, by_half, by_model = found[:, 2 * models :].T
    slopes = {
        "prompt": by_mean * sd["prompt"] ** 2 / max(mean, 1e-300),
        "prompt_model": by_model * sd["prompt_model"],
        "prompt_judge": (by_mean * sd["prompt_judge"] ** 2 / 2 / max(mean, 1e-300) + by_half * half) * both,
    }
    for i, name in enumerate(names):
        own[:, models * judges + i] = slopes[name]
    return float(value[part.prompts].sum()), own[part.prompts].sum(axis=0), tables


def _part(judges: tuple[int, ...], ways: Iterable[Sequence[Floats]]) -> Part:
    counted = [
        np.stack([(side == refuses).sum(axis=2) for side in sides for refuses in (1, 0)], axis=2) for sides in ways
    ]
    counts = np.stack(counted)  # ways x prompts x models x 4
    rows, cells = np.unique(counts.reshape(-1, 4), axis=0, return_inverse=True)
    cells, prompts = np.unique(cells.reshape(-1, counts.shape[2]), axis=0, return_inverse=True)
    return Part(judges, cells, rows, prompts.reshape(counts.shape[:2]))


def _grid(points: float, sd: float) -> tuple[Floats, Floats]:
    """Places and weights that integrate over a standard normal variable: the trapezoid rule, which is exact to many
    digits for smooth functions that vanish at the ends, also where a few verdicts leave little of a wide distribution.
    """
    if not sd:
        return np.zeros(1), np.ones(1)
    places = np.linspace(-5.5, 5.5, round(points))
    weights = np.exp(-(places**2) / 2)
    return places, weights / weights.sum()


def _table(log_odds: Sequence[float], mean: Floats, half: Floats, sd: float, counts: Codes) -> _Table:
    """Return for a model, for each row of counts at each node: the logarithm of the probability of the verdicts, and
    its derivatives by the log-odds of the first judge, of the second, and by the standard deviation of prompt x model.
    """
    places, weights = _grid(25 * max(1.0, np.sqrt(counts.sum(axis=1).max() / 20)), sd)
    logits = (log_odds[0] + mean + half)[:, None] + sd * places, (log_odds[-1] + mean - half)[:, None] + sd * places
    (p_1, chances), (p_2, of_second) = _chances(logits[0], counts[:, :2]), _chances(logits[1], counts[:, 2:])
    chances *= of_second  # places x rows x places of prompt x model
    factors = np.stack([np.ones_like(p_1), p_1, p_2], axis=1) * weights
    factors = np.concatenate([factors, places * factors], axis=1)
    whole, *others = np.moveaxis(chances @ factors.swapaxes(1, 2), (2, 1), (0, 1))
    whole = np.maximum(whole, 1e-300)
    p_1, p_2, z, z_p_1, z_p_2 = (other / whole for other in others)
    r_1, r_2 = counts[:, [0]], counts[:, [2]]
    n_1, n_2 = r_1 + counts[:, [1]], r_2 + counts[:, [3]]
    return np.log(whole), r_1 - n_1 * p_1, r_2 - n_2 * p_2, (r_1 + r_2) * z - n_1 * z_p_1 - n_2 * z_p_2


def _chances(logits: Floats, counts: Codes) -> tuple[Floats, Floats]:
    """Return p of refusals at places x places, and the probability of each row of refusals and others between them.

    Products of powers: logarithms and `exp` of each row take several times as long.
    """
    odds_against = np.exp(-logits)
    p = 1 / (1 + odds_against)
    powers = []
    for base, most in zip((p, odds_against * p), counts.max(axis=0), strict=True):
        powers.append([np.ones_like(base)])
        for _ in range(most):
            powers[-1].append(powers[-1][-1] * base)
    pairs, own = np.unique(counts, axis=0, return_inverse=True)
    return p, np.stack([powers[0][refusals] * powers[1][others] for refusals, others in pairs], axis=1)[:, own.ravel()]


def _sum_prompts(
    part: Part, tables: Sequence[_Table], weights: Floats, at: tuple[Floats, Floats]
) -> tuple[Floats, Floats]:
    """Of each prompt the logarithm of the likelihood, and its derivatives by the log-odds of the models of the first
    judge, of the second, and by the standard deviations of the mean, of half the difference, and of prompt x model.
    """
    values, found = [], []
    slopes = [
        np.stack([first, second, (first + second) * at[0], (first - second) * at[1], by_sd], axis=2)
        for _, first, second, by_sd in tables
    ]  # rows of counts x places x 5
    for start in range(0, len(part.cells), _AT_ONCE):
        cells = part.cells[start : start + _AT_ONCE]
        logs = np.log(weights) + np.sum([table[0][own] for table, own in zip(tables, cells.T, strict=True)], axis=0)
        top = logs.max(axis=1, keepdims=True)
        likely = np.exp(logs - top)
        whole = likely.sum(axis=1, keepdims=True)
        values.append((top + np.log(whole))[:, 0])
        likely /= whole
        sums = np.empty((len(tables), len(cells), 5))
        for sums_of_model, slopes_of_model, own in zip(sums, slopes, cells.T, strict=True):
            for row in np.unique(own):
                those = own == row
                sums_of_model[those] = likely[those] @ slopes_of_model[row]
        found.append(np.hstack([sums[:, :, 0].T, sums[:, :, 1].T, sums[:, :, 2:].sum(axis=0)]))
    return np.concatenate(values), np.concatenate(found)


def _curvature(
    theta: Floats, parts: Sequence[Part], names: Sequence[str], models: int, judges: int, pace: _Pace
) -> Floats:
    """Second derivatives of the likelihood with their sign turned, from differences of its score."""
    found = np.zeros((len(theta), len(theta)))
    for number, part in enumerate(parts):
        # A log-odds changes the table of its model alone, and no part without its judge.
        tables = _of_part(theta, part, names, models, judges)[2]
        for i, step in enumerate(np.eye(len(theta)) * _STEP):
            pace.at(f"the curvature at the maximum, {number * len(theta) + i} of {len(parts) * len(theta)} rows")
            if i >= models * judges or i % judges in part.judges:
                ends = (_of_part(at, part, names, models, judges, tables)[1] for at in (theta - step, theta + step))
                before, after = (scores.sum(axis=0) for scores in ends)
                found[i] += (before - after) / (2 * _STEP)
    return (found + found.T) / 2
