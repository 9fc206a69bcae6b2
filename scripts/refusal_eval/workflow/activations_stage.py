"""What the rules in workflow/rules/activations.smk ask of a study: what is captured, what directions are made of."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from refusal_eval.config.direction_entry import Direction, Separation
from refusal_eval.config.intervention_entry import intervention_of
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json
from refusal_eval.study.study import Capture, Study

LEAST_MEGABYTES = 8000


def uses(study: Study) -> Iterator[tuple[tuple[str, str, str], list[int] | None]]:
    """Yield (positions, model, split) of what directions and separations read, and the layers; None for all."""
    for capture in study.captures:
        for split in dict.fromkeys(side.split for side in capture.sides.values()):
            yield (capture.positions, capture.model, split), capture.layers


def layers(study: Study, positions: str, model: str, split: str) -> list[int] | None:
    """Return the layers that are needed of these activations, in ascending order; None for all."""
    asked = [named for use, named in uses(study) if use == (positions, model, split)]
    return None if None in asked else sorted({layer for named in asked for layer in named or ()})


def highest_layer(study: Study, model: str) -> int | None:
    """Return the highest layer of a model that is named anywhere; None where none is named.

    By a direction, a separation or its `aqi`, or an intervention along a direction of the model: a layer that does not
    exist is reported before any GPU works.
    """
    named = [capture.layers or [] for capture in study.captures if capture.model == model]
    composites = [entry.aqi.layer for entry in study.settings.separation if entry.aqi and model in entry.models]
    named.append([layer for layer in composites if layer is not None])
    for entry in study.models.values():
        asked = intervention_of(entry)
        if asked is not None and any(study.directions[name].model == model for name in asked.directions):
            named.append(asked.layers if isinstance(asked.layers, list) else [])
    return max((layer for layers in named for layer in layers), default=None)


def gpus(study: Study, positions: str, model: str, split: str, root: Path, requests: str, answers: str | None) -> int:
    """Return the GPUs that capturing takes; none when the store already has it all.

    Args:
        positions, model, split: what is captured.
        root: the repository's folder, which holds the engine's environment.
        answers: its answers, if their tokens are averaged.
    """
    name = study.models[model].engine
    engine = study.engines[name]
    count = engine.gpus(engine.device_here(root))
    described = Path(study.paths.of("engines", engine=name))
    needed = [path for path in (described, requests, answers) if path is not None]
    if count == 0 or not all(Path(path).is_file() for path in needed):
        return count
    # Here and not above: numpy is slow to import, and the workflow is parsed again for every job on a cluster.
    from refusal_eval.activations.activation_store import ActivationStore
    from refusal_eval.activations.asked import asked_states
    from refusal_eval.activations.model_facts import captured_facts, checked_layers
    from refusal_eval.ask.requests import read_requests

    try:
        engine_file = read_json(described)
        depth = captured_facts(engine_file)["model_layers"]
        checked_layers([highest_layer(study, model) or 0], depth, model)
        wanted = checked_layers(layers(study, positions, model, split), depth, model)
        asked = asked_states(read_requests(requests), positions, answers, study.paths.store)
    except UserError:  # the job tells it, and needs no GPU for that
        return 0
    store = ActivationStore(study.paths.store, engine_file["engine_id"])
    return count if store.missing((item.key for item in asked), wanted) else 0


def direction_entry(study: Study, name: str) -> dict[str, Any]:
    """Return the keys of its entry that decide a direction (its label does not), and the sources of its sides."""
    entry = {key: value for key, value in study.config["direction_entries"][name].items() if key != "label"}
    return entry | {"sources": _sources(study, study.directions[name])}


def side_files(study: Study, name: str) -> dict[str, dict[str, str]]:
    """Return the files that each side of a direction is read from: prompts, activations and, with a judge, scores."""
    direction = study.directions[name]
    return _files(study, direction.model, direction)


def files_read(study: Study) -> list[str]:
    """Return the files that all directions and separations of a study are read from."""
    sides = [files for made in study.captures for files in _files(study, made.model, made).values()]
    return sorted({file for files in sides for file in files.values()})


def megabytes(*models: dict[str, dict[str, str]]) -> int:
    """Return the memory of a job that reads the sides of these models, one model after the other.

    States are held in 32 bits, twice the size of a file in 16, and one layer at a time is computed with in 64.

    Args:
        models: of each the files of its sides; those that are not there yet count nothing.
    """
    sizes = [sum(_size(files["activations"]) for files in sides.values()) for sides in models]
    return max(LEAST_MEGABYTES, 4000 + 3 * max(sizes) // 10**6)


def _size(path: str) -> int:
    return Path(path).stat().st_size if Path(path).is_file() else 0


def separation_entry(study: Study, name: str) -> Separation:
    """Return a separation of the study."""
    return next(entry for entry in study.settings.separation if entry.name == name)


def separation_params(study: Study, name: str) -> dict[str, Any]:
    """Return the keys of a separation that decide its indices (`aqi` does not), and the sources of its sides."""
    entry = separation_entry(study, name)
    return entry.model_dump(exclude={"aqi"}) | {"sources": _sources(study, entry)}


def aqi_params(study: Study, name: str) -> dict[str, Any]:
    """Return the keys of a separation that decide its AQI composites: sides, settings, and the layer.

    The layer is None for the model's last.
    """
    entry = separation_entry(study, name)
    asked: dict[str, Any] = entry.model_dump(include={"name", "positive", "negative"}) | entry.model_dump()["aqi"]
    if asked["layer"] is None and entry.layers is not None:
        asked["layer"] = max(entry.layers)
    return asked | {"sources": _sources(study, entry)}


def separation_files(study: Study, name: str) -> dict[str, dict[str, dict[str, str]]]:
    """Return the same files for each model of a separation."""
    entry = separation_entry(study, name)
    return {model: _files(study, model, entry) for model in entry.models}


def _sources(study: Study, made: Direction | Separation) -> dict[str, str]:
    """Return a word for the source of each side's split: the first side that comes from there."""
    first: dict[str, str] = {}
    origins = {side: study.settings.split_entries[entry.split].source.origin for side, entry in made.sides.items()}
    return {side: first.setdefault(origin, side) for side, origin in origins.items()}


def _files(study: Study, model: str, made: Direction | Separation | Capture) -> dict[str, dict[str, str]]:
    of, found = study.paths.of, dict[str, dict[str, str]]()
    for side, entry in made.sides.items():
        split = entry.split
        found[side] = {
            "prompts": of("prompts", split=split),
            "activations": of("activations", positions=made.positions, model=model, split=split),
        }
        found[side] |= {f"without {other}": of("prompts", split=other) for other in entry.without or ()}
        if entry.judge is not None:
            found[side]["scores"] = of("scores", judge=entry.judge, model=model, split=split)
    return found
