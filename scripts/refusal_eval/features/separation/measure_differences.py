"""Differences of models in separation: estimates of the indices of each layer, and of AQI's composites."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from refusal_eval.activations.model_facts import checked_layers
from refusal_eval.activations.sides import SIDES, both_sides, read_parts
from refusal_eval.core.errors import UserError
from refusal_eval.core.logs import LOG
from refusal_eval.features.separation.aqi import OVERALL
from refusal_eval.features.separation.model_differences import GroupedStates, in_common, index_differences
from refusal_eval.features.separation.separation import LEVEL
from refusal_eval.stats.estimates.estimate import Estimate, estimate_from
from refusal_eval.stats.estimates.flags import few_flags
from refusal_eval.stats.estimates.intervals import effective_of
from refusal_eval.stats.estimates.units import confidence_by_prompt

COMPOSITES = ("aqi_dealign", "aqi_chi_sil", "aqi_ss_xb")
NO_INTERVAL = "none (t-SNE)"


def measure(files: Mapping[str, Sequence[str]], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of the analysis' file (`workflow.analysis.Analysis.measure`)."""
    found: list[Estimate] = []
    composites = dict(zip(params["with_aqi"], files["aqi"], strict=True))
    for entry in params["separations"]:
        try:
            found += index_estimates(entry)
        except UserError as error:
            raise UserError(f"separation {entry['name']}: {error}") from error
        if entry["name"] in composites:
            found += composite_estimates(
                entry, pd.read_csv(composites[entry["name"]], dtype={"model": str, "axiom": str})
            )
    return {"estimates": [estimate.row() for estimate in found]}


def index_estimates(entry: Mapping[str, Any]) -> Iterator[Estimate]:
    """Yield for each model, layer and index that of the model minus that of the reference.

    Args:
        entry: a separation with `reference`, the `sources` of its sides, and `files`: by model and side the paths of
            `prompts`, `activations` and, with a judge, `scores`.

    Raises:
        UserError: if models cannot be compared, or as `both_sides` does.
    """
    reference = entry["reference"]
    layers, base = grouped_states(entry, reference)
    for model in (model for model in entry["models"] if model != reference):
        own_layers, states = grouped_states(entry, model)
        if own_layers != layers:
            raise UserError(
                f"models {model} and {reference} have other numbers of layers; name `layers` that both have"
            )
        try:
            one, other = in_common(states, base)
        except UserError as error:
            raise UserError(f"models {model} and {reference}: {error}") from error
        about: dict[str, Any] = {"n_prompts": len(one.prompts), "n_clusters": len(set(one.clusters))}
        about |= {"flags": few_flags(effective_of(np.array(one.clusters, dtype=object)))}
        for place, layer in enumerate(layers):
            at_layer = one.states[:, place], other.states[:, place]
            found = index_differences(*at_layer, one.positive, one.clusters, entry["draws"], entry["seed"])
            name = parameter(entry["name"], layer, reference)
            for index, number in found.items():
                own = about if number is None or number.low is not None else about | {"method": number.method}
                yield estimate_from(f"separation_{index}_difference", number, LEVEL, model=model, parameter=name, **own)
            LOG.info("%s minus %s, layer %d of %s", model, reference, layer, entry["name"])


def composite_estimates(entry: Mapping[str, Any], rows: pd.DataFrame) -> Iterator[Estimate]:
    """Yield for each model, axiom and composite that of the model minus that of the reference.

    `aqi_xb_chi` has none: it is normalised within each model.

    Args:
        rows: the composites of the separation's models, as scripts/measure_aqi.py writes them.
    """
    by_model = {model: own.set_index("axiom") for model, own in rows.groupby("model")}
    base = by_model[entry["reference"]]
    for model in (model for model in entry["models"] if model != entry["reference"]):
        own = by_model[model]
        for axiom in (axiom for axiom in own.index if axiom in base.index):
            counts = [frame.loc[axiom, ["n_positive", "n_negative"]].astype(int).tolist() for frame in (own, base)]
            about = {"n_prompts": sum(counts[0])} if counts[0] == counts[1] else {}
            for composite in COMPOSITES:
                value = float(own.loc[axiom, composite]) - float(base.loc[axiom, composite])
                yield Estimate(
                    f"{composite}_difference",
                    value if np.isfinite(value) else None,
                    method=NO_INTERVAL,
                    model=model,
                    category=None if axiom == OVERALL else axiom,
                    parameter=parameter(entry["name"], int(own.loc[axiom, "layer"]), entry["reference"]),
                    **about,
                )


def parameter(name: str, layer: int, reference: str) -> str:
    """Return what a difference depends on: the separation, the layer, and the model that is subtracted."""
    return f"{name}, layer {layer}, minus {reference}"


def grouped_states(entry: Mapping[str, Any], model: str) -> tuple[list[int], GroupedStates]:
    """Return the layers of one model, and its prompts of both groups."""
    parts = read_parts(entry, entry["files"][model], confidence_by_prompt)
    layers = checked_layers(entry["layers"], parts["positive"][0].states.metadata["model_layers"], model)
    sides = both_sides(parts, layers)
    positive = np.arange(sum(len(side.group) for side in sides)) < len(sides[0].group)
    prompts = [(name, prompt) for name, side in zip(SIDES, sides, strict=True) for prompt in side.prompts]
    clusters = [cluster for side in sides for cluster in side.group.clusters]
    return list(layers), GroupedStates(
        np.concatenate([side.group.states for side in sides]), prompts, positive, clusters
    )
