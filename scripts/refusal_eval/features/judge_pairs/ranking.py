"""Whether the order of a study's models depends on the judge."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from refusal_eval.stats.estimates.flags import derived_flags, few_flags
from refusal_eval.stats.estimates.intervals import Floats, effective_number, seed_of
from refusal_eval.stats.estimates.resampling import WHOLE, cluster_sums, percentiles, resample_sums, whole

# Rates are summed in billionths, so that three thirds are not quite one: rates that differ by less are equal.
TIED = 2 / WHOLE


def rankings(
    scores: Mapping[tuple[str, str], pd.DataFrame],
    split: str,
    reading: str,
    level: float,
    flags: Mapping[str, Sequence[str]] | None = None,
) -> list[dict[str, Any]]:
    """Return, for every two judges, Kendall's tau-b between their orders of the models by refusal rate on one split.

    first, second, split, reading, n_models (with a rate under both), n_clusters (with a rate), flags; `tau` of these
    models from -1 (reversed) to 1 (the same), None with one or where a judge gives all the same rate; `interval`, a
    bootstrap over clusters of prompts, the same prompts for all models and judges, None with one cluster; `swapped`:
    pairs of models that the two judges order differently, each [higher under the first, higher under the second].

    Args:
        scores: the split's cells (`units.Units`) by (judge, model).
        flags: of each judge's cells of the split (`flags.derived_flags`); None for cells without any.
    """
    judges, models = (sorted({names[i] for names in scores}) for i in (0, 1))
    if len(judges) < 2:
        return []
    sums = _sums(scores, judges, models, reading)
    rates = _rates(sums.sum(axis=0))
    draws = _rates(resample_sums(sums, seed_of("ranking", split))) if len(sums) > 1 else None
    found = []
    for i, j in itertools.combinations(range(len(judges)), 2):
        both = np.isfinite(rates[[i, j]]).all(axis=0)
        tau = float(kendall_tau_b(rates[i, both], rates[j, both]))
        known = np.isfinite(tau)
        rated = sums[..., 1].max(axis=(1, 2))  # prompts of each cluster
        n_clusters = int((rated > 0).sum())
        of_both = ((flags or {}).get(judge, ()) for judge in (judges[i], judges[j]))
        interval = None
        if known and draws is not None:
            taus = kendall_tau_b(draws[:, i, both], draws[:, j, both])
            interval = list(percentiles(taus, len(sums), level)) if np.isfinite(taus).any() else None
        found.append(
            {
                **{"first": judges[i], "second": judges[j], "split": split, "reading": reading},
                "n_models": int(both.sum()),
                "n_clusters": n_clusters,
                "flags": list(derived_flags(of_both, few_flags(effective_number(rated)))),
                "tau": tau if known else None,
                "interval": interval,
                "swapped": _swaps(rates[i], rates[j], models),
            }
        )
    return found


def kendall_tau_b(first: Floats, second: Floats) -> Floats:
    """Return Kendall's tau-b between values in the last axis; ties, up to `TIED`, count for neither order.

    NaN where one side has only ties (Kendall 1945, Biometrika 33:239).
    """
    a, b = np.triu_indices(first.shape[-1], 1)
    one, two = _order(first[..., a] - first[..., b]), _order(second[..., a] - second[..., b])
    below = (one * one).sum(axis=-1) * (two * two).sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(below > 0, (one * two).sum(axis=-1) / np.sqrt(below), np.nan)


def _order(differences: Floats) -> Floats:
    """Return the sign of each difference of rates, 0 within rounding; NaN stays NaN."""
    return np.sign(np.where(np.abs(differences) <= TIED, 0.0, differences))


def _sums(
    scores: Mapping[tuple[str, str], pd.DataFrame], judges: Sequence[str], models: Sequence[str], reading: str
) -> Floats:
    """Sum and number of the rates in each cluster: clusters x judges x models x 2."""
    known = {names: own[["cluster", f"rate_{reading}"]].dropna() for names, own in scores.items()}
    clusters = sorted({cluster for own in known.values() for cluster in own["cluster"]})
    place = {cluster: number for number, cluster in enumerate(clusters)}
    sums = np.zeros((max(1, len(clusters)), len(judges), len(models), 2))
    for (i, judge), (j, model) in itertools.product(enumerate(judges), enumerate(models)):
        own = known[judge, model]
        codes = np.array([place[cluster] for cluster in own["cluster"]], dtype=np.intp)
        values = np.stack([whole(own[f"rate_{reading}"].to_numpy()), np.ones(len(own))], axis=1)
        sums[:, i, j] = cluster_sums(codes, values, len(sums))
    return sums


def _rates(sums: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(sums[..., 1] > 0, sums[..., 0] / sums[..., 1] / WHOLE, np.nan)


def _swaps(first: Floats, second: Floats, models: Sequence[str]) -> list[list[str]]:
    found = []
    for a, b in itertools.combinations(range(len(models)), 2):
        if _order(first[a] - first[b]) * _order(second[a] - second[b]) < 0:
            higher, lower = (a, b) if first[a] > first[b] else (b, a)
            found.append([models[higher], models[lower]])
    return found
