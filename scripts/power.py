"""Tell what a comparison of two models can find: its power, and the smallest difference that it detects.

What a design needs to know is given (--clusters, --samples, --rate, --prompt-correlation, ...) or taken from a pilot
run (--pilot results/demo --split NAME --models A B), where a number that is given counts before the pilot's.
Normal approximation; --simulate checks it with made-up answers and the test that studies use.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from refusal_eval.core.errors import UserError
from refusal_eval.core.hints import nearest
from refusal_eval.report.paper.display import MINUS
from refusal_eval.tools.compare.two_studies import FinishedStudy, finished_study
from refusal_eval.tools.power.comparison_design import Design, detectable, power, standard_error
from refusal_eval.tools.power.pilot_run import Pilot, pilot_of
from refusal_eval.tools.power.simulated_comparisons import simulated_power

# Assumed where neither the command nor a pilot says more; the page says that they are assumed.
ASSUMED = {"prompt_correlation": 0.7, "model_correlation": 0.5, "cluster_correlation": 0.0, "prompts_per_cluster": 1.0}
SIZES = (50, 100, 200, 400, 800)
SAMPLES = (1, 3, 5, 10)
NAMES = {
    "clusters": "clusters of prompts",
    "prompts_per_cluster": "prompts per cluster",
    "samples": "answers per prompt (K)",
    "rate": "refusal rate",
    "prompt_correlation": "correlation of two answers to one prompt",
    "model_correlation": "correlation of the two models over prompts",
    "cluster_correlation": "correlation of the differences in one cluster",
}


def chosen_design(
    given: Mapping[str, float | None], pilot: Pilot | None, samples: int
) -> tuple[Design, dict[str, str]]:
    """Return the design, and for each of its numbers where it comes from: `given`, `pilot` or `assumed`.

    Args:
        given: what the command says, None where it says nothing.
        pilot: what the pilot says.
        samples: K of the pilot.

    Raises:
        UserError: if a number is missing that cannot be assumed.
    """
    told: dict[str, float | None] = dict.fromkeys(NAMES)
    if pilot:
        told |= {name: getattr(pilot, name) for name in NAMES if hasattr(pilot, name)}
        told |= {"rate": pilot.rates[0], "samples": samples}
    numbers: dict[str, float] = {}
    source: dict[str, str] = {}
    for name in NAMES:
        for where, value in (("given", given.get(name)), ("pilot", told[name]), ("assumed", ASSUMED.get(name))):
            if value is not None:
                numbers[name], source[name] = value, where
                break
        else:
            raise UserError(f"--{name} is missing; give it, or a pilot run (--pilot)".replace("_", "-"))
    if not 0 < numbers["rate"] < 1:
        raise UserError(f"a refusal rate of {numbers['rate']:g} tells nothing about how answers vary; give --rate")
    whole = {"clusters": round(numbers["clusters"]), "samples": round(numbers["samples"])}
    return Design(**numbers | whole), source  # type: ignore[arg-type]


def read_pilot(
    study: FinishedStudy, judge: str | None, split: str | None, models: Sequence[str]
) -> tuple[Pilot, int, str]:
    """Return what a finished study says, its K, and what of it was used, in words.

    Raises:
        UserError: if it has no such cells.
    """
    judges = sorted({cell[0] for cell in study.cells})
    judge = judge or str(study.manifest.get("study", {}).get("primary_judge") or judges[0])
    found = {(m, s) for j, m, s in study.cells if j == judge}
    splits, known = sorted({s for _, s in found}), sorted({m for m, _ in found})
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
    both = [study.rows((judge, model, split)) for model in models]
    shared = pd.concat(both, axis=1, join="inner", keys=[0, 1])
    shared = shared.dropna(subset=[(side, f"rate_{reading}") for side in (0, 1)])
    rates, counts = (
        np.column_stack([shared[side, name].to_numpy(float) for side in (0, 1)])
        for name in (f"rate_{reading}", "counting")
    )
    if len(rates) < 2:
        raise UserError(f"{study.folder}: {' and '.join(models)} have less than two prompts with a rate on {split}")
    codes = shared[0, "cluster"].astype("category").cat.codes.to_numpy().astype(int)
    sides = " and ".join(models)
    used = f"{study.folder}, {sides} on {split}, judge {judge}, {len(rates)} prompts, {reading} reading"
    return pilot_of(rates, counts, codes), int(summary["samples"]), used


def page(
    design: Design, source: Mapping[str, str], alpha: float, wanted: float, difference: float | None, runs: int
) -> str:
    """The answer as text."""
    lines = ["The design"]
    for name, words in NAMES.items():
        lines.append(f"  {words + ':':<48} {getattr(design, name):<8.3g} ({source[name]})")
    lines.append(f"  {'level of the test, two-sided:':<48} {alpha:<8.3g}")
    lines += ["", f"Smallest difference found with a power of {wanted:.0%} (percentage points):"]
    lines += [f"  {_detected(design, wanted, alpha)}", ""]
    if difference is not None:
        lines += [f"Power for a difference of {100 * difference:+.1f} points: {power(design, difference, alpha):.0%}"]
        lines += [f"  standard error of the difference: {100 * standard_error(design, difference):.1f} points"]
        lines += [_checked(design, difference, alpha, runs)] if runs else []
        lines.append("")
    elif runs and (found := detectable(design, wanted, alpha)) is not None:
        lines += [_checked(design, found, alpha, runs), ""]
    lines += ["The same for other numbers of clusters (rows) and K (columns), up:"]
    lines.append("  " + f"{'clusters':>10}" + "".join(f"{'K = ' + str(k):>10}" for k in SAMPLES))
    for clusters in sorted({*SIZES, design.clusters}):
        cells = []
        for samples in SAMPLES:
            found = detectable(dataclasses.replace(design, clusters=clusters, samples=samples), wanted, alpha)
            cells.append("-" if found is None else f"{100 * found:.1f}")
        lines.append("  " + f"{clusters:>10}" + "".join(f"{cell:>10}" for cell in cells))
    lines += [
        "",
        "More prompts always help; more answers per prompt (K) help where answers to one prompt vary.",
    ]
    if "assumed" in source.values():
        lines.append("What is assumed decides much: a pilot of some 50 prompts with K = 3 and both models tells it.")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=int, help="independent clusters of prompts; prompts, where they share none")
    parser.add_argument("--prompts-per-cluster", type=float, help="default: 1, or the pilot's")
    parser.add_argument("--samples", type=int, help="K, answers per prompt")
    parser.add_argument("--rate", type=float, help="refusal rate of the model that is compared against")
    parser.add_argument("--prompt-correlation", type=float, help="of two answers to one prompt (default: 0.7)")
    parser.add_argument("--model-correlation", type=float, help="of two models over prompts (default: 0.5)")
    parser.add_argument("--cluster-correlation", type=float, help="of the differences in one cluster (default: 0)")
    parser.add_argument("--pilot", type=Path, metavar="RESULTS", help="results of a finished study, e.g. results/demo")
    parser.add_argument("--judge", help="judge of the pilot (default: its primary judge)")
    parser.add_argument("--split", help="split of the pilot")
    parser.add_argument("--models", nargs=2, default=[], metavar=("AGAINST", "MODEL"), help="models of the pilot")
    parser.add_argument("--difference", type=float, help="a difference, e.g. 0.1 for ten points: tell its power")
    parser.add_argument("--power", type=float, default=0.8, help="power that is wanted (default: %(default)s)")
    parser.add_argument("--level", type=float, default=0.95, help="1 minus the test's level (default: %(default)s)")
    parser.add_argument("--comparisons", type=int, default=1, help="size of the family: the hardest step of Holm's")
    parser.add_argument("--simulate", type=int, default=0, metavar="RUNS", help="check with made-up answers, e.g. 2000")
    chosen = parser.parse_args(arguments)
    try:
        _check_ranges(chosen)
        pilot, samples, used = None, 0, ""
        if chosen.pilot:
            pilot, samples, used = read_pilot(finished_study(chosen.pilot), chosen.judge, chosen.split, chosen.models)
        design, source = chosen_design({name: getattr(chosen, name) for name in NAMES}, pilot, samples)
        alpha = (1 - chosen.level) / chosen.comparisons
        text = page(design, source, alpha, chosen.power, chosen.difference, chosen.simulate)
    except (UserError, ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    if pilot:
        rates = " and ".join(f"{100 * rate:.1f} %" for rate in pilot.rates)
        print(f"Pilot: {used}; rates {rates}\n")
    print(text, end="")
    return 0


def _check_ranges(chosen: argparse.Namespace) -> None:
    ranges = {
        "rate": (0.0, 1.0),
        "prompt_correlation": (0.0, 1.0),
        "model_correlation": (-1.0, 1.0),
        "cluster_correlation": (0.0, 1.0),
        "power": (0.05, 0.999),
        "level": (0.5, 0.9999),
        "difference": (-1.0, 1.0),
        "clusters": (2, math.inf),
        "samples": (1, math.inf),
        "prompts_per_cluster": (1, math.inf),
        "comparisons": (1, math.inf),
        "simulate": (0, 1_000_000),
    }
    for name, (low, high) in ranges.items():
        value = getattr(chosen, name)
        if value is not None and not low <= value <= high:
            limits = f"at least {low:g}" if high == math.inf else f"between {low:g} and {high:g}"
            raise UserError(f"--{name.replace('_', '-')} must be {limits}, not {value:g}")


def _detected(design: Design, wanted: float, alpha: float) -> str:
    ends = {"up": detectable(design, wanted, alpha), "down": detectable(design, wanted, alpha, up=False)}
    texts = {"up": "+", "down": MINUS}
    told = [
        f"{way} from {100 * design.rate:.1f} %: "
        + (f"{texts[way]}{100 * abs(found):.1f}" if found is not None else "none that the rate leaves room for")
        for way, found in ends.items()
    ]
    return "; ".join(told)


def _checked(design: Design, difference: float, alpha: float, runs: int) -> str:
    size = round(design.prompts_per_cluster)
    shared = design.cluster_correlation if size > 1 else 0.0
    rounded = dataclasses.replace(design, prompts_per_cluster=size, cluster_correlation=shared)
    if design.model_correlation < 0:
        return "  not simulated: the models' correlation is below 0"
    try:
        found = simulated_power(rounded, difference, alpha, runs, seed=0)
    except ValueError as error:
        return f"  not simulated: {error}"
    near = power(rounded, difference, alpha)
    spread = 1.96 * math.sqrt(found * (1 - found) / runs)
    return (
        f"  simulated for {100 * difference:+.1f} points: {found:.1%} (\u00b1 {spread:.1%}), approximated: {near:.1%}"
    )


if __name__ == "__main__":
    sys.exit(main())
