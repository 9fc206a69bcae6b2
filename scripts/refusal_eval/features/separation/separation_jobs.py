"""What workflow/rules/separation.smk asks of a study."""

from typing import Any

from refusal_eval.core.side_names import SideFiles
from refusal_eval.features.separation.separation_entry import Separation
from refusal_eval.features.separation.separation_keys import SeparationKeys
from refusal_eval.study.study import Study
from refusal_eval.workflow.activations_stage import files_in, files_of_sides, sources_of_sides


def separation_names(study: Study, aqi: bool = False) -> list[str]:
    """Return the separations of a study by name, or those of them with AQI's composites, in alphabetical order."""
    return sorted(entry.name for entry in SeparationKeys.of(study.settings).separation if entry.aqi or not aqi)


def separation_entry(study: Study, name: str) -> Separation:
    """Return a separation of the study."""
    return next(entry for entry in SeparationKeys.of(study.settings).separation if entry.name == name)


def separation_params(study: Study, name: str) -> dict[str, Any]:
    """Return the keys of a separation that decide its indices (`aqi` does not), and the sources of its sides."""
    entry = separation_entry(study, name)
    return entry.model_dump(exclude={"aqi"}) | {"sources": sources_of_sides(study, entry.sides)}


def aqi_params(study: Study, name: str) -> dict[str, Any]:
    """Return the keys of a separation that decide its AQI composites: sides, settings, and the layer.

    The layer is None for the model's last.
    """
    entry = separation_entry(study, name)
    asked: dict[str, Any] = entry.model_dump(include={"name", "positive", "negative"}) | entry.model_dump()["aqi"]
    if asked["layer"] is None and entry.layers is not None:
        asked["layer"] = max(entry.layers)
    return asked | {"sources": sources_of_sides(study, entry.sides)}


def separation_files(study: Study, name: str) -> dict[str, SideFiles]:
    """Return the files that each side is read from, for each model of a separation."""
    entry = separation_entry(study, name)
    return {model: files_of_sides(study, model, entry.positions, entry.sides) for model in entry.models}


def files_read(study: Study, name: str) -> list[str]:
    """Return all files that a separation is measured on."""
    return [file for sides in separation_files(study, name).values() for file in files_in(sides)]
