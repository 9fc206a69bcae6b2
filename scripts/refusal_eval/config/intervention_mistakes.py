"""Mistakes of interventions: keys that do not go together, and what a steered model needs of the study around it."""

import json
from collections.abc import Collection, Iterator
from pathlib import Path

from refusal_eval.config.direction_entry import Direction
from refusal_eval.config.draft import Draft
from refusal_eval.config.engine_entry import Engine
from refusal_eval.config.entries import Model
from refusal_eval.config.intervention_entry import LAYERS_KEY, PULL_AT_RANDOM, BestLayers, Intervention, of_text
from refusal_eval.config.problems import Mistake
from refusal_eval.config.sweep import OWN_OF_MODEL
from refusal_eval.core.hints import nearest

# Which modes each key belongs to; in others it would say something that is not done.
KEYS_OF = {"gate": ("gated",), "offset": ("ablate",), "towards": ("pull",)}
CONTROLLED = ("add", "ablate")  # modes for which a random direction is a control
# What an intervention, and a random direction, may have otherwise than those that they are the control of.
OWN_OF_POINT = ("direction", "scale", "allow_overlap", "other_weights")
OWN_OF_CONTROL = {"label", "method", "of", "ridge"}
SCALED = ("add", "gated", "pull")  # modes without a scale that goes without saying


def steering_mistakes(draft: Draft) -> Iterator[Mistake]:
    """Yield what steered models lack: of their directions, of their engines, and beside them in the study."""
    written, listed = draft.catalogue.written["directions"], draft.names("directions")
    known = written if draft.catalogue.complete else None
    for name, model in draft.models.items():
        if model.intervention is None or draft.catalogue.written["models"][name].get("sweep") is not None:
            continue  # a sweep is here in place of its models where it has mistakes itself
        here = ("models", name, "intervention")
        for path, message in _own_mistakes(model.intervention, draft.engine_of(model), known):
            yield (*here, *path), message
        direction = model.intervention.direction
        if direction in written and direction not in listed:
            yield (*here, "direction"), f"`{direction}` is not one of the study's `directions`; add it there"
        if typed := draft.catalogue.typed["directions"].get(direction or ""):
            fitted_on = draft.engine_of(draft.catalogue.typed["models"].get(typed.model or ""))
            for path, message in _direction_mistakes(model.intervention, typed, draft.engine_of(model), fitted_on):
                yield (*here, *path), message
            for side in typed.sides.values():
                if (
                    not model.intervention.allow_overlap
                    and side is not None
                    and side.category is None
                    and side.judge is None
                    and side.without is None
                    and side.split in draft.names("splits")
                ):
                    message = f"`{direction}` is made from all of split `{side.split}`, which this study evaluates"
                    yield (*here, "direction"), f"{message}; evaluate other prompts, or make it from other ones"
        if model.lora is not None:
            message = "a LoRA adapter and an intervention were never tried together; merge the adapter into the weights"
            yield here, f"{message}, or leave one of them out"
        for message in _without_company(draft, model):
            yield here, message


def _without_company(draft: Draft, model: Model) -> Iterator[str]:
    """Yield what must stand beside a steered model's rates: harmless prompts, and the effect of a random direction."""
    splits = [split for split in draft.splits.values() if split.match is None]
    if splits and all(split.expectation is not None and split.expectation != "comply" for split in splits):
        yield (
            "the study has no split of harmless prompts (`expectation: comply`), and a rate under steering says "
            "little without what it does to them; add one"
        )
    asked = model.intervention
    entries = [draft.catalogue.valid["models"].get(name) for name in draft.names("models")]
    direction = draft.catalogue.valid["directions"].get(getattr(asked, "direction", None) or "")
    models = [entry for entry in entries if entry is not None]
    if model not in models or len(models) < len(entries):
        return  # what is wrong with an entry comes first
    if asked is None or asked.mode not in CONTROLLED or direction is None:
        return
    if not any(_is_control(other, model, draft) for other in models):
        yield (
            "the study has no control of it: the same model with the same `mode`, `layers` and `offset`, at no smaller "
            "`scale`, along a direction that differs only in `method: random` and `of`, here "
            f"`of: {direction.method}`. Without one, any vector of that length might do the same; add one "
            "(docs/interventions.md)"
        )


def _is_control(other: Model, model: Model, draft: Draft) -> bool:
    """Tell whether one model is the control of another, or the other is a control itself."""
    asked, control = model.intervention, other.intervention
    if asked is None or control is None or control.strength < asked.strength:
        return False
    if control.key(without=OWN_OF_POINT) != asked.key(without=OWN_OF_POINT):
        return False
    directions = draft.catalogue.valid["directions"]
    own, random = (directions.get(each.direction) for each in (asked, control))
    if own is None or random is None or random.method != "random":
        return False
    if random is own:
        return True
    same_model = other.model_dump(exclude=OWN_OF_MODEL) == model.model_dump(exclude=OWN_OF_MODEL)
    same_sides = random.model_dump(exclude=OWN_OF_CONTROL) == own.model_dump(exclude=OWN_OF_CONTROL)
    return bool(same_model and same_sides and random.of == own.method)


def _own_mistakes(asked: Intervention, engine: Engine | None, known: Collection[str] | None) -> Iterator[Mistake]:
    """Yield what is wrong with a model's intervention that none of its keys shows by itself.

    Args:
        asked: the entry, as far as it can be read.
        engine: the model's engine, where the catalogue has it.
        known: the names of the catalogue's directions; None where some could not be read.
    """
    if known is not None and asked.direction is not None and asked.direction not in known:
        message = f"there is no direction `{asked.direction}` in the catalogue" + nearest(asked.direction, known)
        yield ("direction",), message
    if asked.mode in SCALED and asked.scale is None:
        message = f"`scale` is missing: `{asked.mode}` needs it, e.g. `scale: -0.5`"
        yield ("scale",), message
    if asked.mode == "gated" and asked.gate is None:
        yield ("gate",), "`gate` is missing: the cosine similarity that a token must exceed, e.g. `gate: 0.1`"
    for key, modes in KEYS_OF.items():
        said = getattr(asked, key) != Intervention.model_fields[key].default
        if said and asked.mode is not None and asked.mode not in modes:
            yield (key,), f"is for mode `{modes[0]}` only, and this one is `{asked.mode}`; leave it out"
    if engine is None:
        return
    for message in engine.untried_with_interventions():
        yield (), message
    count = _known_layers(engine)
    layers = asked.layers if isinstance(asked.layers, list) else []
    for place, layer in enumerate(layers if count is not None else ()):
        if isinstance(layer, int) and count is not None and layer >= count:
            yield ("layers", place), f"the model has {count} layers, counted from 0: the last one is {count - 1}"
    if isinstance(asked.layers, BestLayers) and count is not None and (asked.layers.best or 0) > count:
        yield ("layers", "best"), f"the model has {count} layers only"


def _direction_mistakes(
    asked: Intervention, direction: Direction, engine: Engine | None, fitted_on: Engine | None
) -> Iterator[Mistake]:
    """Yield what an intervention asks of its direction that it cannot give.

    Args:
        asked: the entry, as far as it can be read.
        direction: its direction, likewise.
        engine: the steered model's engine, where the catalogue has it.
        fitted_on: that of the direction's model, likewise.
    """
    one, other = (getattr(served_by, "weights", None) for served_by in (engine, fitted_on))
    if one is not None and other is not None and one != other and not asked.other_weights:
        message = (
            f"`{asked.direction}` is of model `{direction.model}`, whose engine has other weights than this model's, "
            "and vectors of one model mean nothing in an unrelated one; fit it on these weights, or, where one model "
            "was trained from the other, say `other_weights: true`"
        )
        yield ("direction",), message
    if asked.mode == "pull" and direction.method == "random":
        yield ("mode",), PULL_AT_RANDOM
    captured = direction.layers
    if captured is None:
        return
    layers = asked.layers if isinstance(asked.layers, list) else []
    for place, layer in enumerate(layers):
        if isinstance(layer, int) and layer not in captured:
            has = ", ".join(map(str, sorted(captured)))
            yield ("layers", place), f"direction `{asked.direction}` has no vector for it: its `layers` are {has}"
    best = asked.layers.best if isinstance(asked.layers, BestLayers) else None
    if best is not None and best > len(captured):
        yield ("layers", "best"), f"direction `{asked.direction}` has {len(captured)} `layers` only"


def _known_layers(engine: Engine) -> int | None:
    """Return the number of an engine's decoder layers; None before its weights, which tell it, are here."""
    folder = getattr(getattr(engine, "weights", None), "path", None)
    if not isinstance(folder, str):
        return None
    try:
        config = json.loads(Path(folder, "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None  # other checks tell of it
    found = of_text(config).get(LAYERS_KEY) if isinstance(config, dict) else None
    return found if type(found) is int else None
