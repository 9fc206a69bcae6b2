"""Mistakes of interventions: keys that do not go together, and what a steered model needs of the study around it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from refusal_eval.config.capture_entry import parts_with_places
from refusal_eval.config.change import changes_of
from refusal_eval.config.checked_study import CheckedStudy
from refusal_eval.config.engine_entry import Engine
from refusal_eval.config.entries import Model
from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import SLUG, KeyPath
from refusal_eval.config.study_mistakes import named_in
from refusal_eval.core.files import canonical_json
from refusal_eval.features.steering.direction_entry import Direction
from refusal_eval.features.steering.intervention_entry import BestLayers, Intervention, intervention_of
from refusal_eval.features.steering.sweep import OWN_OF_MODEL
from refusal_eval.weights.known_layers import known_layers

# What an intervention, and a random direction, may have otherwise than those that they are the control of.
OWN_OF_POINT = ("direction", "scale", "allow_overlap", "other_weights")
OWN_OF_CONTROL = {"label", "method", "of", "draw"}
ALIKE = ("model", "positions", "layers")  # what directions of one constellation have in common: means are compared


def steering_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield what steered models lack: of their directions, of their engines, and beside them in the study."""
    yield from _unknown_directions(study)
    listed = study.names("directions")
    for name, model in (study.models | study.further_models).items():
        intervention = intervention_of(model)
        if intervention is None or study.catalogue.written["models"][name].get("sweep") is not None:
            continue  # a sweep is here in place of its models where it has mistakes itself
        here = ("models", name, "intervention")
        for path, message in _own_mistakes(intervention, study, model):
            yield (*here, *path), message
        for place, direction in _named(intervention):
            if direction in study.catalogue.written["directions"] and direction not in listed:
                yield (*here, *place), f"`{direction}` is not one of the study's `directions`; add it there"
            entry = study.catalogue.valid["directions"].get(direction)
            if entry is None:
                continue
            fitted_on = study.engine_of(study.catalogue.valid["models"].get(entry.model))
            served = study.engine_of(model)
            for path, message in _direction_mistakes(intervention, (place, direction), entry, served, fitted_on):
                yield (*here, *path), message
            for _, side in parts_with_places(entry.sides):
                if (
                    not intervention.allow_overlap
                    and side.category is None
                    and side.judge is None
                    and side.without is None
                    and side.split in _asked_of(study, name)
                ):
                    message = f"`{direction}` is made from all of split `{side.split}`, which this study evaluates"
                    yield (*here, *place), f"{message}; evaluate other prompts, or make it from other ones"
        for place, message in _unlike(intervention, study.catalogue.valid["directions"]):
            yield (*here, *place), message
        for other in changes_of(model):
            if other.loads and other.name != "intervention":
                message = f"{other.words} and an intervention were never tried together; take weights with "
                yield here, f"{message}{other.words} merged into them, or leave one of both out"
        for message in _without_company(study, model) if name in study.models else ():
            yield here, message


def _unknown_directions(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield the names that no direction has, in models as they are written, whatever else is wrong with them."""
    for name in study.used["models"]:
        for path, said in named_in(study.catalogue.written["models"][name], "intervention", "direction"):
            # What can be no name is reported as that.
            if re.fullmatch(SLUG, said) and (unknown := study.catalogue.lacks("direction", said)):
                yield ("models", name, *path), unknown


def _asked_of(study: CheckedStudy, model: str) -> list[str]:
    """Return the splits that a model is asked, and those that its activations are read on."""
    return [*study.splits_asked(model), *(side.split for _, side in study.sides(model))]


def _without_company(study: CheckedStudy, model: Model) -> Iterator[str]:
    """Yield what must stand beside a steered model's rates: harmless prompts, and the effect of a random direction."""
    splits = [split for split in study.splits.values() if split.match is None]
    if splits and study.all_valid("splits") and all(split.expectation != "comply" for split in splits):
        yield (
            "the study has no split of harmless prompts (`expectation: comply`), without which a rate under steering "
            "says little; add one"
        )
    asked = intervention_of(model)
    entries = [study.catalogue.valid["models"].get(name) for name in study.names("models")]
    models = [entry for entry in entries if entry is not None]
    if model not in models or len(models) < len(entries):
        return  # what is wrong with an entry comes first
    directions = [study.catalogue.valid["directions"].get(name) for name in asked.directions] if asked else []
    if None in directions or any(_is_control(other, model, study) for other in models):
        return
    methods = " and ".join(dict.fromkeys(f"`of: {direction.method}`" for direction in directions if direction))
    yield (
        "the study has no control for it: the same model and `intervention`, at the same or a larger `scale`, along a "
        f"direction that differs only in `method: random` and `of`, here {methods}. Without one, any vector of that "
        "length might do the same; add one (docs/how-to/steering.md)"
    )


def _is_control(other: Model, model: Model, study: CheckedStudy) -> bool:
    """Tell whether one model is the control of another, or the other is a control itself."""
    asked, control = intervention_of(model), intervention_of(other)
    if asked is None or control is None or abs(control.factor) < abs(asked.factor):
        return False
    if control.in_alpha != asked.in_alpha or control.key(without=OWN_OF_POINT) != asked.key(without=OWN_OF_POINT):
        return False
    if asked.signed and (asked.factor or 1) * (control.factor or 1) < 0:
        return False  # one moves tokens together where the other moves them apart
    directions = study.catalogue.valid["directions"]
    named = [[directions.get(name) for name in each.directions] for each in (asked, control)]
    own, random = ([entry for entry in entries if entry is not None] for entries in named)
    if [own, random] != named or any(entry.method != "random" for entry in random):
        return False
    if {id(entry) for entry in own} == {id(entry) for entry in random}:
        return True
    if other.model_dump(exclude=OWN_OF_MODEL) != model.model_dump(exclude=OWN_OF_MODEL):
        return False
    return sorted(_controls(entry) for entry in random) == sorted(_controls(entry) for entry in own)


def _controls(direction: Direction) -> str:
    """Return what a direction is fitted as, or what a random one is the control of; their equality is a control's."""
    said = direction.model_dump(mode="json", exclude=OWN_OF_CONTROL)
    return canonical_json(said | {"method": direction.of if direction.method == "random" else direction.method})


def _own_mistakes(asked: Intervention, study: CheckedStudy, model: Model) -> Iterator[Mistake]:
    """Yield what a model's engine does not do of its intervention."""
    engine = study.engine_of(model)
    if engine is None:
        return
    for message in engine.untried_with_interventions():
        yield (), message
    count = known_layers(engine, study.settings.cache_dir)
    layers = asked.layers if isinstance(asked.layers, list) else []
    for place, layer in enumerate(layers if count is not None else ()):
        if count is not None and layer >= count:
            yield ("layers", place), f"the model has {count} layers, counted from 0: the last one is {count - 1}"
    if isinstance(asked.layers, BestLayers) and count is not None and asked.layers.best > asked.layers.left_of(count):
        dropped = f", of which {asked.layers.left_of(count)} take part" if asked.layers.drop_deepest else ""
        yield ("layers", "best"), f"the model has {count} layers only{dropped}"


def _named(asked: Intervention) -> Iterator[tuple[KeyPath, str]]:
    """Yield where an intervention names a direction, and the name."""
    for number, name in enumerate(asked.directions):
        yield ("direction",) if isinstance(asked.direction, str) else ("direction", number), name


def _unlike(asked: Intervention, directions: Mapping[str, Direction | None]) -> Iterator[Mistake]:
    """Yield the directions of a constellation that cannot stand beside its first one."""
    found = [(place, name, entry) for place, name in _named(asked) if (entry := directions.get(name)) is not None]
    for place, name, entry in found[1:]:
        _, first_name, first = found[0]
        different = [key for key in ALIKE if _said(entry, key) != _said(first, key)]
        if different:
            keys = " and ".join(f"`{key}`" for key in different)
            message = (
                f"`{name}` has other {keys} than `{first_name}`, and the means of tasks are compared with each other"
            )
            yield place, f"{message}; fit all directions of a constellation alike"


def _said(direction: Direction, key: str) -> Any:
    value = getattr(direction, key)
    return sorted(value) if isinstance(value, list) else value


def _direction_mistakes(
    asked: Intervention,
    named: tuple[KeyPath, str],
    direction: Direction,
    engine: Engine | None,
    fitted_on: Engine | None,
) -> Iterator[Mistake]:
    """Yield what an intervention asks of one of its directions that it cannot give.

    Args:
        named: where it names the direction, and the name.
        engine: the steered model's engine, where it has a valid one.
        fitted_on: that of the direction's model, likewise.
    """
    place, name = named
    one, other = (getattr(served_by, "weights", None) for served_by in (engine, fitted_on))
    if one is not None and other is not None and one != other and not asked.other_weights:
        message = (
            f"`{name}` is of model `{direction.model}`, whose engine has other weights than this model's, "
            "and vectors of one model mean nothing in an unrelated one; fit it on these weights, or, where one model "
            "was trained from the other, say `other_weights: true`"
        )
        yield place, message
    if direction.neutral is None and (why := asked.needs_neutral):
        message = (
            f"`{name}` has no `neutral` prompts, and {why} counts from their mean; give it some, such as `neutral: "
            "{split: SPLIT, judge: JUDGE, within: 0.15}`"
        )
        yield place, message
    captured = direction.layers
    if captured is None:
        return
    layers = asked.layers if isinstance(asked.layers, list) else []
    for number, layer in enumerate(layers):
        if layer not in captured:
            has = ", ".join(map(str, sorted(captured)))
            yield ("layers", number), f"direction `{name}` has no vector for it: its `layers` are {has}"
    best = asked.layers.best if isinstance(asked.layers, BestLayers) else None
    if best is not None and best > len(captured):
        yield ("layers", "best"), f"direction `{name}` has {len(captured)} `layers` only"
