"""What the mixed model finds on simulated verdicts whose parts are known, what a library finds, and how long it takes.

    python benchmarks/mixed_model.py                      # bias and coverage, and the time of 50,000 answers
    python benchmarks/mixed_model.py --only one_judge --studies 300
    python benchmarks/mixed_model.py --only parts         # beside the parts of the variance, same verdicts

Log-odds of a refusal: models at -1.5, -0.5, 0.5 and 1.5, two judges at +-0.3, normal random effects. Two judges read
the same answers, of which each refuses where one number that both share is below its probability: as much agreement as
there can be. The truth of `clusters` are prompts of whose variance half is their cluster's; `two_of_100` and the
cases after it have clusters of unequal size.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from measuring import print_head
from numpy.typing import NDArray
from scipy import sparse
from unequal_designs import DESIGNS, codes_of

from refusal_eval.features.variation.mixed_likelihood import EFFECTS
from refusal_eval.features.variation.mixed_model import SAMPLING, mixed_estimates
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.intervals import Floats, seed_of
from refusal_eval.stats.estimates.variance import variance_parts

RANDOM = ("sd_prompt", "sd_prompt_model", "sd_prompt_judge")
SHARES = ("share_prompt", "share_prompt_model", "share_prompt_judge", "share_sampling")


UNEQUAL = {
    "two_of_100": "2 of 100, 98 single",
    "zipf": "100, Zipf (100, 50, 33, ...)",
    "five_of_20": "5 of 20, 200 single",
    "log_normal": "300, log-normal",
}


@dataclass(frozen=True)
class Made:
    """A study: prompts, models (their log-odds), K, judges, and standard deviations in the order of `EFFECTS`."""

    prompts: int
    answers: int
    judges: int
    sds: tuple[float, float, float]
    models: tuple[float, ...] = (-1.5, -0.5, 0.5, 1.5)
    cluster: int = 1  # prompts in a cluster
    design: str | None = None  # of `unequal_designs`, where clusters are of unequal size

    @property
    def codes(self) -> NDArray[np.intp]:
        """Number of each prompt's cluster."""
        return np.arange(self.prompts) // self.cluster if self.design is None else codes_of(DESIGNS[self.design])

    @property
    def strictness(self) -> tuple[float, ...]:
        """Log-odds of the judges."""
        return (0.0,) if self.judges == 1 else tuple(np.linspace(0.3, -0.3, self.judges).tolist())


CASES = {
    "one_judge": Made(300, 5, 1, (1.5, 0.8, 0.0)),
    "decided": Made(300, 5, 1, (4.0, 1.5, 0.0)),
    "no_prompt_model": Made(300, 5, 1, (1.5, 0.0, 0.0)),
    "two_answers": Made(300, 2, 1, (1.5, 0.8, 0.0)),
    "hundred": Made(100, 5, 1, (1.5, 0.8, 0.0)),
    "clusters": Made(300, 5, 1, (1.5, 0.8, 0.0), cluster=3),
    "large_clusters": Made(600, 5, 1, (1.5, 0.8, 0.0), cluster=20),
    "two_judges": Made(300, 5, 2, (1.5, 0.8, 0.5)),
    **{key: Made(sum(DESIGNS[name]), 5, 1, (1.5, 0.8, 0.0), design=name) for key, name in UNEQUAL.items()},
}
LARGE = {"one judge": Made(2500, 5, 1, (1.5, 0.8, 0.0)), "two judges": Made(2500, 5, 2, (1.5, 0.8, 0.5))}


def verdicts(made: Made, seed: int) -> Floats:
    """Return decisions of one simulated study: prompts x models x K x judges."""
    rng = np.random.default_rng(seed)
    n, m = made.prompts, len(made.models)
    prompt, model, judge = made.sds
    u = rng.normal(size=(n, 1, 1))
    if len(np.unique(made.codes)) < n:
        of_cluster = rng.normal(size=(int(made.codes.max()) + 1, 1, 1))[made.codes]
        u = np.sqrt(0.5) * (u + of_cluster)
    effects = prompt * u + model * rng.normal(size=(n, m, 1)) + judge * rng.normal(size=(n, 1, made.judges))
    log_odds = np.add.outer(np.array(made.models), np.array(made.strictness)) + effects
    return np.asarray(rng.random((n, m, made.answers, 1)) < 1 / (1 + np.exp(-log_odds[:, :, None])), dtype=float)


def fitted(made: Made, z: Floats) -> dict[str, list[Estimate]]:
    """Return the published estimates by name."""
    labels = np.where(z == 1, 0, 2).astype(np.int8)
    cells = {(f"{j}", f"{m:02d}"): labels[:, m, :, j] for m in range(z.shape[1]) for j in range(z.shape[3])}
    names = [f"{code:05d}" for code in made.codes]
    found: dict[str, list[Estimate]] = {}
    for estimate in mixed_estimates(cells, names, "s", "strict", 0.95, []).estimates:
        found.setdefault(estimate.estimand.removeprefix("mixed_"), []).append(estimate)
    return found


def truths(made: Made) -> dict[str, list[float]]:
    """Return the true values by name."""
    models, judges = np.array(made.models), np.array(made.strictness)
    sds = {"model": float(models.std()), "judge": float(judges.std()), **dict(zip(EFFECTS, made.sds, strict=True))}
    whole = sum(sd**2 for sd in sds.values()) + SAMPLING
    shares = {f"share_{name}": [sd**2 / whole] for name, sd in sds.items()} | {"share_sampling": [SAMPLING / whole]}
    found = {f"sd_{name}": [sd] for name, sd in sds.items()} | shares
    return found | {"log_odds": (models - models.mean()).tolist(), "log_odds_judge": judges.tolist()}


def library(z: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the standard deviations, log-odds and their errors by statsmodels' variational Bayes, for one judge."""
    from statsmodels.genmod.bayes_mixed_glm import BinomialBayesMixedGLM

    prompts, models, answers, _ = z.shape
    p, m, _ = (part.ravel() for part in np.indices((prompts, models, answers)))
    columns = [sparse.csr_matrix((np.ones(len(c)), (np.arange(len(c)), c))) for c in (p, p * models + m)]
    ident = np.repeat([0, 1], [prompts, prompts * models])
    model = BinomialBayesMixedGLM(
        z.ravel(), np.eye(models)[m], sparse.hstack(columns).tocsr(), ident, vcp_p=2.0, fe_p=5.0
    )
    size = models + 2 + len(ident)
    found = model.fit_vb(np.zeros(size), np.full(size, 0.3), fit_method="L-BFGS-B", minim_opts={"maxiter": 2000})
    return np.exp(found.vcp_mean), found.fe_mean, found.fe_sd


def coverage(name: str, studies: int) -> None:
    """Print bias and coverage of each estimate of a kind of study."""
    made, truth = CASES[name], truths(CASES[name])
    seen: dict[str, list[tuple[float, float, bool, bool]]] = {}
    failed = 0
    for study in range(studies):
        found = fitted(made, verdicts(made, seed_of("mixed", name, str(study))))
        failed += not found
        for key, estimates in found.items():
            for e, true in zip(estimates, truth.get(key, []), strict=False):
                known = e.low is not None and e.high is not None
                held = e.low is not None and e.high is not None and e.low <= true <= e.high
                seen.setdefault(key, []).append((e.value or 0.0, true, known, held))
    print(f"\n{name}: {made}, {studies} studies, {failed} without a fit")
    print(f"{'':<24}{'true':>8}{'mean':>8}{'spread':>8}{'interval':>10}{'holds':>8}")
    for key, rows in seen.items():
        values, true, known, held = np.array(rows, dtype=float).T
        shown = f"{100 * held.sum() / known.sum():7.1f}%" if known.any() else "      --"
        several = key.startswith("log_odds")
        mean = (values - true).mean() + (0.0 if several else true[0])
        print(
            f"{key:<24}{'' if several else f'{true[0]:.3f}':>8}{mean:8.3f}"
            f"{(values - true).std():8.3f}{100 * known.mean():9.0f}%{shown}",
            flush=True,
        )


def beside_library(studies: int) -> None:
    """Print what variational Bayes finds on the verdicts of one judge."""
    made = CASES["one_judge"]
    sds, held = [], []
    truth = np.array(made.models) - np.mean(made.models)
    for study in range(studies):
        found, log_odds, errors = library(verdicts(made, seed_of("mixed", "one_judge", str(study))))
        sds.append(found)
        width = 1.96 * np.sqrt(errors**2 * (1 - 2 / len(errors)) + (errors**2).sum() / len(errors) ** 2)
        held.append(np.abs(log_odds - log_odds.mean() - truth) <= width)
    print(
        f"\nstatsmodels {studies} studies: sd_prompt {np.mean(sds, axis=0)[0]:.3f} (true 1.5), sd_prompt_model ", end=""
    )
    print(f"{np.mean(sds, axis=0)[1]:.3f} (true 0.8), log_odds held {100 * np.mean(held):.1f}%", flush=True)


def beside_parts(studies: int) -> None:
    """Print the parts of the variance of each model beside the shares of the mixed model, on the same verdicts."""
    made = CASES["two_judges"]
    parts: dict[str, list[float]] = {}
    for study in range(studies):
        z = verdicts(made, seed_of("mixed", "two_judges", str(study)))
        for m in range(z.shape[1]):
            found = variance_parts(z[:, m], [f"{i:03d}" for i in range(made.prompts)], 0.95, 0)
            assert found is not None
            for name, part in found[0].items():
                parts.setdefault(f"model {m}: variance_{name}", []).append(part.value)
        for key, estimates in fitted(made, z).items():
            if key.startswith("share"):
                parts.setdefault(f"mixed_{key}", []).append(estimates[0].value or 0.0)
    print(f"\nthe same verdicts, two judges, mean of {studies} studies")
    for name, values in parts.items():
        print(f"{name:<36}{np.mean(values):8.3f}", flush=True)


def large() -> None:
    """Print the time of 50,000 answers."""
    for name, made in LARGE.items():
        z = verdicts(made, 0)
        started, processor = time.perf_counter(), time.process_time()
        found = fitted(made, z)
        seconds, busy = time.perf_counter() - started, time.process_time() - processor
        sds = ", ".join(f"{key} {found[key][0].value:.3f}" for key in RANDOM if key in found)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"50,000 answers, {name}: {seconds:.1f} s ({busy:.1f} s of processor time), {peak:.2f} GiB; {sds}",
            flush=True,
        )


def main() -> None:
    """Simulate and print."""
    makers: dict[str, Callable[[int], Any]] = {name: lambda n, name=name: coverage(name, n) for name in CASES}  # type: ignore[misc]
    makers |= {"library": beside_library, "parts": beside_parts, "large": lambda _: large()}
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--studies", type=int, default=200, help="simulated studies of each kind")
    parser.add_argument("--only", nargs="+", choices=list(makers), help="only these")
    arguments = parser.parse_args()
    print_head("The mixed model on simulated verdicts")
    warnings.simplefilter("ignore")
    chosen: Sequence[str] = arguments.only or list(makers)
    for name in chosen:
        makers[name](arguments.studies)


if __name__ == "__main__":
    main()
