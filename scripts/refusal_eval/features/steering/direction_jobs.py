"""What workflow/rules/directions.smk asks of a study."""

from typing import Any

from refusal_eval.core.side_names import SideFiles
from refusal_eval.study.study import Study
from refusal_eval.workflow.activations_stage import files_in, files_of_sides, sources_of_sides


def direction_entry(study: Study, name: str) -> dict[str, Any]:
    """Return the keys of its entry that decide a direction (its label does not), and the sources of its sides."""
    entry = {key: value for key, value in study.config["direction_entries"][name].items() if key != "label"}
    return entry | {"sources": sources_of_sides(study, study.listed("directions")[name].sides)}


def side_files(study: Study, name: str) -> SideFiles:
    """Return the files that each side of a direction is read from: prompts, activations and, with a judge, scores."""
    direction = study.listed("directions")[name]
    return files_of_sides(study, direction.model, direction.positions, direction.sides)


def files_read(study: Study, name: str) -> list[str]:
    """Return all files that a direction is fitted on."""
    return files_in(side_files(study, name))
