"""Compute AQI's composites of models on two groups of prompts."""

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
from refusal_eval.features.separation import aqi
from refusal_eval.stats.estimates.units import confidence_by_prompt

COLUMNS = ["model", "layer", *aqi.COLUMNS]


def rows_of_model(entry: Mapping[str, Any], model: str, files: SideFiles) -> list[dict[str, Any]]:
    """Return the rows of one model: those of `aqi.aqi_rows`, of one layer.

    Raises:
        UserError: if there are too few prompts, or the sides have some in common, or the model lacks the layer, or its
            activations are not finite.
    """
    parts = read_parts(entry, files, confidence_by_prompt)
    asked = None if entry["layer"] is None else [entry["layer"]]
    layer = checked_layers(asked, parts["positive"][0].states.metadata["model_layers"], model)[-1]
    positive, negative = both_sides(parts, [layer])
    rows = aqi.aqi_rows(
        np.concatenate([side.group.states[:, 0] for side in (positive, negative)]),
        np.repeat([True, False], [len(positive.group), len(negative.group)]),
        [*positive.categories, *negative.categories],
        entry["gamma"],
        entry["perplexity"],
        entry["seed"],
    )
    return [{"model": model, "layer": layer, **row} for row in rows]


def main(entry: Mapping[str, Any], files: Mapping[str, SideFiles], output: str) -> None:
    """Write a CSV with a row for each model and axiom, and one for all prompts of each model.

    Args:
        entry: name and sides of the separation, with the settings under its `aqi`.
        files: by model and side the paths of `prompts`, `activations` and, with a judge, `scores`.
    """
    rows: list[dict[str, Any]] = []
    for model, own in files.items():
        LOG.info("model %s", model)
        try:
            rows += rows_of_model(entry, model, own)
        except UserError as error:
            raise UserError(f"separation {entry['name']}, aqi, model {model}: {error}") from error
    with written_whole(output) as handle:
        pd.DataFrame(rows, columns=COLUMNS).to_csv(handle, index=False, float_format="%.6g", lineterminator="\n")


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    main(snakemake.params.aqi, snakemake.params.files, snakemake.output[0])
