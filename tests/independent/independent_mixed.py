"""The mixed model of a split: prompts, models and judges crossed (docs/reference/statistics.md)."""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from independent_intervals import Span, per_cluster
from independent_rates import NAN, Asked, Found
from independent_study import Array, Study
from scipy import optimize, stats

Numbers = npt.NDArray[np.intp]
OUTER, INNER = 17, 15  # nodes of the grids over what prompts, and what prompts and models, add
LEAST, NOUGHT = 1e-6, 0.04  # standard deviations: the smallest that is computed with, and what is taken as 0
STEP, NEWTON = 1e-4, 10
SAMPLING = np.pi**2 / 3
NEAR, CLOSE = 1e-5, 0.001  # of a number, and of the distance of an end from it
FIXED, RANDOM = ("model", "judge", "model_judge"), ("prompt", "prompt_model", "prompt_judge")


class Sharing(NamedTuple):
    """One way in which two judges share the answers out: for each model which counts each prompt has.

    `patterns`: of refusals and answers of the first judge, then of the second; `of`: the number of a prompt's pattern.
    """

    judges: tuple[int, int]
    patterns: list[Array]
    of: list[Numbers]


def sharings(values: Array) -> list[Sharing]:
    """Return how the judges share the answers; `values` is models x judges x prompts x samples, nan without a label."""
    models, judges, _, samples = values.shape
    found = []
    turns = np.arange(samples) % 2
    for a, b in combinations(range(judges), 2):
        for first in (0, 1):
            patterns, of = [], []
            for m in range(models):
                sides = values[m, a][:, turns == first], values[m, b][:, turns != first]
                counts = [[np.nansum(side, axis=1), (~np.isnan(side)).sum(axis=1)] for side in sides]
                unique, number = np.unique(np.column_stack([*counts[0], *counts[1]]), axis=0, return_inverse=True)
                patterns.append(unique)
                of.append(number.astype(np.intp).reshape(-1))
            found.append(Sharing((a, b), patterns, of))
    return found


def nodes(count: int) -> tuple[Array, Array]:
    """Return a grid for the standard normal distribution."""
    x, w = np.polynomial.hermite_e.hermegauss(count)
    return x, w / w.sum()


class Grid(NamedTuple):
    """Points of two independent standard normals, flat, with weights; and those of a third, with weights."""

    x: Array
    y: Array
    w: Array
    v: Array
    of_v: Array


def grid() -> Grid:
    """Return the grids."""
    x, w = nodes(OUTER)
    first, second = (side.ravel() for side in np.meshgrid(x, x, indexing="ij"))
    return Grid(first, second, np.outer(w, w).ravel(), *nodes(INNER))


def scores(theta: Array, values: Array, shared: Sequence[Sharing], at: Grid) -> tuple[Array, Array]:
    """Return of each prompt the logarithm of its likelihood, and its derivatives (prompts x parameters).

    The parameters are the log-odds, models x judges, then sd_prompt, sd_prompt_model, sd_prompt_judge.
    """
    models, judges, prompts, _ = values.shape
    b, (su, sv, sw) = theta[:-3].reshape(models, judges), theta[-3:]
    total, rise = np.zeros(prompts), np.zeros((prompts, len(theta)))
    tau, root = np.sqrt(su**2 + sw**2), np.sqrt(2 * su**2 + sw**2)
    # What a prompt adds under either judge: u + w of each, with variance tau^2 and covariance su^2.
    one, two = tau * at.x, (su**2 * at.x + sw * root * at.y) / tau
    by_su = (su / tau * at.x, (2 * su * at.x + 2 * su * sw / root * at.y) / tau - su / tau**2 * two)
    by_sw = (sw / tau * at.x, (root + sw**2 / root) * at.y / tau - sw / tau**2 * two)
    for sharing in shared:
        j, k = sharing.judges
        logs, firsts, seconds, thirds = [], [], [], []
        for m in range(models):
            ra, na, rb, nb = (side[:, None, None] for side in sharing.patterns[m].T)
            eta_a, eta_b = (b[m, i] + s[None, :, None] + sv * at.v[None, None, :] for i, s in ((j, one), (k, two)))
            log = ra * eta_a - na * np.logaddexp(0, eta_a) + rb * eta_b - nb * np.logaddexp(0, eta_b)
            weighted = np.exp(log) * at.of_v
            whole = weighted.sum(axis=2)
            da, db = ra - na / (1 + np.exp(-eta_a)), rb - nb / (1 + np.exp(-eta_b))
            of = sharing.of[m]
            logs.append(np.log(whole)[of])
            firsts.append(((weighted * da).sum(axis=2) / whole)[of])
            seconds.append(((weighted * db).sum(axis=2) / whole)[of])
            thirds.append(((weighted * (da + db) * at.v).sum(axis=2) / whole)[of])
        log = np.sum(logs, axis=0) + np.log(at.w)
        most = log.max(axis=1, keepdims=True)
        q = np.exp(log - most)
        below = q.sum(axis=1, keepdims=True)
        total += (most + np.log(below))[:, 0]
        q /= below
        for m in range(models):
            rise[:, m * judges + j] += (q * firsts[m]).sum(axis=1)
            rise[:, m * judges + k] += (q * seconds[m]).sum(axis=1)
        a, c = np.sum(firsts, axis=0), np.sum(seconds, axis=0)
        rise[:, -3] += (q * (a * by_su[0] + c * by_su[1])).sum(axis=1)
        rise[:, -2] += (q * np.sum(thirds, axis=0)).sum(axis=1)
        rise[:, -1] += (q * (a * by_sw[0] + c * by_sw[1])).sum(axis=1)
    return total, rise


class Fit(NamedTuple):
    """A fitted split: the parameters, with logarithms of standard deviations, and the covariance of those not 0."""

    models: list[str]
    judges: list[str]
    log_odds: Array
    sds: Array
    covariance: Array
    t: float


def inverse_of_bend(loss: Callable[[Array], tuple[float, Array]], theta: Array, free: Numbers) -> Array:
    """Return the inverse of the second derivatives by the free parameters, from differences of the first."""
    steps = STEP * np.eye(len(theta))[free]
    bend = np.array([(loss(theta + step)[1] - loss(theta - step)[1])[free] / (2 * STEP) for step in steps])
    return np.asarray(np.linalg.inv((bend + bend.T) / 2), dtype=float)


@cache
def fit(study: Study, split: str) -> Fit | None:
    """Fit a split; None with one judge or model, or where one would be left out."""
    judges = [judge for judge in sorted(study.judges) if study.said["judge_entries"][judge]["kind"] != "panel"]
    models, reading = sorted(study.models), study.headline(split)
    cells = [[study.cell(judge, model, split) for judge in judges] for model in models]
    values = np.array([[cell.values(reading) for cell in row] for row in cells])
    rates = np.nanmean(values, axis=(2, 3))
    if len(judges) < 2 or len(models) < 2 or rates.min() <= 0 or rates.max() >= 1:
        return None
    shared, at = sharings(values), grid()

    def loss(theta: Array) -> tuple[float, Array]:
        total, rise = scores(theta, values, shared, at)
        return -float(total.sum()), -rise.sum(axis=0)

    start = np.append(np.log(rates / (1 - rates)).ravel(), [0.5, 0.5, 0.3])
    limits = [(None, None)] * rates.size + [(LEAST, None)] * 3
    theta = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=limits).x
    free = np.flatnonzero(np.append(np.ones(rates.size, dtype=bool), theta[-3:] >= NOUGHT))
    theta[-3:] = np.where(theta[-3:] < NOUGHT, LEAST, theta[-3:])
    inverse = inverse_of_bend(loss, theta, free)
    for _ in range(NEWTON):
        theta[free] -= inverse @ loss(theta)[1][free]
    inverse = inverse_of_bend(loss, theta, free)
    names = cells[0][0].clusters
    rise = scores(theta, values, shared, at)[1][:, free]
    sizes = per_cluster(np.ones(len(rise)), names)
    sums = np.column_stack([per_cluster(column, names) / (1 - sizes / len(rise)) for column in rise.T])
    g = len(sums)
    by = np.append(np.ones(rates.size), 1 / theta[-3:])[free]  # of logarithms of standard deviations
    covariance = np.zeros((len(theta), len(theta)))
    covariance[np.ix_(free, free)] = (g - 1) / g * np.outer(by, by) * (inverse @ (sums.T @ sums) @ inverse)
    sds = np.where(theta[-3:] < NOUGHT, 0.0, theta[-3:])
    t = float(stats.t.ppf(1 - study.alpha / 2, max(1, sizes.sum() ** 2 / (sizes**2).sum() - 1)))
    return Fit(models, judges, theta[:-3].reshape(rates.shape), sds, covariance, t)


def near(value: float, low: float = NAN, high: float = NAN) -> Found:
    """Return a number that rests on another grid and another search for the maximum, with its interval.

    The curvature, on which ends and what is subtracted from the parts of models rest, is of the very maximum.
    """
    close = [NEAR, *(NEAR + CLOSE * abs(end - value) for end in (low, high))]
    spans = [Span(float(x) - by, float(x), float(x) + by) for x, by in zip((value, low, high), close, strict=True)]
    return Found(*(NAN if np.isnan(span.at) else span for span in spans))


def deviation(study: Study, asked: Asked) -> Found | None:
    """docs/reference/statistics.md: what a model, or a judge, differs by from the mean of all."""
    found = fit(study, asked.split)
    if found is None:
        return None
    b, of_models = found.log_odds, asked.estimand == "mixed_log_odds"
    weights = np.full(b.shape, -1 / b.size)
    if of_models:
        weights[found.models.index(asked.model)] += 1 / b.shape[1]
    else:
        weights[:, found.judges.index(asked.judge)] += 1 / b.shape[0]
    flat, cells = weights.ravel(), b.size
    value = float(flat @ b.ravel())
    half = found.t * float(np.sqrt(flat @ found.covariance[:cells, :cells] @ flat))
    return near(value, value - half, value + half)


def fixed(b: Array) -> dict[str, Array]:
    """Return the parts of the log-odds that are a model's, a judge's, and both together's, each of the shape of all."""
    of_model, of_judge = b.mean(axis=1, keepdims=True), b.mean(axis=0, keepdims=True)
    parts = {
        "model": of_model - b.mean(),
        "judge": of_judge - b.mean(),
        "model_judge": b - of_model - of_judge + b.mean(),
    }
    return {name: np.broadcast_to(part, b.shape).ravel() for name, part in parts.items()}


def variances(found: Fit, moved: Array) -> dict[str, float]:
    """Return all parts with the parameters moved; the errors of the log-odds, which are subtracted, stay."""
    cells, units = found.log_odds.size, np.eye(found.log_odds.size).reshape(-1, *found.log_odds.shape)
    b = found.log_odds + moved[:cells].reshape(found.log_odds.shape)
    parts = {}
    for name, part in fixed(b).items():
        by_cell = np.array([fixed(unit)[name] for unit in units]).T  # the part is this times the log-odds
        error = float(np.trace(by_cell @ found.covariance[:cells, :cells] @ by_cell.T))
        parts[name] = max(0.0, float(part @ part) - error) / cells
    for name, sd, log in zip(RANDOM, found.sds, moved[cells:], strict=True):
        parts[name] = float((sd * np.exp(log)) ** 2)
    return parts | {"sampling": SAMPLING}


def part(study: Study, asked: Asked) -> Found | None:
    """docs/reference/statistics.md: standard deviations, and their squares as shares."""
    found = fit(study, asked.split)
    if found is None:
        return None
    kind, name = asked.estimand.removeprefix("mixed_").split("_", 1)
    nowhere = np.zeros(len(found.covariance))

    def wanted(moved: Array) -> float:
        parts = variances(found, moved)
        return parts[name] / sum(parts.values())

    if kind == "sd":
        value = float(np.sqrt(variances(found, nowhere)[name]))
        if name not in RANDOM or not value:
            return near(value)
        i = found.log_odds.size + RANDOM.index(name)
        half = found.t * float(np.sqrt(found.covariance[i, i]))
        if half >= 0.5:
            return near(value, 0.0, value * min(1 + half, float(np.sqrt(1 + 4 * half))))
        return near(value, *(value * np.exp([-half, half])))
    value = wanted(nowhere)
    if name not in (*RANDOM, "sampling") or not value:
        return near(value)
    steps = STEP * np.eye(len(nowhere))
    slopes = np.array([(wanted(step) - wanted(-step)) / (2 * STEP) for step in steps])
    half = found.t * float(np.sqrt(slopes @ found.covariance @ slopes))
    if half >= value:
        return near(value, 0.0, min(1.0, value + half))
    logit, reach = np.log(value / (1 - value)), half / (value * (1 - value))
    return near(value, *(1 / (1 + np.exp(-(logit + np.array([-reach, reach]))))))


KNOWN: dict[str, Callable[[Study, Asked], Found | None]] = {
    **dict.fromkeys(("mixed_log_odds", "mixed_log_odds_judge"), deviation),
    **{f"mixed_sd_{name}": part for name in (*FIXED, *RANDOM)},
    **{f"mixed_share_{name}": part for name in (*FIXED, *RANDOM, "sampling")},
}
