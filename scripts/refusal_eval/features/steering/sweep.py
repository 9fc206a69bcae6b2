"""Sweeps: one entry that stands for models whose interventions differ in scale or layers, and their curves."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator

from refusal_eval.config.shapes import Entry, Number
from refusal_eval.core.texts import ranges
from refusal_eval.features.steering.intervention_entry import (
    MODES,
    Alpha,
    BestLayers,
    Intervention,
    Layers,
    intervention_of,
)

if TYPE_CHECKING:
    SweptMode = str
else:
    SweptMode = Literal[tuple(MODES)]

MINUS = "\u2212"
# Fields of a model that points of one curve may have otherwise.
OWN_OF_MODEL = {"label", "sweep", "unverified", "intervention"}


def _different(values: list[Any]) -> list[Any]:
    if any(value in values[:place] for place, value in enumerate(values)):
        raise ValueError("names a value twice")
    return values


class Sweep(Entry):
    """What the models of a dose-response study differ in; all combinations are models.

    The `intervention` leaves these keys out.
    """

    scale: Annotated[list[Number | Alpha], Field(min_length=1), AfterValidator(_different)] | None = Field(
        None,
        description="Scales, such as `[-1, -0.5, 0.5, 1]`, or each an `{alpha: -0.5, by: quantile}`. The model without "
        "an intervention is scale 0.",
    )
    layers: Annotated[list[Layers | BestLayers], Field(min_length=1), AfterValidator(_different)] | None = Field(
        None, description="Choices of layers, such as `[[15], [15, 16, 17, 18], {best: 4}]`."
    )
    mode: Annotated[list[SweptMode], Field(min_length=1), AfterValidator(_different)] | None = Field(
        None, description="Modes, such as `[add, reposition]`."
    )

    @model_validator(mode="after")
    def _says_something(self) -> Sweep:
        if self.scale is None and self.layers is None and self.mode is None:
            raise ValueError("name `scale`, `layers` or `mode`, or several of them: what its models differ in")
        return self


def swept_first(written: Any) -> dict[str, Any]:
    """Return what the first model of a sweep has of it; where the sweep has mistakes, what hides no other mistake."""
    try:
        sweep = Sweep.model_validate(written)
    except ValidationError:
        return {"scale": 0.0, "layers": [0]}
    first = {key: values[0] for key, values in sweep if values is not None}
    return {key: dict(value) if isinstance(value, Entry) else value for key, value in first.items()}


def swept(name: str, model: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of each model of a sweep, and the keys in which it differs from the sweep's entry."""
    assert model.sweep is not None
    modes: Sequence[str | None] = model.sweep.mode or [None]
    scales: Sequence[float | Alpha | None] = model.sweep.scale or [None]
    choices: Sequence[list[int] | BestLayers | None] = model.sweep.layers or [None]
    for mode, scale, layers in itertools.product(modes, scales, choices):
        changes: dict[str, Any] = {}
        names, labels = [name], [model.label]
        if mode is not None:
            changes["mode"] = mode
            names.append(mode)
            labels.append(mode)
        if scale is not None:
            changes["scale"] = dict(scale) if isinstance(scale, Alpha) else scale
            word, factor = ("alpha", scale.alpha) if isinstance(scale, Alpha) else ("scale", scale)
            names.append(f"{word}{factor:g}".replace("+", ""))
            labels.append(f"{word} {factor:g}".replace("-", MINUS))
        if layers is not None:
            changes["layers"] = layers if isinstance(layers, list) else dict(layers)
            names.append(_layers_name(layers))
            labels.append(f"layers {_layers_text(layers)}")
        label = ", ".join(map(str, labels)) if model.label else None
        yield ".".join(names), {"sweep": None, "label": label, "intervention": changes}


def _layers_text(layers: Sequence[int] | BestLayers, to: str = "\u2013", between: str = ", ") -> str:
    """Return layers in few characters."""
    if not isinstance(layers, BestLayers):
        return ranges(sorted(layers), to, between)
    how = [] if layers.by == "area" else [f"by {layers.by}"]
    how += [] if layers.drop_deepest is None else [f"without the deepest {100 * layers.drop_deepest:g} %"]
    return f"best {layers.best}" + (f" ({', '.join(how)})" if how else "")


def _layers_name(layers: Sequence[int] | BestLayers) -> str:
    """Return the part of a model's name that says its layers."""
    if not isinstance(layers, BestLayers):
        return f"layers{_layers_text(layers, 'to', '-')}"
    by = "" if layers.by == "area" else layers.by
    drop = "" if layers.drop_deepest is None else f"drop{layers.drop_deepest:g}"
    return f"best{layers.best}{by}{drop}"


# ---------------------------------------------------------------- curves


def curves(models: Mapping[str, Any], directions: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return the scales, ascending, of models that differ in nothing else, by model and by the curve that they are.

    The model without an intervention has scale 0 in each of its curves, as a model with this scale has. A curve's label
    says what it differs in from the others: what is steered, the direction, the mode, its layers.

    Args:
        models: in order.
        directions: entries of the directions that their interventions name.
    """
    plain: dict[str, str] = {}
    groups: dict[str, dict[str, float]] = {}
    parts: dict[str, list[str]] = {}
    steered = [(name, model) for name, model in models.items() if intervention_of(model) is not None]
    for name, model in models.items():
        if model.intervention is None:
            plain.setdefault(_rest(model), name)
    for name, model in steered:
        asked = intervention_of(model)
        assert asked is not None
        key = _rest(model) + repr([asked.in_alpha, asked.key(without=("scale",))])
        groups.setdefault(key, {})[name] = asked.factor
        base = plain.get(_rest(model)) if asked.plain_at_0 else None
        shown = plain.get(_rest(model))
        parts.setdefault(key, [(models[shown].label or shown) if shown else model.engine, *_words(asked, directions)])
        if base is not None:
            groups[key][base] = 0.0
    differing = [place for place, column in enumerate(zip(*parts.values(), strict=True)) if len(set(column)) > 1]
    found: dict[str, dict[str, float]] = {}
    for key, points in groups.items():
        label = ", ".join(parts[key][place] for place in differing or [1])
        if label in found:
            label = f"{label} ({next(iter(points))})"
        found[label] = dict(sorted(points.items(), key=lambda point: point[1]))
    return found


def _rest(model: Any) -> str:
    return repr(model.model_dump(exclude=OWN_OF_MODEL))


def _words(asked: Intervention, directions: Mapping[str, Any]) -> list[str]:
    """What tells an intervention from others, but for its scale."""
    label = " and ".join(getattr(directions.get(name), "label", None) or name for name in asked.directions)
    plain = asked.model_dump()
    gate = "no gate" if plain["gate"] is None else f"gate {plain['gate']:g}"
    where = f"layers {_layers_text(asked.layers)}"
    unit = "alpha" if asked.in_alpha else "scale"
    return [label, asked.mode, where, gate, f"offset {plain['offset']}", f"towards {plain['towards']}", unit]
