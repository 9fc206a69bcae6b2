"""Differences of models in separation, as a frame for CSV and as tables for a paper."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from refusal_eval.features.separation.separation import LEVEL
from refusal_eval.report.paper.display import add_marks, join_texts
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import TableData, TableParts
from refusal_eval.report.paper.table_kind import StudyTable
from refusal_eval.report.paper.table_notes import flags_notes, value_text

COLUMNS = ("separation", "reference", "model", "layer", "axiom", "index")
NUMBERS = ("value", "low", "high", "method", "n_prompts", "n_clusters", "flags")
INDICES = {
    "AUC": ("separation_auc_difference", 3),
    "Silhouette": ("separation_silhouette_difference", 3),
    "Davies-\nBouldin": ("separation_davies_bouldin_difference", 2),
    "Calinski-\nHarabasz": ("separation_calinski_harabasz_difference", 1),
    "Xie-\nBeni": ("separation_xie_beni_difference", 2),
    "Dunn": ("separation_dunn_difference", 3),
    "aqi_dealign": ("aqi_dealign_difference", 3),
    "aqi_chi_sil": ("aqi_chi_sil_difference", 3),
    "aqi_ss_xb": ("aqi_ss_xb_difference", 3),
}
_PARAMETER = re.compile(r"(?P<separation>.+), layer (?P<layer>\d+), minus (?P<reference>.+)")
_NOTES = (
    "Model minus reference, both on the prompts that they have in common, after the layer (the first is 0). Groups "
    "further apart have more of AUC, silhouette, Calinski-Harabasz, Dunn and the composites, and less of "
    "Davies-Bouldin and Xie-Beni.",
)
_COMPOSITES = (
    "aqi_*: composites of AQI over all prompts, of points that t-SNE places anew for each model. They have no "
    "interval: t-SNE cannot place drawn copies of prompts. aqi_xb_chi is not here: it is normalised within each model."
)


def separation_differences(data: TableData) -> TableParts:
    """Return the differences of all layers in the frame, and a table for each separation: of the last layer that was
    measured, and of that of the composites.
    """
    rows = [_placed(row) for row in data.found("separation_differences")["estimates"]]
    frame = pd.DataFrame(
        [[row[name] for name in (*COLUMNS, *NUMBERS)] for row in rows], columns=[*COLUMNS, *NUMBERS], dtype=object
    )
    tables = []
    for entry in data.asked["separations"]:
        own = [row for row in rows if row["separation"] == entry["name"] and row["axiom"] is None]
        composites = {row["layer"] for row in own if row["estimand"].startswith("aqi_")}
        layers = sorted({max(row["layer"] for row in own), *composites}) if own else []
        tables += [_table(entry, own, layers, data)] if own else []
    return frame, tables


def _placed(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the results table with what its parameter says, and its index."""
    found = _PARAMETER.fullmatch(row["parameter"])
    assert found is not None
    index = row["estimand"].removesuffix("_difference").removeprefix("separation_")
    return {**row, **found.groupdict(), "layer": int(found["layer"]), "axiom": row["category"], "index": index}


def _table(
    entry: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], layers: Sequence[int], data: TableData
) -> Table:
    by_place = {(row["model"], row["layer"], row["estimand"]): row for row in rows}
    models = [model for model in entry["models"] if model != entry["reference"]]
    shown = {head: of for head, of in INDICES.items() if any(of[0] == estimand for *_, estimand in by_place)}
    cells = [
        [
            data.labels.model(model),
            str(layer),
            *(_cell(by_place.get((model, layer, of)), digits) for of, digits in shown.values()),
        ]
        for model in models
        for layer in layers
    ]
    sizes = sorted({(row["n_prompts"], row["n_clusters"]) for row in rows if row["n_clusters"]})
    counts = join_texts([f"{prompts} prompts in {clusters} clusters" for prompts, clusters in sizes])
    notes = [
        *_NOTES,
        f"Intervals ({100 * LEVEL:g} %): bootstrap over clusters of {counts}, the same draws for both models.",
        *([_COMPOSITES] if any(head.startswith("aqi_") for head in shown) else []),
        "Other layers and axioms: separation.csv and the results table.",
        *flags_notes(row["flags"] for row in rows),
    ]
    title = f"Separation {entry['name']}: differences from {data.labels.model(entry['reference'])}."
    return Table(f"separation-{entry['name']}", title, ["Model", "Layer", *shown], cells, notes)


def _cell(row: Mapping[str, Any] | None, digits: int) -> str:
    if row is None:
        return value_text(None, None)
    return add_marks(value_text(row["value"], (row["low"], row["high"]), digits), row["flags"])


class SeparationTable(StudyTable):
    """By how much two groups of prompts lie further apart in a model than in its reference."""

    name = "separation"
    of_analysis = "separation_differences"
    needs = ("separation_differences",)
    shows = ("models",)
    report = ("Steering", "Differences in separation")
    make = staticmethod(separation_differences)
