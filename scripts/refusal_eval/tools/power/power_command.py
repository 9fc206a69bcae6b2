"""What a comparison of two models can find: its power, and the smallest difference that it detects."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from refusal_eval.core.errors import UserError
from refusal_eval.program.terminal import show
from refusal_eval.program.text_templates import render_template
from refusal_eval.report.paper.display import MINUS
from refusal_eval.tools.compare.two_studies import finished_study
from refusal_eval.tools.power.comparison_design import Design, detectable, power, standard_error
from refusal_eval.tools.power.pilot_run import Numbers, read_pilot

# Assumed where neither the command nor a pilot says more; the page says that they are assumed.
ASSUMED = {"prompt_correlation": 0.7, "model_correlation": 0.5, "cluster_correlation": 0.0}
ASSUMED |= {"prompts_per_cluster": 1.0, "evenness": 1.0}
SIZES = (50, 100, 200, 400, 800)
SAMPLES = (1, 3, 5, 10)
FEW_CLUSTERS = 50  # below, the approximation promises more than the test holds (docs/reference/comparisons.md)
NAMES = {
    "clusters": "clusters of prompts",
    "prompts_per_cluster": "prompts per cluster",
    "evenness": "evenness of clusters (1: all of one size)",
    "samples": "answers per prompt (K)",
    "rate": "refusal rate",
    "prompt_correlation": "correlation of two answers to one prompt",
    "model_correlation": "correlation of the two models over prompts",
    "cluster_correlation": "correlation of the differences in one cluster",
}


def command(
    clusters: Annotated[
        int | None, typer.Option(min=2, help="Independent clusters of prompts; prompts, where they share none.")
    ] = None,
    prompts_per_cluster: Annotated[
        float | None, typer.Option(min=1, help="Of clusters of one size (default: 1, or as in the pilot).")
    ] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="K, answers per prompt.")] = None,
    rate: Annotated[
        float | None, typer.Option(min=0, max=1, help="Refusal rate of the model that is compared against.")
    ] = None,
    prompt_correlation: Annotated[
        float | None, typer.Option(min=0, max=1, help="Of two answers to one prompt (default: 0.7).")
    ] = None,
    model_correlation: Annotated[
        float | None, typer.Option(min=-1, max=1, help="Of two models over prompts (default: 0.5).")
    ] = None,
    cluster_correlation: Annotated[
        float | None, typer.Option(min=0, max=1, help="Of the differences in one cluster, at this K (default: 0).")
    ] = None,
    pilot: Annotated[Path | None, typer.Option(help="Results of a finished study, e.g. results/demo.")] = None,
    judge: Annotated[str | None, typer.Option(help="Judge of the pilot (default: its primary judge).")] = None,
    split: Annotated[str | None, typer.Option(help="Split of the pilot.")] = None,
    models: Annotated[
        tuple[str, str] | None, typer.Option(metavar="AGAINST MODEL", help="Models of the pilot.")
    ] = None,
    difference: Annotated[
        float | None, typer.Option(min=-1, max=1, help="A difference, e.g. 0.1 for ten points: tell its power.")
    ] = None,
    wanted: Annotated[float, typer.Option("--power", min=0.05, max=0.999, help="Power that is wanted.")] = 0.8,
    level: Annotated[float, typer.Option(min=0.5, max=0.9999, help="1 minus the test's level.")] = 0.95,
    comparisons: Annotated[int, typer.Option(min=1, help="Size of the family: the hardest step of Holm's.")] = 1,
) -> None:
    """Estimate what a comparison of two models can find: its power, and the smallest difference that it detects.

    Give the design (--clusters, --samples, --rate, --prompt-correlation, ...), or a pilot run to take it from (--pilot
    results/demo --split NAME --models A B); numbers that you give override the pilot's. It is a normal approximation;
    docs/reference/comparisons.md shows how close it comes to the test.
    """
    given: Numbers = {"clusters": clusters, "prompts_per_cluster": prompts_per_cluster}
    given |= {"evenness": None if prompts_per_cluster is None else 1.0}
    given |= {"samples": samples, "rate": rate, "prompt_correlation": prompt_correlation}
    given |= {"model_correlation": model_correlation, "cluster_correlation": cluster_correlation}
    found: Numbers = {}
    if not pilot and (judge or split or models):
        raise typer.BadParameter("--judge, --split and --models choose from a pilot run: give --pilot too")
    if pilot:
        found, used = read_pilot(finished_study(pilot), judge, split, models or ())
        typer.echo(f"Pilot: {used}\n")
    design, source = chosen_design(given, found)
    prompts = round((found.get("clusters") or 0) * (found.get("prompts_per_cluster") or 0))
    show(page(design, source, (1 - level) / comparisons, wanted, difference, prompts))


def chosen_design(given: Numbers, pilot: Numbers) -> tuple[Design, dict[str, str]]:
    """Return the design, and for each of its numbers where it comes from: `given`, `pilot` or `assumed`.

    Raises:
        UserError: if a number is missing that cannot be assumed.
    """
    numbers: dict[str, Any] = {}
    source: dict[str, str] = {}
    for name in NAMES:
        for where, values in (("assumed", ASSUMED), ("pilot", pilot), ("given", given)):
            if values.get(name) is not None:
                numbers[name], source[name] = values[name], where
        if name not in numbers:
            raise UserError(f"--{name} is missing; give it, or a pilot run (--pilot)".replace("_", "-"))
    if not 0 < numbers["rate"] < 1:
        raise UserError(f"a refusal rate of {numbers['rate']:g} tells nothing about how answers vary; give --rate")
    measured: Mapping[str, Any] = pilot if source["cluster_correlation"] == "pilot" else numbers
    return Design(**numbers, cluster_samples=measured["samples"]), source


def page(
    design: Design,
    source: Mapping[str, str],
    alpha: float,
    wanted: float,
    difference: float | None,
    pilot_prompts: int = 0,
) -> str:
    """Return the answer as text; `pilot_prompts` are those of the pilot run, if there was one.

    Raises:
        UserError: if the difference leaves no rate between 0 and 1.
    """

    estimates = [
        f"{words} {getattr(design, name):.2g}"
        for name, words in NAMES.items()
        if name.endswith("_correlation") and source[name] == "pilot"
    ]

    def smallest(clusters: int, samples: int, up: bool = True) -> float | None:
        changed = dataclasses.replace(design, clusters=clusters, samples=samples)
        return detectable(changed, wanted, alpha, up)

    ends = {("up", "+"): True, ("down", MINUS): False}
    values = {
        "design": design,
        "numbers": [(words, getattr(design, name), source[name]) for name, words in NAMES.items()],
        "alpha": alpha,
        "wanted": wanted,
        "ends": [(*way, smallest(design.clusters, design.samples, up)) for way, up in ends.items()],
        "difference": difference,
        "samples": SAMPLES,
        "table": {n: [smallest(n, k) for k in SAMPLES] for n in sorted({*SIZES, design.clusters})},
        "few": FEW_CLUSTERS,
        "assumed": any(source[name] == "assumed" for name in ("prompt_correlation", "model_correlation")),
        "estimates": estimates,
        "pilot_prompts": pilot_prompts,
    }
    if difference is not None:
        values |= {"power": power(design, difference, alpha), "error": standard_error(design, difference)}
    return render_template(Path(__file__).with_name("power.txt.j2"), values).rstrip("\n")
