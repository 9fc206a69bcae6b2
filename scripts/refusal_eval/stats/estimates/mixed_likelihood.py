"""The likelihood of a logistic mixed model of verdicts, integrated numerically, and its maximum.

Prompts are independent, and models and judges are those of the study, so that no integral runs over more than the few
random effects of one prompt: they are summed over a fine grid. What libraries have for such models is approximate where
prompts have few verdicts (docs/statistics.md has figures): mean-field variational Bayes (statsmodels) finds half
of the standard deviation of prompt x model or less, and its standard errors are too small.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import scipy

from refusal_eval.stats.estimates.intervals import Codes, Floats

EFFECTS = ("prompt", "prompt_model", "prompt_judge")
SMALLEST, LARGEST = 0.02, 12.0  # of standard deviations that are looked for; at either end nothing is known of it
STEEPEST = 25.0  # of a log-odds
_AT_ONCE = 2_000  # prompts, which bounds the memory
_STEP = 1e-4  # of the differences of the score that the curvature is made of
_STEPS, _CLOSE = 50, 1e-8  # Newton's, at the end


class Fit(NamedTuple):
    """The maximum of the likelihood."""

    log_odds: Floats  # models x judges, of a prompt in the middle
    sds: dict[str, float]  # of the random effects by name
    names: tuple[str, ...]  # of those that are above 0, in the order of the last columns of:
    covariance: Floats  # of the errors of the log-odds, row by row, and of the logarithms of the standard deviations


class Half(NamedTuple):
    """Verdicts of one judge, or of two who share the answers; no answer has a verdict of both."""

    judges: tuple[int, ...]
    cells: Codes  # prompts (that differ) x models: which row of `counts`
    counts: Floats  # refusals and others of the first judge, then of the second
    prompts: Codes  # which row of `cells` each prompt has


def halves(z: Floats) -> Iterator[Half]:
    """Yield what the likelihood is the product of, from decisions that are prompts x models x K x judges.

    Verdicts of two judges on one answer are not independent. So each pair of judges shares the answers out, every
    second one to the other, and once more the other way round; with one judge there is one part, and nothing to share.
    """
    prompts, _, samples, judges = z.shape
    turns = np.add.outer(np.arange(prompts), np.arange(samples))[:, None, :] % 2
    for pair in combinations(range(judges), 2):
        for turn in (0, 1):
            yield _half(pair, [np.where(turns == (turn + side) % 2, z[..., j], np.nan) for side, j in enumerate(pair)])
    if judges == 1:
        yield _half((0,), [z[..., 0], np.full_like(z[..., 0], np.nan)])


def fitted(z: Floats, effects: Sequence[str], clusters: Codes) -> Fit | None:
    """Return the maximum for decisions that are prompts x models x K x judges (NaN where there is none).

    The covariance is the sandwich over clusters of prompts (Godambe 1960; for the product of several likelihoods of the
    same verdicts Varin, Reid & Firth 2011, Statistica Sinica 21:5). None where the likelihood has no maximum within the
    limits.
    """
    parts, (_, models, _, judges) = list(halves(z)), z.shape
    rates = np.nanmean(z, axis=(0, 2)).ravel()
    names = tuple(effects)
    while True:
        start = np.concatenate([1.5 * np.log(rates / (1 - rates)), np.zeros(len(names))])
        limits = [(-STEEPEST, STEEPEST)] * len(rates) + [(np.log(SMALLEST), np.log(LARGEST))] * len(names)

        def objective(theta: Floats, names: tuple[str, ...] = names) -> tuple[float, Floats]:
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
        bread = _curvature(theta, lambda at: likelihood(at, parts, names, models, judges)[1].sum(axis=0))
        return None if np.linalg.eigvalsh(bread)[0] <= 0 else np.asarray(np.linalg.inv(bread), dtype=float)

    if (inverse := inverse_at(theta)) is None:
        return None
    for _ in range(_STEPS):  # the last digits of L-BFGS-B differ between machines
        _, scores = likelihood(theta, parts, names, models, judges)
        step = inverse @ scores.sum(axis=0)
        theta = theta + step
        if np.abs(step).max() < _CLOSE:
            break
    else:
        return None
    if (inverse := inverse_at(theta)) is None:  # that of before the steps differs by some hundredths of a percent
        return None
    groups = int(clusters.max()) + 1
    of_clusters = np.zeros((groups, len(theta)))
    np.add.at(of_clusters, clusters, scores)
    covariance = inverse @ (of_clusters.T @ of_clusters) @ inverse * groups / (groups - 1)
    sds = dict.fromkeys(effects, 0.0) | dict(zip(names, np.exp(theta[len(rates) :]).tolist(), strict=True))
    return Fit(theta[: len(rates)].reshape(models, judges), sds, names, covariance)


def likelihood(
    theta: Floats, parts: Iterable[Half], names: Sequence[str], models: int, judges: int
) -> tuple[float, Floats]:
    """Return the logarithm of the likelihood, and what each prompt adds to its derivatives (prompts x theta).

    Args:
        theta: the log-odds of (model, judge), row by row, and the logarithms of the standard deviations of `names`.
    """
    log_odds = theta[: models * judges].reshape(models, judges)
    sd = dict.fromkeys(EFFECTS, 0.0) | dict(zip(names, np.exp(theta[models * judges :]), strict=True))
    total, scores = 0.0, []
    for part in parts:
        # Of two judges the prompt's mean and half their difference: independent, which the two are not.
        both = len(part.judges) == 2
        mean, half = np.hypot(sd["prompt"], sd["prompt_judge"] * np.sqrt(0.5) * both), sd["prompt_judge"] * np.sqrt(0.5)
        finer = max(1.0, np.sqrt(models * part.counts.sum(axis=1).max() / 80))
        (z_mean, w_mean), (z_half, w_half) = _grid(61 * finer, mean), _grid(15 * finer, half * both)
        at = np.repeat(z_mean, len(z_half)), np.tile(z_half, len(z_mean))
        weights = np.outer(w_mean, w_half).ravel()
        tables = [
            _table(log_odds[m, list(part.judges)], mean * at[0], half * at[1], sd["prompt_model"], part.counts)
            for m in range(models)
        ]
        value, found = _summed(part, tables, weights, at)
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
        total += float(value[part.prompts].sum())
        scores.append(own[part.prompts])
    return total, np.sum(scores, axis=0)


def _half(judges: tuple[int, ...], sides: Sequence[Floats]) -> Half:
    counts = np.stack([(side == refuses).sum(axis=2) for side in sides for refuses in (1, 0)], axis=2)
    rows, cells = np.unique(counts.reshape(-1, 4), axis=0, return_inverse=True)
    cells, prompts = np.unique(cells.reshape(counts.shape[:2]), axis=0, return_inverse=True)
    return Half(judges, cells, rows.astype(float), prompts.ravel())


def _grid(points: float, sd: float) -> tuple[Floats, Floats]:
    """Places and weights that integrate over a standard normal variable: the trapezoid rule, which is exact to many
    digits for smooth functions that vanish at the ends, also where a few verdicts leave little of a wide distribution.
    """
    if not sd:
        return np.zeros(1), np.ones(1)
    places = np.linspace(-5.5, 5.5, round(points))
    weights = np.exp(-(places**2) / 2)
    return places, weights / weights.sum()


def _table(log_odds: Floats, mean: Floats, half: Floats, sd: float, counts: Floats) -> tuple[Floats, ...]:
    """Of a model, for each row of counts at each place: the logarithm of the probability of the verdicts, and its
    derivatives by the log-odds of the first judge, of the second, and by the standard deviation of prompt x model.
    """
    places, weights = _grid(25 * max(1.0, np.sqrt(counts.sum(axis=1).max() / 20)), sd)
    logits = np.stack([log_odds[0] + mean + half, log_odds[-1] + mean - half], axis=1)[:, :, None] + sd * places
    p = 1 / (1 + np.exp(-logits))  # places x judges x places of prompt x model
    logs = np.log(np.maximum(np.stack([p, 1 - p], axis=2), 1e-300)).reshape(len(p), 4, len(places))
    chances = np.exp(counts @ logs) * weights
    factors = np.concatenate([np.ones_like(p[:, :1]), p], axis=1)
    factors = np.concatenate([factors, places * factors], axis=1)
    whole, *others = np.moveaxis(chances @ factors.swapaxes(1, 2), (2, 1), (0, 1))
    whole = np.maximum(whole, 1e-300)
    p_1, p_2, z, z_p_1, z_p_2 = (other / whole for other in others)
    r_1, r_2 = counts[:, [0]], counts[:, [2]]
    n_1, n_2 = r_1 + counts[:, [1]], r_2 + counts[:, [3]]
    return np.log(whole), r_1 - n_1 * p_1, r_2 - n_2 * p_2, (r_1 + r_2) * z - n_1 * z_p_1 - n_2 * z_p_2


def _summed(
    part: Half, tables: Sequence[tuple[Floats, ...]], weights: Floats, at: tuple[Floats, Floats]
) -> tuple[Floats, Floats]:
    """Of each prompt the logarithm of the likelihood, and its derivatives by the log-odds of the models of the first
    judge, of the second, and by the standard deviations of the mean, of half the difference, and of prompt x model.
    """
    values, found = [], []
    for start in range(0, len(part.cells), _AT_ONCE):
        cells = part.cells[start : start + _AT_ONCE]
        logs = np.log(weights) + np.sum([table[0][own] for table, own in zip(tables, cells.T, strict=True)], axis=0)
        top = logs.max(axis=1, keepdims=True)
        likely = np.exp(logs - top)
        whole = likely.sum(axis=1, keepdims=True)
        values.append((top + np.log(whole))[:, 0])
        likely /= whole
        columns, last = np.empty((len(cells), 2 * len(tables))), np.zeros((len(cells), 3))
        for m, (table, own) in enumerate(zip(tables, cells.T, strict=True)):
            first, second, by_sd = (likely * derivative[own] for derivative in table[1:])
            columns[:, m], columns[:, len(tables) + m] = first.sum(axis=1), second.sum(axis=1)
            last += np.column_stack([(first + second) @ at[0], (first - second) @ at[1], by_sd.sum(axis=1)])
        found.append(np.hstack([columns, last]))
    return np.concatenate(values), np.concatenate(found)


def _curvature(theta: Floats, score: Callable[[Floats], Floats]) -> Floats:
    """Second derivatives of the likelihood with their sign turned, from differences of its score."""
    steps = np.eye(len(theta)) * _STEP
    rows = [(score(theta - step) - score(theta + step)) / (2 * _STEP) for step in steps]
    return np.asarray((np.array(rows) + np.array(rows).T) / 2)
