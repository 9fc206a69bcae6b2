"""Measure how far apart two groups of prompts lie in the activations of models, layer by layer."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from refusal_eval.activations.model_facts import checked_layers
from refusal_eval.activations.sides import both_sides, read_parts
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import written_whole
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.core.side_names import SideFiles
from refusal_eval.features.separation.separation import INDICES, over_layers, separation
from refusal_eval.stats.estimates.units import confidence_by_prompt

COLUMNS = ["model", "layer", "index", "value", "low", "high", "null", "p", "p_layers", "n_positive", "n_negative"]


def rows_of_model(entry: Mapping[str, Any], model: str, files: SideFiles) -> list[dict[str, Any]]:
    """Return the rows of one model: for each layer those of `separation.separation`.

    Raises:
        UserError: if a side has too few prompts, or both have some in common, or the model lacks a layer,
            or its activations are not finite.
    """
    parts = read_parts(entry, files, confidence_by_prompt)
    layers = checked_layers(entry["layers"], parts["positive"][0].states.metadata["model_layers"], model)
    positive, negative = both_sides(parts, layers)
    is_positive = np.arange(len(positive.group) + len(negative.group)) < len(positive.group)
    clusters = [*positive.group.clusters, *negative.group.clusters]
    counts = {"n_positive": len(positive.group), "n_negative": len(negative.group)}
    found = []
    for place, layer in enumerate(layers):
        both = np.concatenate([side.group.states[:, place] for side in (positive, negative)])
        measured = separation(both, is_positive, clusters, entry["draws"], entry["seed"])
        found += [{"model": model, "layer": layer, **row, **counts} for row in measured]
        LOG.info("%s, layer %d: %s", model, layer, ", ".join(f"{row['index']} {row['value']:.3f}" for row in measured))
    for index in INDICES:
        rows = [row for row in found if row["index"] == index]
        for row, p in zip(rows, over_layers([row.pop("apart") for row in rows]), strict=True):
            row["p_layers"] = float(p)
    return found


def main(entry: Mapping[str, Any], files: Mapping[str, SideFiles], output: str) -> None:
    """Write a CSV with a row for each model, layer and index.

    Args:
        entry: the entry in the study file.
        files: by model and side the paths of `prompts`, `activations` and, with a judge, `scores`.
    """
    rows: list[dict[str, Any]] = []
    for model, own in files.items():
        try:
            rows += rows_of_model(entry, model, own)
        except UserError as error:
            raise UserError(f"separation {entry['name']}, model {model}: {error}") from error
    with written_whole(output) as handle:
        pd.DataFrame(rows, columns=COLUMNS).to_csv(handle, index=False, float_format="%.6g", lineterminator="\n")


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    main(snakemake.params.separation, snakemake.params.files, snakemake.output[0])
