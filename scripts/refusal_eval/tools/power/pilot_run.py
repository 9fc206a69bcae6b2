"""Rates and correlations from a pilot run, for the design of a comparison, by the method of moments."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from refusal_eval.core.errors import UserError
from refusal_eval.core.hints import nearest
from refusal_eval.stats.estimates.intervals import Codes, Floats, effective_of
from refusal_eval.tools.compare.two_studies import FinishedStudy

# Prompts beyond the first of their cluster; fewer say nothing about how alike prompts of one cluster are.
MIN_SHARING = 20


Numbers = dict[str, float | None]  # of a design, by the names in `comparison_design.Design`; None: cannot be computed


def read_pilot(
    study: FinishedStudy, judge: str | None, split: str | None, models: Sequence[str]
) -> tuple[Numbers, str]:
    """Return what a finished study says, and which of it was used, in words.

    Raises:
        UserError: if it has no such cells.
    """
    judges = sorted({cell[0] for cell in study.cells})
    judge = judge or str(study.manifest.get("study", {}).get("primary_judge") or judges[0])
    found = {(m, s) for j, m, s in study.cells if j == judge}
    known, splits = (sorted({cell[place] for cell in found}) for place in (0, 1))
    if not found:
        raise UserError(f"{study.folder} has no scores of judge {judge}" + nearest(judge, judges))
    split = split or (splits[0] if len(splits) == 1 else "")
    if split not in splits:
        raise UserError(f"name one of the pilot's splits with --split: {', '.join(splits)}")
    if not models and len(known) == 2:
        models = known
    if len(models) != 2:
        raise UserError(f"name two of the pilot's models with --models: {', '.join(known)}")
    for model in models:
        if (model, split) not in found:
            raise UserError(f"{study.folder} has no scores of model {model} on {split}" + nearest(model, known))
    summary = study.cells[judge, models[0], split]
    reading = summary["headline"]
    both = [study.units((judge, model, split)).frame for model in models]
    shared = pd.concat(both, axis=1, join="inner", keys=[0, 1])
    shared = shared.dropna(subset=[(side, f"rate_{reading}") for side in (0, 1)])
    rates, counts = (
        np.column_stack([shared[side, name].to_numpy(float) for side in (0, 1)])
        for name in (f"rate_{reading}", "counting")
    )
    if len(rates) < 2:
        raise UserError(f"{study.folder}: {' and '.join(models)} have less than two prompts with a rate on {split}")
    codes = shared[0, "cluster"].astype("category").cat.codes.to_numpy().astype(int)
    used = f"{study.folder}, {' and '.join(models)} on {split}, judge {judge}, {len(rates)} prompts, {reading} reading"
    used += f"; rates {' and '.join(f'{100 * rate:.1f} %' for rate in rates.mean(axis=0))}"
    return pilot_of(rates, counts, codes) | {"samples": summary["samples"]}, used


def pilot_of(rates: Floats, counts: Floats, clusters: Codes) -> Numbers:
    """Return the numbers of a pilot run; needs two prompts that both models answered.

    With x refusals of k samples, x (x - 1) / (k (k - 1)) is unbiased for p^2 of a prompt, and the product of two
    prompts' rates for the square of the mean; so their difference is, for the variance of p between prompts. The
    covariance of the rates of two models has no noise of sampling in it. Estimates are cut to their possible range. One
    correlation within prompts stands for both models: with it and that of the models, the design has the sum of their
    variances and their covariance, also where one of them is steadier. The one within clusters is None if (nearly) all
    clusters hold one prompt.

    Args:
        rates: prompts x 2.
        counts: samples behind each rate, prompts x 2.
        clusters: number of each prompt's cluster.
    """
    n, groups, means = len(rates), len(np.unique(clusters)), rates.mean(axis=0)
    between = [variance_between(rates[:, i], counts[:, i]) for i in (0, 1)]
    total = [float(mean * (1 - mean)) for mean in means]
    known = [(min(max(0.0, b), t), t) for b, t in zip(between, total, strict=True) if b is not None and t > 0]
    within = sum(b for b, _ in known) / sum(t for _, t in known) if known else None
    model = None
    if len(known) == 2 and within:
        most = math.sqrt(known[0][0] * known[1][0])
        covariance = min(most, max(-most, float(np.cov(rates.T)[0, 1])))
        model = min(1.0, max(-1.0, covariance / (within * math.sqrt(math.prod(total)))))
    shared = cluster_correlation(rates[:, 0] - rates[:, 1], clusters) if n - groups >= MIN_SHARING else None
    return {
        "clusters": groups,
        "prompts_per_cluster": n / groups,
        "evenness": effective_of(clusters) / groups,
        "rate": float(means[0]),
        "prompt_correlation": within,
        "model_correlation": model,
        "cluster_correlation": shared,
    }


def variance_between(rates: Floats, counts: Floats) -> float | None:
    """Return the variance of the prompts' probabilities, None where no prompt has two samples; may be below 0."""
    several = counts >= 2
    if several.sum() < 2:
        return None
    x, k = rates[several] * counts[several], counts[several]
    squares = float(np.mean(x * (x - 1) / (k * (k - 1))))
    own, n = rates[several], int(several.sum())
    return squares - float((own.sum() ** 2 - (own**2).sum()) / (n * (n - 1)))


def cluster_correlation(values: Floats, clusters: Codes) -> float | None:
    """Return the intra-cluster correlation of values, by one-way analysis of variance, cut to [0, 1].

    None where no cluster holds two values or all values are the same. (Donner & Koval 1980, Biometrics 36:19.)
    """
    _, codes = np.unique(clusters, return_inverse=True)
    sizes = np.bincount(codes)
    groups, n = len(sizes), len(values)
    if groups < 2 or n == groups:
        return None
    means = np.bincount(codes, weights=values) / sizes
    within = float(((values - means[codes]) ** 2).sum()) / (n - groups)
    between = float((sizes * (means - values.mean()) ** 2).sum()) / (groups - 1)
    size = (n - float((sizes**2).sum()) / n) / (groups - 1)
    whole = between + (size - 1) * within
    return min(1.0, max(0.0, (between - within) / whole)) if whole > 0 else None
