"""What rules ask of a study about activations: what is captured, and the files of what is made from them."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from refusal_eval.config.activation_use import activation_uses
from refusal_eval.config.capture_entry import Side
from refusal_eval.config.kinds import ACTIVATION_USES
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json
from refusal_eval.core.side_names import SideFiles, groups_of, part_names
from refusal_eval.study.files import file_of
from refusal_eval.study.study import Study

LEAST_MEGABYTES = 8000


def uses(study: Study) -> Iterator[tuple[tuple[str, str, str], list[int] | None]]:
    """Yield (positions, model, split) of what is captured, and the layers; None for all."""
    for capture in study.captures:
        for split in dict.fromkeys(side.split for side in capture.parts):
            yield (capture.positions, capture.model, split), capture.layers


def layers(study: Study, positions: str, model: str, split: str) -> list[int] | None:
    """Return the layers that are needed of these activations, in ascending order; None for all."""
    asked = [named for use, named in uses(study) if use == (positions, model, split)]
    return None if None in asked else sorted({layer for named in asked for layer in named or ()})


def highest_layer(study: Study, model: str) -> int | None:
    """Return the highest layer of a model that is named anywhere; None where none is named.

    By what is made from its activations, or is done to another model with that: a layer that does not exist is reported
    before any GPU works.
    """
    named = [layer for capture in study.captures if capture.model == model for layer in capture.layers or ()]
    return max(
        (*named, *(layer for use in activation_uses() for layer in use.layers_named(study, model))), default=None
    )


def gpus(study: Study, positions: str, model: str, split: str, root: Path, requests: str, answers: str | None) -> int:
    """Return the GPUs that capturing takes; none when the store already has it all.

    Args:
        positions, model, split: what is captured.
        root: the repository's folder, which holds the engine's environment.
        answers: its answers, if their tokens are averaged.
    """
    name = study.models[model].engine_name
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


def use_modules(study: Study) -> list[Path]:
    """Return the files of the code of those uses of activations that a study has, for `code_version`."""
    return [ACTIVATION_USES.module(name) for name in sorted({capture.use for capture in study.captures})]


def files_made(study: Study) -> list[str]:
    """Return the files that are made from activations."""
    rows = ((noun, file_of(noun)) for use in activation_uses() for noun in use.made)
    return [
        path
        for noun, file in rows
        for names in sorted(file.names(study))
        for path in study.paths.all_of(noun, **dict(zip(file.wildcards, names, strict=True)))
    ]


def files_read(study: Study) -> list[str]:
    """Return the files that these are made of: those of the sides."""
    made_of = (files_of_sides(study, made.model, made.positions, made.sides) for made in study.captures)
    return sorted({file for sides in made_of for file in files_in(sides)})


def files_in(sides: SideFiles) -> list[str]:
    """Return all files that these sides are read from."""
    return [file for files in sides.values() for part in groups_of(files) for file in part.values()]


def megabytes(*models: SideFiles) -> int:
    """Return the memory of a job that reads the sides of these models, one model after the other.

    States are held in 32 bits, twice the size of a file in 16, and one layer at a time is computed with in 64.

    Args:
        models: of each the files of its sides; those that are not there yet count nothing.
    """
    sizes = [
        sum(_size(part["activations"]) for files in sides.values() for part in groups_of(files)) for sides in models
    ]
    return max(LEAST_MEGABYTES, 4000 + 3 * max(sizes) // 10**6)


def _size(path: str) -> int:
    return Path(path).stat().st_size if Path(path).is_file() else 0


def sources_of_sides(study: Study, sides: Mapping[str, Side | list[Side]]) -> dict[str, str]:
    """Return a word for the source of each part of a side, by its name (`part_names`): the first that is from there."""
    first: dict[str, str] = {}
    named = {
        name: part
        for side, said in sides.items()
        for name, part in zip(part_names(side, said), groups_of(said), strict=True)
    }
    origins = {name: study.origin(part.split) for name, part in named.items()}
    return {name: first.setdefault(origin, name) for name, origin in origins.items()}


def files_of_sides(study: Study, model: str, positions: str, sides: Mapping[str, Side | list[Side]]) -> SideFiles:
    """Return the files that each side is read from: prompts, activations and, with a judge, scores.

    Of a side that lists several groups of prompts they are a list.
    """
    return {
        side: [_files_of(study, model, positions, part) for part in said]
        if isinstance(said, list)
        else _files_of(study, model, positions, said)
        for side, said in sides.items()
    }


def _files_of(study: Study, model: str, positions: str, part: Side) -> dict[str, str]:
    of, split = study.paths.of, part.split
    found = {
        "prompts": of("prompts", split=split),
        "activations": of("activations", positions=positions, model=model, split=split),
    }
    found |= {f"without {other}": of("prompts", split=other) for other in part.without or ()}
    if part.judge is not None:
        found["scores"] = of("scores", judge=part.judge, model=model, split=split)
    return found
