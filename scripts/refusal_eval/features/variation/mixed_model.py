"""How much of the difference between verdicts is models, prompts, judges and sampling: a crossed logistic mixed model.

A verdict is 1 (refuses in the split's headline reading) or 0. Prompts p are a sample of prompts; models m and judges j
are those of the study. The log-odds of the verdict of judge j on an answer of model m to prompt p are

    b_mj + u_p + v_pm + w_pj        u, v, w normal, independent, with means 0 and standard deviations
                                    sd_prompt, sd_prompt_model, sd_prompt_judge

Given these, answers are independent: the remaining difference is sampling, which includes a judge's reading of a single
answer. On the scale of log-odds its variance is pi^2 / 3, that of the logistic distribution (Nakagawa, Johnson &
Schielzeth 2017, J. R. Soc. Interface 14:20170213). With J judges, M models, b_m and b_j the means of b_mj over judges
and models, and b their mean,

    model = mean of (b_m - b)^2    judge = mean of (b_j - b)^2    model x judge = mean of (b_mj - b_m - b_j + b)^2

each less what the error of the b_mj adds to it, and 0 if that is more. A share is a variance divided by the sum of all.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy

from refusal_eval.features.variation.mixed_likelihood import Fit, fit_model
from refusal_eval.stats.estimates.estimate import Estimate, NumberInterval, estimate_from
from refusal_eval.stats.estimates.flags import derived_flags, few_flags
from refusal_eval.stats.estimates.intervals import Floats, effective_number
from refusal_eval.stats.estimates.resampling import cluster_codes
from refusal_eval.stats.estimates.units import LabelCodes
from refusal_eval.stats.estimates.variance import decisions

SAMPLING = math.pi**2 / 3  # variance of the logistic distribution
METHOD = "Wald, cluster-robust sandwich, t quantile"
NO_MAXIMUM = "its likelihood has no maximum: too few verdicts, or nearly all prompts are always or never refused"
_DIGITS = 6  # the others differ between machines
_STEP = 1e-5  # of differences that slopes are made of


class Mixed(NamedTuple):
    """The estimates of a split, and a sentence for each model or judge that is left out, or for the whole split."""

    estimates: list[Estimate]
    notes: list[str]


def mixed_estimates(
    labels: Mapping[tuple[str, str], LabelCodes],
    clusters: Sequence[str],
    split: str,
    reading: str,
    level: float,
    flags: Iterable[Sequence[str]],
) -> Mixed:
    """Return standard deviations, their shares, and the log-odds of models and judges of one split.

    Only a sentence if the model cannot be fitted. Judges with one verdict on everything are left out, and then models
    whose answers all get one verdict from some judge: their log-odds would be infinite.

    Args:
        labels: of `units.Units`, units x K, of each (judge, model).
        flags: of each of these cells.
    """
    judges, models = (sorted({cell[i] for cell in labels}) for i in (0, 1))
    z = np.stack([[decisions(labels[judge, model], reading) for judge in judges] for model in models])
    models, judges, z, notes = _varying(models, judges, z.transpose(2, 0, 3, 1), split)  # units, models, K, judges
    answered = np.asarray(~np.isnan(z)).any(axis=3).sum(axis=2)  # the answers of each model to each prompt that count
    used, most = answered.any(axis=1), int(answered.max(initial=0))
    codes = cluster_codes(np.asarray(clusters, dtype=object)[used]) if used.any() else np.zeros(0, dtype=np.intp)
    groups = len(np.unique(codes))
    fit, why = None, ""
    if not models:
        why = "no judge sees a difference between answers"
    elif groups < 2:
        why = "its prompts are one cluster"
    elif most < 2:
        why = "no prompt has two answers that count"
    elif (fit := fit_model(z[used], _effects(len(models), len(judges), most), codes)) is None:
        why = NO_MAXIMUM
    if fit is None:
        return Mixed([], [*notes, f"split {split} has no mixed model: {why}"])
    effective = effective_number(np.bincount(codes))
    few = derived_flags(flags, few_flags(effective))
    about: dict[str, Any] = {"split": split, "reading": reading, "samples": z.shape[2]}
    about |= {"n_prompts": int(used.sum()), "n_clusters": groups, "flags": few}
    alone = {"judge": judges[0]} if len(judges) == 1 else {"parameter": ", ".join(judges)}
    t = float(scipy.special.stdtrit(max(1.0, effective - 1), (1 + level) / 2))
    rows = [(name, number, alone) for name, number in _parts(fit, t).items()]
    if len(models) > 1:
        effects = _deviations(fit, 1, t)
        rows += [("log_odds", n, {"model": model} | alone) for model, n in zip(models, effects, strict=True)]
    if len(judges) > 1:
        effects = _deviations(fit, 0, t)
        rows += [("log_odds_judge", n, {"judge": judge}) for judge, n in zip(judges, effects, strict=True)]
    found = [estimate_from(f"mixed_{name}", _round(number), level, **about | own) for name, number, own in rows]
    return Mixed(found, notes)


def _round(number: NumberInterval) -> NumberInterval:
    value, low, high = (x and round(x, _DIGITS) + 0.0 for x in number[:3])
    return NumberInterval(value or 0.0, low, high, METHOD)


def _varying(
    models: list[str], judges: list[str], z: Floats, split: str
) -> tuple[list[str], list[str], Floats, list[str]]:
    """The models, judges and decisions (units x models x K x judges) without what does not vary, and why."""

    def varies(axes: tuple[int, ...]) -> Any:
        return (z == 1).any(axis=axes) & (z == 0).any(axis=axes)

    keep = varies((0, 1, 2))
    lost = [judge for judge, kept in zip(judges, keep, strict=True) if not kept]
    left_out = "is left out of the mixed model: {} gave no verdict, or the same to all answers"
    notes = [f"split {split}, judge {judge} {left_out.format('it')}" for judge in lost]
    judges, z = [judge for judge in judges if judge not in lost], z[..., keep]
    keep = varies((0, 2)).all(axis=1) & bool(judges)
    lost = [model for model, kept in zip(models, keep, strict=True) if not kept] if judges else []
    notes += [f"split {split}, model {model} {left_out.format('a judge')}" for model in lost]
    return [model for model, kept in zip(models, keep, strict=True) if kept], judges, z[:, keep], notes


def _effects(models: int, judges: int, answers: int) -> list[str]:
    """Return the random effects that can be told from sampling with this many answers per model and prompt."""
    found = ["prompt"]
    if models > 1:
        found.append("prompt_model")
    if judges > 1 and (models > 1 or answers > 2):  # else no two answers to a prompt are read by one judge
        found.append("prompt_judge")
    return found


def _parts(fit: Fit, t: float) -> dict[str, NumberInterval]:
    """Standard deviations and shares by name; those of models and judges, and those that are 0, have no interval."""
    forms, cells = _forms(*fit.log_odds.shape), fit.log_odds.size
    errors = {name: float((form * fit.covariance[:cells, :cells]).sum()) for name, form in forms.items()}

    def variances(theta: Floats) -> Floats:
        sds = dict(zip(fit.names, np.exp(theta[cells:]).tolist(), strict=True))
        fixed = [max(0.0, theta[:cells] @ form @ theta[:cells] - errors[name]) for name, form in forms.items()]
        return np.array([*fixed, *(sds.get(name, 0.0) ** 2 for name in fit.sds), SAMPLING])

    def shares(theta: Floats) -> Floats:
        return np.asarray(variances(theta) / variances(theta).sum())

    theta = np.concatenate([fit.log_odds.ravel(), [math.log(fit.sds[name]) for name in fit.names]])
    steps = np.eye(len(theta)) * _STEP
    slopes = np.array([(shares(theta + step) - shares(theta - step)) / (2 * _STEP) for step in steps])
    halves = t * np.sqrt(np.einsum("is,ij,js->s", slopes, fit.covariance, slopes))
    sds, found = {}, {}
    names = (*forms, *fit.sds, "sampling")
    for name, variance, share, half in zip(names, variances(theta), shares(theta), halves, strict=True):
        sds[f"sd_{name}"] = NumberInterval(math.sqrt(variance))
        found[f"share_{name}"] = NumberInterval(float(share))
        if name in fit.names:
            i = cells + fit.names.index(name)
            sds[f"sd_{name}"] = _sd(fit.sds[name], t * math.sqrt(fit.covariance[i, i]))
        if name in (*fit.names, "sampling"):
            found[f"share_{name}"] = _share(float(share), float(half))
    del sds["sd_sampling"]  # known, and the unit of all others
    return sds | found


def _forms(models: int, judges: int) -> dict[str, Floats]:
    """Matrices A of the parts of models and judges, each b'Ab for the log-odds b row by row."""
    apart_m, apart_j = (np.eye(n) - 1 / n for n in (models, judges))
    alike_m, alike_j = (np.full((n, n), 1 / n**2) for n in (models, judges))
    found = {
        "model": np.kron(apart_m, alike_j) / models,
        "judge": np.kron(alike_m, apart_j) / judges,
        "model_judge": np.kron(apart_m, apart_j) / (models * judges),
    }
    return {name: form for name, form in found.items() if form.any()}


def _deviations(fit: Fit, axis: int, t: float) -> list[NumberInterval]:
    """Log-odds of models (axis 1, over which the mean is taken) or of judges (axis 0), less the mean of all."""
    models, judges = fit.log_odds.shape
    of_models, of_judges = np.full((1, models), 1 / models), np.full((1, judges), 1 / judges)
    apart = np.eye(models) - 1 / models, np.eye(judges) - 1 / judges
    weights = np.kron(apart[0], of_judges) if axis == 1 else np.kron(of_models, apart[1])
    values = weights @ fit.log_odds.ravel()
    variances = np.diag(weights @ fit.covariance[: weights.shape[1], : weights.shape[1]] @ weights.T)
    halves = t * np.sqrt(np.maximum(variances, 0.0))
    return [NumberInterval(v, v - half, v + half) for v, half in zip(values.tolist(), halves.tolist(), strict=True)]


def _sd(value: float, half: float) -> NumberInterval:
    """A standard deviation whose logarithm is known to +- half. Near 0 its square is closer to normal: where that may
    be 0 so is the lower end. The upper end is value (1 + half), as that of the square, value sqrt(1 + 2 half), covers
    too seldom with K = 2; but as it has no limit near 0, it is at most that of a square known half as well.
    """
    if 2 * half >= 1:
        return NumberInterval(value, 0.0, value * min(1 + half, math.sqrt(1 + 4 * half)))
    return NumberInterval(value, value * math.exp(-half), value * math.exp(half))


def _share(value: float, half: float) -> NumberInterval:
    """A share that is known to +- half: on the scale of its log-odds, unless it may be 0."""
    if half >= value or value >= 1:
        return NumberInterval(value, 0.0, min(1.0, value + half))
    low, high = (
        scipy.special.expit(scipy.special.logit(value) + sign * half / (value * (1 - value))) for sign in (-1, 1)
    )
    return NumberInterval(value, float(low), float(high))
