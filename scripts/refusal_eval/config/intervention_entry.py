"""The intervention of a model's entry: what is done along a direction while the model runs, and mistakes in it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from refusal_eval.config.direction_entry import Direction
from refusal_eval.config.engine_entry import Engine
from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import Entry, Number, Slug, Whole
from refusal_eval.core.hints import nearest

# Which modes each key belongs to; in others it would say something that is not done.
KEYS_OF = {"gate": ("gated",), "offset": ("ablate",), "towards": ("pull",)}
SCALED = ("add", "gated", "pull")  # modes without a scale that goes without saying
PULL_AT_RANDOM = (
    "`pull` moves towards the mean of a side and ignores the vector, so that with a direction of method `random` it is "
    "the same as with the real one and no control; take `add` or `ablate`, or `pull` with sides of unrelated prompts"
)
LAYERS_KEY, TEXT_PARTS = "num_hidden_layers", ("text_config", "llm_config", "language_config")


def _each_once(layers: list[int]) -> list[int]:
    twice = next((layer for layer in layers if layers.count(layer) > 1), None)
    if twice is not None:
        raise ValueError(f"names layer {twice} twice")
    return layers


Layer = Annotated[Whole, Field(ge=0)]


class BestLayers(Entry):
    """The layers that tell the direction's two sides apart best, on prompts that it was not fitted on."""

    best: Whole = Field(ge=1, description="How many.")


class Intervention(Entry):
    """What is done to the residual stream along a direction while the model runs (docs/interventions.md)."""

    direction: Slug = Field(description="Name of a direction of the catalogue.")
    mode: Literal["add", "ablate", "gated", "pull"] = Field(
        description="`add` the direction; `ablate`: remove the component along it; `gated`: add it to tokens that are "
        "similar to it; `pull` towards the mean of one side."
    )
    layers: Annotated[list[Layer], Field(min_length=1), AfterValidator(_each_once)] | BestLayers = Field(
        description="Decoder layers after which it is done, counted from 0, or `{best: 4}`: those that the direction "
        "ranks first."
    )
    scale: Number | None = Field(
        None,
        description="Factor of the direction, in units of the difference of means; negative ones lead to the negative "
        "side. Of `pull` and `ablate` the share of the way. Default: none; 1 for `ablate`.",
    )
    gate: Number | None = Field(
        None, ge=-1, le=1, description="For `gated`: the cosine similarity that a token must exceed."
    )
    offset: Literal["none", "midpoint"] = Field(
        "none",
        description="For `ablate`: where the component is removed to, 0 or that of the midpoint between both means.",
    )
    towards: Literal["negative", "positive"] = Field("negative", description="For `pull`: whose mean.")
    other_weights: bool = Field(
        False,
        description="Take a direction of other weights than the model's, such as those of its base model. They must "
        "agree in architecture, depth and width.",
    )


def intervention_mistakes(
    asked: Intervention, engine: Engine | None, known: Collection[str] | None
) -> Iterator[Mistake]:
    """Yield what is wrong with a model's intervention that none of its keys shows by itself.

    Args:
        asked: the entry, as far as it could be told.
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
    count = known_layers(engine)
    layers = asked.layers if isinstance(asked.layers, list) else []
    for place, layer in enumerate(layers if count is not None else ()):
        if isinstance(layer, int) and count is not None and layer >= count:
            yield ("layers", place), f"the model has {count} layers, counted from 0: the last one is {count - 1}"
    if isinstance(asked.layers, BestLayers) and count is not None and (asked.layers.best or 0) > count:
        yield ("layers", "best"), f"the model has {count} layers only"


def direction_mistakes_of(
    asked: Intervention, direction: Direction, engine: Engine | None, fitted_on: Engine | None
) -> Iterator[Mistake]:
    """Yield what an intervention asks of its direction that it cannot give.

    Args:
        asked: the entry, as far as it could be told.
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


def known_layers(engine: Engine) -> int | None:
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


def of_text(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of a model's config.json that is about its decoder: of a model with other parts, the text's."""
    return next((config[part] for part in TEXT_PARTS if isinstance(config.get(part), Mapping)), config)
